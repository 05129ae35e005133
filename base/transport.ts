import type { StopSignal } from "./stop_signal.ts";

/**
 * The two ways to a worker: generations, and a reserved one for health, probes, aborts and other control, which never
 * waits behind generations, so that load does not look like illness.
 */
export type Lane = "generation" | "control";

/** A request to a worker. Header names are lower case. */
export interface OutgoingRequest {
  readonly method: "GET" | "POST" | "HEAD" | "DELETE" | "PUT";
  /** Absolute http(s) URL. */
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: Uint8Array | string | undefined;
  /** "generation" by default. */
  readonly lane?: Lane | undefined;
  /** The half of a pair that it goes to, for traces. */
  readonly phase?: "prefill" | "decode" | undefined;
  /** Time limit of a new connection in ms; default 10 s. */
  readonly connectTimeoutMs?: number | undefined;
}

/** A worker's answer: its head has arrived, its body is still to be read. */
export interface IncomingResponse {
  readonly status: number;
  /** Lower-case names; repeated headers joined with ", ". */
  readonly headers: Readonly<Record<string, string>>;
  /**
   * The bytes as they arrive, to be read once; not reading them stops the worker's socket (backpressure).
   * Ending the iteration early (`return`) or aborting the request's signal closes the connection at once.
   * A connection that breaks makes the iteration throw a `TransportError`.
   */
  readonly body: AsyncIterable<Uint8Array>;
  /** Takes the body where all of it is there already, as short ones are; undefined where it has to be read. */
  takeWhole?(): Uint8Array | undefined;
}

/** The one way for bytes to workers and to the Hub, with backpressure and abort. Never retries by itself. */
export interface Transport {
  /**
   * Sends a request; resolves when the response head is there. The signal covers the body, too.
   * Rejects with a `TransportError` when no response came, with the signal's reason when it aborted.
   */
  send(request: OutgoingRequest, signal: StopSignal): Promise<IncomingResponse>;
  /** Closes idle connections; requests in flight end first. */
  close(): Promise<void>;
}

/** Kinds of broken connections. */
export type TransportErrorCode =
  | "connect_failed" // refused, unreachable, name not found: nothing was sent
  | "reset_before_head" // the connection broke before a response head: the worker may have seen the request
  | "reset_in_body" // the connection broke inside the body
  | "invalid_response"; // not HTTP

/** A broken connection to a worker. */
export class TransportError extends Error {
  override readonly name = "TransportError";
  readonly code: TransportErrorCode;
  readonly url: string;
  /** True when the connection had served an earlier request and no byte of an answer to this one came: an idle close may have crossed it. */
  readonly reusedSocket: boolean;

  constructor(
    code: TransportErrorCode,
    url: string,
    options: { cause?: unknown; reusedSocket?: boolean } = {},
  ) {
    super(`Request to ${withoutPassword(url)} failed: ${code.replaceAll("_", " ")}`, {
      cause: options.cause,
    });
    this.code = code;
    this.url = url;
    this.reusedSocket = options.reusedSocket ?? false;
  }
}

/** A URL as it may be shown: with `***` for the password in it. */
export function withoutPassword(url: string): string {
  return url.replace(/^([a-z]+:\/\/[^/@:\s]*):[^/@\s]*@/i, "$1:***@");
}
