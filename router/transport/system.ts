import type { Transport } from "../../base/transport.ts";
import { SocketTransport } from "./sockets.ts";

/** The transport over the machine's network. `ca`: certificates (PEM) to trust instead of the system's. */
export function systemTransport(options: { readonly ca?: string | undefined } = {}): Transport {
  return new SocketTransport(options);
}
