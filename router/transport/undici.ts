import { Client, type Dispatcher } from "undici/index.js";
import {
  type IncomingResponse,
  type OutgoingRequest,
  type Transport,
  TransportError,
  type TransportErrorCode,
} from "../../base/transport.ts";

/** Idle sockets are closed after this long: uvicorn closes its side after 5 s, and both must not cross. */
const IDLE_MS = 3_000;
/** Idle connections kept per origin; more are closed at once. */
const MAX_IDLE = 256;
/** Unread bytes of one body at which its socket is paused. */
const HIGH_WATER_BYTES = 64 * 1024;
/** Unread chunks of one body at which its socket is paused. */
const HIGH_WATER_CHUNKS = 64;
/** Longest response head. */
const MAX_HEAD_BYTES = 128 * 1024;
const DEFAULT_CONNECT_TIMEOUT_MS = 10_000;

/**
 * HTTP/1.1 over undici's `Client`, one client per socket, so that it is known whether a socket was used before,
 * and that nothing is ever sent twice. No time limits of its own but the one for connecting. `ca`: certificates (PEM)
 * to trust instead of the system's.
 */
export class UndiciTransport implements Transport {
  readonly #idle = new Map<string, Connection[]>();
  readonly #busy = new Set<Connection>();
  readonly #tls: { readonly ca?: string };
  #closed: { resolve: () => void; promise: Promise<void> } | undefined;

  constructor(options: { readonly ca?: string } = {}) {
    this.#tls = options;
  }

  send(request: OutgoingRequest, signal: AbortSignal): Promise<IncomingResponse> {
    if (signal.aborted) return Promise.reject(signal.reason);
    if (this.#closed !== undefined) {
      return Promise.reject(
        new TransportError("connect_failed", request.url, { cause: new Error("The transport is closed") }),
      );
    }
    let target: URL;
    try {
      target = new URL(request.url);
    } catch (cause) {
      return Promise.reject(new TransportError("connect_failed", request.url, { cause }));
    }
    const timeout = request.connectTimeoutMs ?? DEFAULT_CONNECT_TIMEOUT_MS;
    const connection = this.#take(target.origin, { timeout, ...this.#tls });
    return new Promise((resolve, reject) => {
      new Exchange(request, target.pathname + target.search, connection, signal, {
        resolve,
        reject,
        done: (reusable) => this.#give(connection, reusable),
      });
    });
  }

