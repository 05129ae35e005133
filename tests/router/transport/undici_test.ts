import process from "node:process";
import { UndiciTransport } from "../../../router/transport/undici.ts";
import { transportContract } from "./contract.ts";
import { startNetServer } from "./scripted_server.ts";

// Under Bun a paused node:net socket goes on reading into memory, which is why this transport is for Deno only.
if (process.versions.bun === undefined) {
  transportContract({
    name: "undici",
    sockets: true,
    knowsReuse: true,
    streams: 600,
    start: async (script) => ({ ...await startNetServer(script), transport: new UndiciTransport() }),
    nobody: async () => {
      const server = await startNetServer(() => {});
      await server.stop();
      return server.url;
    },
  });
}
