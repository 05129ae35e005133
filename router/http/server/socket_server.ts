import { Bag, type Stay } from "../../../base/bag.ts";
import { SystemClock } from "../../../base/clock.ts";
import { BUN_HANDLERS, type RawSocket } from "../../transport/bun_socket.ts";
import { SOCKET_TURN } from "../../transport/turn.ts";
import { ClientConnection, type ClientSocket, type ServedBy } from "./client_connection.ts";
import type { Fetches } from "./fetches.ts";
import { ResponseHeads } from "./response_head.ts";

interface BunListener {
  readonly port: number;
  stop(closeActive: boolean): void;
}

/** What makes Bun's listening sockets: the runtime itself. */
export interface BunListens {
  listen(options: {
    hostname: string;
    port: number;
    reusePort: boolean;
    allowHalfOpen: boolean;
    socket: typeof BUN_HANDLERS;
  }): BunListener;
}

/**
 * HTTP/1.1 over Bun's own sockets: a relayed request costs less here than behind `Bun.serve`, as no `Request`, `Headers`,
 * `Response` or stream is made for it, and what a turn of the event loop brings is read and answered together.
 */
export class SocketServer {
  readonly #listener: BunListener;
  readonly #served: ServedBy;
  readonly #connections = new Bag<ClientConnection>();
  #idle: (() => void) | undefined;
  #closing = false;

  /** Throws when the address cannot be taken. */
  constructor(
    bun: BunListens,
    app: Fetches,
    { host, port, sharesPort }: { host: string; port: number; sharesPort: boolean },
  ) {
    // Sockets are real, whatever the clock.
    const clock = new SystemClock();
    this.#served = { app, clock, turn: SOCKET_TURN, heads: new ResponseHeads(clock) };
    this.#listener = bun.listen({
      hostname: host,
      port,
      reusePort: sharesPort,
      allowHalfOpen: true,
      socket: {
        ...BUN_HANDLERS,
        open: (raw: RawSocket) => this.#open(raw as ClientSocket),
      },
    });
  }

  get port(): number {
    return this.#listener.port;
  }

  /** Refuses new connections; resolves when the requests in flight have been answered. */
  async shutdown(): Promise<void> {
    this.#closing = true;
    this.#listener.stop(false);
    for (const connection of this.#connections.members()) connection.close();
    if (this.#connections.size > 0) await new Promise<void>((resolve) => this.#idle = resolve);
  }

  #open(raw: ClientSocket): void {
    const connection = new ClientConnection(this.#served, raw);
    const stay = this.#connections.add(connection);
    connection.onGone = () => this.#forget(stay);
    if (this.#closing) connection.destroy();
  }

  #forget(connection: Stay<ClientConnection>): void {
    this.#connections.remove(connection);
    if (this.#connections.size === 0) this.#idle?.();
  }
}
