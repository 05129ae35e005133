import { MemoryTransport } from "../../../router/transport/memory.ts";
import { transportContract } from "./contract.ts";
import { memoryServer } from "./scripted_server.ts";

transportContract({
  name: "memory",
  sockets: false,
  knowsReuse: false,
  streams: 600,
  start: (script) => {
    const { handler, requests } = memoryServer(script);
    const transport = new MemoryTransport((request) =>
      new URL(request.url).host === "server" ? handler : undefined
    );
    return Promise.resolve({ url: "http://server", requests, stop: () => Promise.resolve(), transport });
  },
  nobody: () => Promise.resolve("http://nobody"),
});
