import { createServer, type Server } from "node:net";
import process from "node:process";

/** Below those that systems give to clients, so that nobody gets one of these by chance. */
const FIRST_PORT = 10_000;
const BLOCKS = 200;
const BLOCK_PORTS = 100;

/** Ports for servers that want to be told theirs: no other test has them, in this run or in another beside it. */
export interface PortBlock {
  /** The first of 99 ports. */
  readonly base: number;
  release(): Promise<void>;
}

/** Takes a block of ports: who listens on the port before them has them. */
export async function takePorts(): Promise<PortBlock> {
  for (let tries = 0; tries < BLOCKS; tries++) {
    const port = FIRST_PORT + (process.pid + tries) % BLOCKS * BLOCK_PORTS;
    const server = await holdPort(port);
    if (server === undefined) continue;
    const release = () => new Promise<void>((resolve) => server.close(() => resolve()));
    return { base: port + 1, release };
  }
  throw new Error(`All blocks of ports from ${FIRST_PORT} on are taken: is something else listening there?`);
}

/** Listens on a port of this host; undefined when somebody does so already. */
export function holdPort(port: number): Promise<Server | undefined> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", () => resolve(undefined));
    server.listen({ host: "127.0.0.1", port, exclusive: true }, () => resolve(server));
  });
}
