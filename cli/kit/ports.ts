import { createServer } from "node:net";
import { listenError } from "../../base/listen_error.ts";

/** Tries whether this host could listen on an address; a sentence that says why not, else undefined. */
export function portProblem(host: string, port: number): Promise<string | undefined> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", (error) => resolve(listenError(host, port, error).message));
    server.listen({ host, port, exclusive: true }, () => server.close(() => resolve(undefined)));
  });
}
