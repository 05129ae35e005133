import type { Transport } from "../../base/transport.ts";
import type { TlsClientOptions } from "./worker_socket.ts";
import { SocketTransport } from "./sockets.ts";

/** The transport over the machine's network. */
export function systemTransport(options: TlsClientOptions = {}): Transport {
  return new SocketTransport(options);
}
