import type { Buffer } from "node:buffer";
import type { Clock } from "../../base/clock.ts";
import type { OutgoingRequest } from "../../base/transport.ts";
import { type ResponseHandler, ResponseParser } from "./response_parser.ts";
import { requestBytes } from "./request_bytes.ts";
import type { Target } from "./target.ts";
import type { Turn } from "./turn.ts";
import type { SocketOwner, TlsClientOptions, WorkerSocket } from "./worker_socket.ts";
import { BunSocket } from "./bun_socket.ts";
import { NodeSocket } from "./node_socket.ts";

/** Owner of a request on a connection, and receiver of the response. */
export interface ConnectionUser extends ResponseHandler {
  /** All bytes of one read have been handed over; true asks for no more until `resume`. */
  onBatch(): boolean;
  onEnd(reusable: boolean): void;
  /** The connection has gone before the end. */
  onBreak(how: Break): void;
}

/** How a connection broke. */
export interface Break {
  readonly connected: boolean;
  /** The connection had carried an earlier request, and not one byte of an answer to this one came. */
  readonly crossed: boolean;
  /** What came is not HTTP. */
  readonly invalid: boolean;
  readonly cause: Error;
}

/** Options of a connection. */
export interface ConnectionOptions {
  readonly clock: Clock;
  /** That of all connections. */
  readonly turn: Turn;
  /** Time limit of the name's look-up, the connection and TLS's handshake together, in ms. */
  readonly connectTimeoutMs: number;
  readonly tls?: TlsClientOptions | undefined;
  /** Called when the other side closes it between two requests. */
  readonly onIdleClose: (connection: Connection) => void;
}

/** One socket to a worker, for one request at a time. */
export class Connection implements SocketOwner {
  readonly #parser = new ResponseParser();
  readonly #socket: WorkerSocket;
  readonly #onIdleClose: (connection: Connection) => void;
  #user: ConnectionUser | undefined;
  /** Ends the wait for the connection. */
  readonly #cancelConnecting: () => void;
  #connected = false;
  /** Bytes to be sent when it is connected. */
  #outgoing: readonly (string | Uint8Array)[] | undefined;
  #served = 0;
  #answering = false;
  #paused = false;
  #closed = false;
  #error: Error | undefined;
  /** Clock time from which it is too old for another request; set by the pool. */
  staleAtMs = 0;

  constructor(target: Target, options: ConnectionOptions) {
    this.#onIdleClose = options.onIdleClose;
    // Bun's own sockets cost less than its `node:net`; certificates are the business of `node:tls` everywhere.
    this.#socket = !target.tls && BunSocket.available
      ? BunSocket.connect(target, this, options)
      : new NodeSocket(target, this, options);
    const { clock, connectTimeoutMs } = options;
    this.#cancelConnecting = clock.timer(
      connectTimeoutMs,
      () => this.#break(new Error(`No connection within ${connectTimeoutMs} ms`)),
    );
  }

  /** Sends a request as soon as the connection is there. */
  carry(request: OutgoingRequest, target: Target, user: ConnectionUser): void {
    const bytes = requestBytes(request, target);
    this.#user = user;
    this.#answering = false;
    this.#parser.begin(user);
    if (this.#connected) this.#socket.write(bytes);
    else this.#outgoing = bytes;
  }

  resume(): void {
    if (!this.#paused) return;
    this.#paused = false;
    this.#socket.resume();
  }

  /** Closes the socket at once; its user hears nothing more. */
  destroy(): void {
    this.#user = undefined;
    this.#close();
  }

  onConnect(): void {
    this.#connected = true;
    this.#cancelConnecting();
    const outgoing = this.#outgoing;
    this.#outgoing = undefined;
    if (outgoing !== undefined) this.#socket.write(outgoing);
  }

  get receiver(): object | undefined {
    return this.#user;
  }

  onData(data: Buffer, receiver: object | undefined): void {
    try {
      this.#read(data, receiver);
    } catch (error) {
      this.#break(error instanceof Error ? error : new Error(String(error)));
    }
  }

  #read(data: Buffer, receiver: object | undefined): void {
    if (this.#closed) return;
    const user = this.#user;
    // Nobody asked for these bytes: least of all a request that was written after they had come.
    if (user === undefined || user !== receiver) {
      return this.#break(new Error("The worker sent bytes without a request"));
    }
    this.#answering = true;
    const state = this.#parser.parse(data);
    if (state === "open") {
      if (user.onBatch() && !this.#closed) {
        this.#paused = true;
        this.#socket.pause();
      }
    } else if (state === "invalid") this.#break(new Error(this.#parser.problem), true);
    else this.#end(user, state === "ended" && !this.#socket.unsent);
  }

  onEnd(): void {
    if (this.#closed) return;
    const user = this.#user;
    if (user !== undefined && this.#answering && this.#parser.finish() === "ended_for_good") {
      this.#end(user, false);
    } else this.#break(new Error("The worker closed the connection"));
  }

  onError(error: Error): void {
    this.#error ??= error;
  }

  onClose(): void {
    if (!this.#closed) this.#break(this.#error ?? new Error("The connection was closed"));
  }

  #end(user: ConnectionUser, reusable: boolean): void {
    this.#served++;
    this.#user = undefined;
    if (!reusable) this.#close();
    // It may have been paused in the turn in which the answer ended.
    else this.resume();
    user.onEnd(reusable);
  }

  #break(cause: Error, invalid = false): void {
    const user = this.#user;
    const how = {
      connected: this.#connected,
      crossed: this.#served > 0 && !this.#answering,
      invalid,
      cause,
    };
    this.#user = undefined;
    this.#close();
    if (user === undefined) this.#onIdleClose(this);
    else user.onBreak(how);
  }

  #close(): void {
    if (this.#closed) return;
    this.#closed = true;
    if (!this.#connected) this.#cancelConnecting();
    this.#outgoing = undefined;
    this.#socket.destroy();
    this.#parser.free();
  }
}