  async close(): Promise<void> {
    if (this.#closed === undefined) {
      this.#closed = Promise.withResolvers<void>();
      for (const list of [...this.#idle.values()]) {
        for (const connection of [...list]) this.#drop(connection);
      }
      if (this.#busy.size === 0) this.#closed.resolve();
    }
    await this.#closed.promise;
  }

  #take(origin: string, connect: ConnectOptions): Connection {
    const list = this.#idle.get(origin);
    const connection = list?.pop() ?? new Connection(origin, connect, (idle) => this.#drop(idle));
    if (list?.length === 0) this.#idle.delete(origin);
    connection.idle = false;
    this.#busy.add(connection);
    return connection;
  }

  #give(connection: Connection, reusable: boolean): void {
    this.#busy.delete(connection);
    const list = this.#idle.get(connection.origin);
    if (!reusable || this.#closed !== undefined || (list?.length ?? 0) >= MAX_IDLE) connection.destroy();
    else {
      connection.served++;
      connection.idle = true;
      if (list === undefined) this.#idle.set(connection.origin, [connection]);
      else list.push(connection);
    }
    if (this.#busy.size === 0) this.#closed?.resolve();
  }

  /** Forgets an idle connection whose socket has been closed by either side. */
  #drop(connection: Connection): void {
    const list = this.#idle.get(connection.origin);
    const at = list?.indexOf(connection) ?? -1;
    if (list !== undefined && at >= 0) {
      list.splice(at, 1);
      if (list.length === 0) this.#idle.delete(connection.origin);
    }
    connection.destroy();
  }
}

type ConnectOptions = { readonly timeout: number; readonly ca?: string };

/** One socket. */
class Connection {
  readonly origin: string;
  readonly client: Client;
  /** Requests that the present socket has answered. */
  served = 0;
  idle = false;

  constructor(origin: string, connect: ConnectOptions, onIdleClose: (connection: Connection) => void) {
    this.origin = origin;
    this.client = new Client(origin, {
      allowH2: false,
      pipelining: 1,
      headersTimeout: 0,
      bodyTimeout: 0,
      keepAliveTimeout: IDLE_MS,
      keepAliveMaxTimeout: IDLE_MS,
      maxHeaderSize: MAX_HEAD_BYTES,
      connect,
    });
    this.client.on("disconnect", () => {
      this.served = 0;
      if (this.idle) onIdleClose(this);
    });
  }

  destroy(reason?: Error): void {
    this.idle = false;
    // After an abort undici is still inside its own callback; destroying a client there trips its assertions.
    queueMicrotask(() => this.client.destroy(reason ?? null).catch(() => {}));
  }
}

interface Outcome {
  readonly resolve: (response: IncomingResponse) => void;
  readonly reject: (error: unknown) => void;
  /** Called once, when the exchange is over. */
  readonly done: (reusable: boolean) => void;
}

type State = "sent" | "streaming" | "ended" | "failed";

/** One request and its response: undici pushes, the reader of the body pulls, a full buffer pauses the socket. */
class Exchange implements Dispatcher.DispatchHandler, AsyncIterableIterator<Uint8Array> {
  readonly #url: string;
  readonly #connection: Connection;
  readonly #signal: AbortSignal;
  readonly #outcome: Outcome;
  readonly #reused: boolean;
  readonly #onAbort = () => this.#leave(this.#signal.reason);
  #controller: Dispatcher.DispatchController | undefined;
  #state: State = "sent";
  #keepAlive = true;
  #chunks: Uint8Array[] = [];
  #read = 0;
  #bytes = 0;
  #paused = false;
  #failure: unknown;
  #reader:
    | { resolve: (result: IteratorResult<Uint8Array>) => void; reject: (error: unknown) => void }
    | undefined;

  constructor(
    request: OutgoingRequest,
    path: string,
    connection: Connection,
    signal: AbortSignal,
    outcome: Outcome,
  ) {
    this.#url = request.url;
    this.#connection = connection;
    this.#signal = signal;
    this.#outcome = outcome;
    this.#reused = connection.served > 0;
    signal.addEventListener("abort", this.#onAbort, { once: true });
    try {
      connection.client.dispatch({
        method: request.method,
        path,
        headers: request.headers,
        body: request.body ?? null,
      }, this);
    } catch (error) {
      this.onResponseError(undefined, error);
    }
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    if (this.#state === "failed") controller.abort(asError(this.#failure));
  }

  onResponseStart(
    _controller: Dispatcher.DispatchController,
    status: number,
    rawHeaders: Record<string, string | string[] | undefined>,
  ): void {
    if (this.#state !== "sent" || status < 200) return;
    this.#state = "streaming";
    const headers: Record<string, string> = {};
    for (const name in rawHeaders) {
      const value = rawHeaders[name];
      if (value !== undefined) headers[name] = typeof value === "string" ? value : value.join(", ");
    }
    this.#keepAlive = !/\bclose\b/i.test(headers.connection ?? "");
    this.#outcome.resolve({ status, headers, body: this });
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Uint8Array): void {
    if (this.#state !== "streaming") return;
    if (this.#reader !== undefined) {
      const reader = this.#reader;
      this.#reader = undefined;
      return reader.resolve({ done: false, value: chunk });
    }
    this.#chunks.push(chunk);
    this.#bytes += chunk.length;
    if (this.#bytes >= HIGH_WATER_BYTES || this.#chunks.length - this.#read >= HIGH_WATER_CHUNKS) {
      this.#paused = true;
      controller.pause();
    }
  }

  onResponseEnd(): void {
    if (this.#state !== "streaming") return;
    this.#state = "ended";
    this.#over(this.#keepAlive);
    this.#reader?.resolve({ done: true, value: undefined });
    this.#reader = undefined;
  }

  onResponseError(_controller: Dispatcher.DispatchController | undefined, error: unknown): void {
    if (this.#state === "ended" || this.#state === "failed") return;
    this.#fail(
      new TransportError(this.#codeOf(error), this.#url, { cause: error, reusedSocket: this.#reused }),
    );
  }

  next(): Promise<IteratorResult<Uint8Array>> {
    const chunk = this.#chunks[this.#read];
    if (chunk !== undefined) {
      this.#read++;
      this.#bytes -= chunk.length;
      if (this.#read === this.#chunks.length) {
        this.#chunks = [];
        this.#read = 0;
        if (this.#paused) {
          this.#paused = false;
          this.#controller?.resume();
        }
      }
      return Promise.resolve({ done: false, value: chunk });
    }
    if (this.#state === "failed" && this.#failure !== undefined) {
      const failure = this.#failure;
      this.#failure = undefined;
      return Promise.reject(failure);
    }
    if (this.#state !== "streaming") return Promise.resolve({ done: true, value: undefined });
    if (this.#reader !== undefined) return Promise.reject(new Error("Cannot read: another read is waiting"));
    return new Promise((resolve, reject) => this.#reader = { resolve, reject });
  }

  return(): Promise<IteratorResult<Uint8Array>> {
    this.#leave(undefined);
    this.#chunks = [];
    this.#read = 0;
    return Promise.resolve({ done: true, value: undefined });
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  /** We end the exchange: the socket is closed in this turn. */
  #leave(reason: unknown): void {
    if (this.#state === "ended" || this.#state === "failed") return;
    this.#fail(reason);
    if (this.#controller !== undefined) this.#controller.abort(asError(reason));
    else this.#connection.destroy(asError(reason));
  }

  #fail(error: unknown): void {
    const before = this.#state;
    this.#state = "failed";
    this.#failure = error;
    // What was received before a break is still good; what we left ourselves is not wanted.
    if (!(error instanceof TransportError)) {
      this.#chunks = [];
      this.#read = 0;
    }
    this.#over(false);
    if (before === "sent") this.#outcome.reject(error);
    else if (this.#reader !== undefined) {
      const reader = this.#reader;
      this.#reader = undefined;
      this.#failure = undefined;
      if (error === undefined) reader.resolve({ done: true, value: undefined });
      else reader.reject(error);
    }
  }

  #over(reusable: boolean): void {
    this.#signal.removeEventListener("abort", this.#onAbort);
    this.#outcome.done(reusable);
  }

  #codeOf(error: unknown): TransportErrorCode {
    if (this.#state === "streaming") return "reset_in_body";
    if (this.#controller === undefined) return "connect_failed";
    if (!(error instanceof Error)) return "reset_before_head";
    const notHttp = error.name === "HTTPParserError" || error.name === "HeadersOverflowError" ||
      error.message === "bad response" || error.message === "bad upgrade";
    return notHttp ? "invalid_response" : "reset_before_head";
  }
}

function asError(reason: unknown): Error {
  return reason instanceof Error ? reason : new Error("The request was given up", { cause: reason });
}
