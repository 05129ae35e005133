import type { StopSignal } from "../../base/stop_signal.ts";
import {
  type IncomingResponse,
  type Lane,
  type OutgoingRequest,
  TransportError,
  type TransportErrorCode,
} from "../../base/transport.ts";
import type { Break, Connection, ConnectionUser } from "./connection.ts";
import type { Target } from "./target.ts";

/** Unread bytes of one body at which its socket is paused. */
const HIGH_WATER_BYTES = 64 * 1024;
/** Unread chunks of one body at which its socket is paused. */
const HIGH_WATER_CHUNKS = 1024;

const NOTHING = new Uint8Array();

type Result = IteratorResult<Uint8Array>;
type State = "waiting" | "sent" | "streaming" | "ended" | "failed";

/** Where an exchange takes place. */
export interface ExchangePlace {
  /** Called once, when the exchange is over. */
  done(exchange: Exchange, reusable: boolean): void;
}

/** The two ends of a promise. */
interface Settles<Value> {
  readonly resolve: (value: Value) => void;
  readonly reject: (error: unknown) => void;
}

/** One request and its response: the connection pushes, the reader of the body pulls, a full buffer pauses the socket. */
export class Exchange implements ConnectionUser, IncomingResponse, AsyncIterableIterator<Uint8Array> {
  /** Those of the response, once its head is there. */
  status = 0;
  headers: IncomingResponse["headers"] = {};
  readonly body: AsyncIterable<Uint8Array> = this;
  readonly bodiless: boolean;
  readonly lane: Lane;
  readonly connectTimeoutMs: number | undefined;
  readonly #url: string;
  /** Until it is written: bodies of prompts are long, and answers last. */
  #request: OutgoingRequest | undefined;
  readonly target: Target;
  readonly #signal: StopSignal;
  readonly #place: ExchangePlace;
  readonly #onAbort = () => this.#leave(this.#signal.reason);
  #connection: Connection | undefined;
  #state: State = "waiting";
  #chunks: Uint8Array[] = [];
  #bytes = 0;
  #failure: unknown;
  /** Waits for the head. */
  #sender: Settles<IncomingResponse> | undefined;
  #reader: Settles<Result> | undefined;

  constructor(request: OutgoingRequest, target: Target, signal: StopSignal, place: ExchangePlace) {
    this.#request = request;
    this.#url = request.url;
    this.lane = request.lane ?? "generation";
    this.connectTimeoutMs = request.connectTimeoutMs;
    this.target = target;
    this.bodiless = request.method === "HEAD";
    this.#signal = signal;
    this.#place = place;
    signal.addEventListener("abort", this.#onAbort, { once: true });
  }

  /** The connection that carries it; undefined while it waits for one. */
  get connection(): Connection | undefined {
    return this.#connection;
  }

  /**
   * This, once the response's head is there. Asked for once; not by a function of who sends, which would keep the request
   * as long as the answer lasts.
   */
  answered(): Promise<IncomingResponse> {
    return new Promise((resolve, reject) => this.#sender = { resolve, reject });
  }

  /** Sends the request. */
  start(connection: Connection): void {
    this.#connection = connection;
    this.#state = "sent";
    const request = this.#request!;
    this.#request = undefined;
    try {
      connection.carry(request, this.target, this);
    } catch (cause) {
      this.fail("connect_failed", cause);
    }
  }

  /** Ends the exchange, and its connection, with an error. */
  fail(code: TransportErrorCode, cause: unknown, reusedSocket = false): void {
    if (this.#state === "ended" || this.#state === "failed") return;
    this.#fail(new TransportError(code, this.#url, { cause, reusedSocket }));
  }

  onHead(status: number, headers: Readonly<Record<string, string>>): void {
    this.#state = "streaming";
    this.status = status;
    this.headers = headers;
    const sender = this.#sender;
    this.#sender = undefined;
    sender?.resolve(this);
  }

  onBody(chunk: Uint8Array): void {
    const reader = this.#reader;
    if (reader !== undefined) {
      this.#reader = undefined;
      return reader.resolve({ done: false, value: chunk });
    }
    this.#chunks.push(chunk);
    this.#bytes += chunk.length;
  }

  onBatch(): boolean {
    return this.#bytes >= HIGH_WATER_BYTES || this.#chunks.length >= HIGH_WATER_CHUNKS;
  }

  onEnd(reusable: boolean): void {
    this.#state = "ended";
    this.#over(reusable);
    const reader = this.#reader;
    this.#reader = undefined;
    reader?.resolve({ done: true, value: undefined });
  }

  onBreak(how: Break): void {
    this.fail(this.#codeOf(how), how.cause, how.crossed);
  }

  next(): Promise<Result> {
    const value = this.#take();
    if (value !== undefined) return Promise.resolve({ done: false, value });
    if (this.#state === "failed" && this.#failure !== undefined) {
      const failure = this.#failure;
      this.#failure = undefined;
      return Promise.reject(failure);
    }
    if (this.#state !== "streaming") return Promise.resolve({ done: true, value: undefined });
    if (this.#reader !== undefined) return Promise.reject(new Error("Cannot read: another read is waiting"));
    return new Promise((resolve, reject) => this.#reader = { resolve, reject });
  }

  takeWhole(): Uint8Array | undefined {
    return this.#state === "ended" ? this.#take() ?? NOTHING : undefined;
  }

  return(): Promise<Result> {
    this.#leave(undefined);
    this.#chunks = [];
    return Promise.resolve({ done: true, value: undefined });
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  /** All that waits, as one chunk: a reader that is behind is spared a promise for each. */
  #take(): Uint8Array | undefined {
    const chunks = this.#chunks;
    const first = chunks[0];
    if (first === undefined) return undefined;
    const all = chunks.length === 1 ? first : joined(chunks, this.#bytes);
    this.#chunks = [];
    this.#bytes = 0;
    if (this.#state === "streaming") this.#connection?.resume();
    return all;
  }

  /** We end the exchange: the socket is closed in this turn. */
  #leave(reason: unknown): void {
    if (this.#state === "ended" || this.#state === "failed") return;
    // What we leave ourselves is not wanted; what came before a break is still good.
    this.#chunks = [];
    this.#fail(reason);
  }

  #fail(error: unknown): void {
    const headless = this.#state !== "streaming";
    this.#state = "failed";
    this.#failure = error;
    this.#connection?.destroy();
    this.#over(false);
    if (headless) return this.#sender?.reject(error);
    const reader = this.#reader;
    if (reader === undefined) return;
    this.#reader = undefined;
    this.#failure = undefined;
    if (error === undefined) reader.resolve({ done: true, value: undefined });
    else reader.reject(error);
  }

  #over(reusable: boolean): void {
    this.#signal.removeEventListener("abort", this.#onAbort);
    this.#place.done(this, reusable);
    this.#connection = undefined;
  }

  #codeOf({ connected, invalid }: Break): TransportErrorCode {
    if (this.#state === "streaming") return "reset_in_body";
    if (!connected) return "connect_failed";
    return invalid ? "invalid_response" : "reset_before_head";
  }
}

function joined(chunks: readonly Uint8Array[], bytes: number): Uint8Array {
  const all = new Uint8Array(bytes);
  let at = 0;
  for (const chunk of chunks) {
    all.set(chunk, at);
    at += chunk.length;
  }
  return all;
}
