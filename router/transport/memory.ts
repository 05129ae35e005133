import type { StopSignal } from "../../base/stop_signal.ts";
import {
  type IncomingResponse,
  type OutgoingRequest,
  type Transport,
  TransportError,
} from "../../base/transport.ts";

/** A server in this process, under the contract of `Transport.send`. */
export type MemoryHandler = (request: OutgoingRequest, signal: AbortSignal) => Promise<IncomingResponse>;

/**
 * A transport without sockets: `route` gives the server of a request, or undefined for `connect_failed`.
 * A handler sees a client that leaves in both ways that a real server does: its signal aborts, and the
 * iteration of its body ends.
 */
export class MemoryTransport implements Transport {
  readonly #route: (request: OutgoingRequest) => MemoryHandler | undefined;
  #inFlight = 0;
  #closed: { resolve: () => void; promise: Promise<void> } | undefined;

  constructor(route: (request: OutgoingRequest) => MemoryHandler | undefined) {
    this.#route = route;
  }

  /** Exchanges whose body has not ended yet. */
  get inFlight(): number {
    return this.#inFlight;
  }

  send(request: OutgoingRequest, signal: StopSignal): Promise<IncomingResponse> {
    if (signal.aborted) return Promise.reject(signal.reason);
    const handler = this.#closed === undefined ? this.#route(request) : undefined;
    if (handler === undefined) return Promise.reject(new TransportError("connect_failed", request.url));
    this.#inFlight++;
    return new Promise((resolve, reject) => {
      new MemoryExchange(request, handler, signal, resolve, reject, () => {
        this.#inFlight--;
        if (this.#inFlight === 0) this.#closed?.resolve();
      });
    });
  }

  async close(): Promise<void> {
    if (this.#closed === undefined) {
      this.#closed = Promise.withResolvers<void>();
      if (this.#inFlight === 0) this.#closed.resolve();
    }
    await this.#closed.promise;
  }
}

type Result = IteratorResult<Uint8Array>;

/** One exchange: pulls from the handler's body only when it is itself read, and lets go of it at once on abort. */
class MemoryExchange implements AsyncIterableIterator<Uint8Array> {
  readonly #url: string;
  readonly #signal: StopSignal;
  /** The client's connection, as the handler sees it. */
  readonly #connection = new AbortController();
  readonly #over: () => void;
  readonly #rejectHead: (error: unknown) => void;
  readonly #onAbort = () => this.#leave(this.#signal.reason);
  #source: AsyncIterator<Uint8Array> | undefined;
  #ended = false;
  #failure: unknown;
  #reader: { resolve: (result: Result) => void; reject: (error: unknown) => void } | undefined;

  constructor(
    request: OutgoingRequest,
    handler: MemoryHandler,
    signal: StopSignal,
    resolve: (response: IncomingResponse) => void,
    reject: (error: unknown) => void,
    over: () => void,
  ) {
    this.#url = request.url;
    this.#signal = signal;
    this.#over = over;
    this.#rejectHead = reject;
    signal.addEventListener("abort", this.#onAbort, { once: true });
    handler(request, this.#connection.signal).then(
      (response) => {
        this.#source = response.body[Symbol.asyncIterator]();
        if (this.#ended) return void this.#release();
        resolve({ status: response.status, headers: response.headers, body: this });
      },
      (cause) => {
        if (this.#ended) return;
        this.#end();
        reject(asTransportError(cause, "reset_before_head", this.#url));
      },
    );
  }

  next(): Promise<Result> {
    if (this.#ended) {
      const failure = this.#failure;
      this.#failure = undefined;
      return failure === undefined
        ? Promise.resolve({ done: true, value: undefined })
        : Promise.reject(failure);
    }
    if (this.#reader !== undefined) return Promise.reject(new Error("Cannot read: another read is waiting"));
    return new Promise((resolve, reject) => {
      this.#reader = { resolve, reject };
      this.#source?.next().then(this.#onResult, this.#onBreak);
    });
  }

  readonly #onResult = (result: Result) => {
    if (this.#ended) return;
    const reader = this.#reader;
    this.#reader = undefined;
    if (result.done) this.#end();
    reader?.resolve(result);
  };

  readonly #onBreak = (cause: unknown) => {
    if (this.#ended) return;
    const reader = this.#reader;
    this.#reader = undefined;
    this.#end();
    reader?.reject(asTransportError(cause, "reset_in_body", this.#url));
  };

  return(): Promise<Result> {
    this.#leave(undefined);
    return Promise.resolve({ done: true, value: undefined });
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  #leave(reason: unknown): void {
    if (this.#ended) return;
    const beforeHead = this.#source === undefined;
    this.#end();
    this.#connection.abort(reason ?? new Error("The client has closed the connection"));
    this.#release();
    if (beforeHead) return this.#rejectHead(reason);
    const reader = this.#reader;
    this.#reader = undefined;
    if (reader === undefined) this.#failure = reason;
    else if (reason === undefined) reader.resolve({ done: true, value: undefined });
    else reader.reject(reason);
  }

  #end(): void {
    this.#ended = true;
    this.#signal.removeEventListener("abort", this.#onAbort);
    this.#over();
  }

  #release(): void {
    this.#source?.return?.(undefined)?.then(() => {}, () => {});
  }
}

function asTransportError(cause: unknown, code: "reset_before_head" | "reset_in_body", url: string): unknown {
  return cause instanceof TransportError ? cause : new TransportError(code, url, { cause });
}
