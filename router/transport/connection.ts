import type { Buffer } from "node:buffer";
import net from "node:net";
import tls from "node:tls";
import type { Clock } from "../../base/clock.ts";
import type { OutgoingRequest } from "../../base/transport.ts";
import { type ResponseHandler, ResponseParser } from "./response_parser.ts";
import { requestBytes } from "./request_bytes.ts";
import type { Target } from "./target.ts";

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

/** Sides of TLS to workers, all in PEM. */
export interface TlsClientOptions {
  /** Certificates to trust instead of the system's. */
  readonly ca?: string | undefined;
  /** Certificates to trust besides the system's. */
  readonly moreCa?: readonly string[] | undefined;
  /** The certificate that is shown to servers that ask for one, and its key. */
  readonly cert?: string | undefined;
  readonly key?: string | undefined;
}

/** Options of a connection. */
export interface ConnectionOptions {
  readonly clock: Clock;
  /** Time limit of the name's look-up, the connection and TLS's handshake together, in ms. */
  readonly connectTimeoutMs: number;
  readonly tls?: TlsClientOptions | undefined;
  /** Called when the other side closes it between two requests. */
  readonly onIdleClose: (connection: Connection) => void;
}

function tlsOptions({ ca, moreCa = [], cert, key }: TlsClientOptions = {}): tls.ConnectionOptions {
  const trusted = moreCa.length === 0 ? ca : [...tls.rootCertificates, ...moreCa];
  return {
    ...(trusted === undefined ? {} : { ca: trusted }),
    ...(cert === undefined || key === undefined ? {} : { cert, key }),
  };
}

/** One socket to a worker, for one request at a time. */
export class Connection {
  readonly #parser = new ResponseParser();
  readonly #socket: net.Socket;
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
    const { host, port } = target;
    const socket = target.tls
      ? tls.connect({
        host,
        port,
        ALPNProtocols: ["http/1.1"],
        ...(net.isIP(host) === 0 ? { servername: host } : {}),
        ...tlsOptions(options.tls),
      })
      : net.connect({ host, port, noDelay: true });
    if (target.tls) socket.setNoDelay(true);
    socket.once(target.tls ? "secureConnect" : "connect", this.#onConnect);
    socket.on("data", this.#onData);
    socket.on("end", this.#onEnd);
    socket.on("error", this.#onError);
    socket.on("close", this.#onClose);
    this.#socket = socket;
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
    if (this.#connected) this.#write(bytes);
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

  #write(pieces: readonly (string | Uint8Array)[]): void {
    for (const piece of pieces) {
      if (typeof piece === "string") this.#socket.write(piece, "utf8");
      else this.#socket.write(piece);
    }
  }

  readonly #onConnect = () => {
    this.#connected = true;
    this.#cancelConnecting();
    const outgoing = this.#outgoing;
    this.#outgoing = undefined;
    if (outgoing !== undefined) this.#write(outgoing);
  };

  readonly #onData = (data: Buffer | string) => {
    if (this.#closed || typeof data === "string") return;
    const user = this.#user;
    // Nobody asked for these bytes.
    if (user === undefined) return this.#break(new Error("The worker sent bytes without a request"));
    this.#answering = true;
    const state = this.#parser.parse(data);
    if (state === "open") {
      if (user.onBatch() && !this.#closed) {
        this.#paused = true;
        this.#socket.pause();
      }
    } else if (state === "invalid") this.#break(new Error(this.#parser.problem), true);
    else this.#end(user, state === "ended" && this.#socket.writableLength === 0);
  };

  readonly #onEnd = () => {
    if (this.#closed) return;
    const user = this.#user;
    if (user !== undefined && this.#answering && this.#parser.finish() === "ended_for_good") {
      this.#end(user, false);
    } else this.#break(new Error("The worker closed the connection"));
  };

  readonly #onError = (error: Error) => {
    this.#error ??= error;
  };

  readonly #onClose = () => {
    if (!this.#closed) this.#break(this.#error ?? new Error("The connection was closed"));
  };

  #end(user: ConnectionUser, reusable: boolean): void {
    this.#served++;
    this.#user = undefined;
    if (!reusable) this.#close();
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
