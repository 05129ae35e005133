import process from "node:process";
import { FetchTransport } from "../../../router/transport/fetch.ts";
import { transportContract } from "./contract.ts";
import { startNetServer } from "./scripted_server.ts";

// Deno's fetch re-sends a POST on a dead kept socket, which is why this transport is for Bun only.
if (process.versions.bun !== undefined) {
  transportContract({
    name: "fetch",
    sockets: true,
    knowsReuse: false,
    streams: 200,
    start: async (script) => ({ ...await startNetServer(script), transport: new FetchTransport() }),
    nobody: async () => {
      const server = await startNetServer(() => {});
      await server.stop();
      return server.url;
    },
  });
}
