import { createServer } from "node:net";

/** Tries whether this host could listen on an address; a sentence that says why not, else undefined. */
export function portProblem(host: string, port: number): Promise<string | undefined> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", (error: Error & { code?: string }) => {
      resolve(error.code === "EADDRINUSE" ? "it is taken" : error.message);
    });
    server.listen({ host, port, exclusive: true }, () => server.close(() => resolve(undefined)));
  });
}
