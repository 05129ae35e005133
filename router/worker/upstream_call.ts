import type { IncomingResponse } from "../../base/transport.ts";
import type { EngineError } from "./engine_error.ts";
import type { Placement } from "./placement.ts";
import { workerRefusal } from "./worker_errors.ts";

/** Longest part of a worker's error body that is read. */
const MAX_ERROR_BYTES = 64 * 1024;

/** Reason of a stop that nobody gave one for: the reader of the answer went away. */
export const LEFT = new Error("The answer was left by its reader");

/** A chunk of an answer, or its end. */
export type Read = IteratorResult<Uint8Array, void>;

/** A part of the way from a call to its reader. */
export interface ReadFilter<T> {
  take(read: Read): T | Promise<T>;
  fail(error: unknown): T | Promise<T>;
}

/** The worker that a call goes to. */
export interface CalledWorker extends Pick<Placement, "workerId" | "url" | "rank"> {
  /** True when it gets the client's own credentials: what it says of them is for the client. */
  readonly clientsKey?: boolean | undefined;
}

/**
 * One request whose answer is read as bytes, from one worker or from a pair of them. Reads happen one at a time, each
 * under the model's time limits. However a call ends, `close` or `stop` leaves nothing running, neither here nor on
 * the engine.
 */
export interface UpstreamCall extends AsyncIterableIterator<Uint8Array, void, void> {
  /** The worker whose answer, or failure, this is. */
  readonly worker: CalledWorker;
  /** Of a pair, the half that `worker` is. */
  readonly half: "prefill" | "decode" | undefined;
  /**
   * Sends the request; resolves with the head of the answer, whatever its status, when its first bytes are there. May be
   * called again, with another body, after the answer was read. Rejects, as reads do, with what the call's `errors` make
   * of a broken connection or a time limit, or with the reason given to `stop`, once that is complete.
   */
  open(body?: string): Promise<IncomingResponse>;
  /** Of an open call: the first bytes of the answer, which the next read gives again; undefined for an empty body. */
  readonly first: Uint8Array | undefined;
  /** Of an open call: true when `first` is all of the answer, and the worker has no more to do. */
  readonly whole: boolean;
  /** As `next`, by way of a filter, which costs no promise of its own. */
  read<T>(filter: ReadFilter<T>): Promise<T>;
  /** Stops the call. */
  return(): Promise<Read>;
  /** Tokens arrive: from now on the limit is on the silence between chunks. */
  gotToken(): void;
  /** The engine has said its last word: it need not be told to stop. */
  complete(): void;
  /** Ends the work on the engine, then the connection, in the order that the engine needs. Never rejects. */
  stop(reason: unknown): Promise<void>;
  /** Gives up an answer that is over or useless: no abort for its worker. Never rejects. */
  drop(): Promise<void>;
  /** Ends the call: lets a complete answer run out, so that its connection serves again, and stops any other. */
  close(): Promise<void>;
}

/** Opens a call; resolves with the head of a 2xx answer, throws `EngineError` for any other. */
export async function accepted(call: UpstreamCall, body?: string): Promise<IncomingResponse> {
  const response = await call.open(body);
  if (response.status >= 200 && response.status < 300) return response;
  throw await refusalOf(call, response);
}

/** The error of a call's non-2xx answer, whose body is read for it. */
export async function refusalOf(call: UpstreamCall, { status }: IncomingResponse): Promise<EngineError> {
  const text = await restAsText(call, MAX_ERROR_BYTES);
  call.complete();
  return workerRefusal(call.worker, status, text);
}

/** The rest of a call's answer as text, cut off after `maxBytes`. */
export async function restAsText(call: UpstreamCall, maxBytes: number): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  let bytes = 0;
  while (bytes < maxBytes) {
    const { done, value } = await call.next();
    if (done === true) break;
    bytes += value.length;
    text += decoder.decode(value, { stream: true });
  }
  return text + decoder.decode();
}

/** Uses a call and closes it. When the signal aborts, the call is stopped and its reads reject with the reason. */
export async function usingCall<T>(
  call: UpstreamCall,
  signal: AbortSignal,
  use: () => Promise<T>,
): Promise<T> {
  signal.throwIfAborted();
  const onAbort = () => void call.stop(signal.reason);
  signal.addEventListener("abort", onAbort, { once: true });
  try {
    return await use();
  } finally {
    signal.removeEventListener("abort", onAbort);
    await call.close();
  }
}
