import type { StopSignal } from "../../base/stop_signal.ts";
import type { IncomingResponse, OutgoingRequest, Transport } from "../../base/transport.ts";
import { type MemoryHandler, MemoryTransport } from "./memory.ts";

/** The top-level domain of servers inside this process: no name server knows it. */
const INSIDE = ".embedded";

/** The address of a server inside this process, by its name; unlike names may look alike in it, so `index` is part of it. */
export function insideUrl(name: string, index: number): string {
  const label = name.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-+|-+$/g, "");
  return `http://${label === "" ? "model" : label.slice(0, 40)}-${index + 1}${INSIDE}`;
}

/** Sends to servers inside this process by their address, and everything else over the network. */
export class RoutedTransport implements Transport {
  readonly #inside: MemoryTransport;
  readonly #network: Transport;

  /** `servers` by their host names. The network's transport is left open when this one closes. */
  constructor(servers: ReadonlyMap<string, MemoryHandler>, network: Transport) {
    this.#inside = new MemoryTransport(({ url }) => servers.get(new URL(url).hostname));
    this.#network = network;
  }

  send(request: OutgoingRequest, signal: StopSignal): Promise<IncomingResponse> {
    const inside = new URL(request.url).hostname.endsWith(INSIDE);
    return (inside ? this.#inside : this.#network).send(request, signal);
  }

  async close(): Promise<void> {
    await this.#inside.close();
  }
}
