import { joined } from "../../base/bytes.ts";
import { type IncomingResponse, TransportError } from "../../base/transport.ts";
import { PrefillLogprobs } from "./prefill_logprobs.ts";
import { isEventStream } from "../wire/answer_kind.ts";
import { EventFrames } from "../wire/event_frames.ts";
import {
  type CalledWorker,
  LEFT,
  type Read,
  type ReadFilter,
  type UpstreamCall,
} from "../worker/upstream_call.ts";
import type { PairCall } from "../worker/pair_call.ts";

/**
 * A call to a pair whose answer needs both halves: decode's, completed with the prompt's log-probabilities, which only
 * the prefill server has. Here, and only here, prefill's answer is waited for.
 */
export class MergedCall implements UpstreamCall {
  readonly #pair: PairCall;
  readonly #path: string;
  /** The completed answer; undefined while there is none, and for one that goes on as it is. */
  #merged: AsyncGenerator<Uint8Array, void, void> | undefined;
  /** The first read of `#merged`; undefined once it was taken. */
  #first: Read | undefined;
  /** Decode has answered, and the prefill server has not. */
  #broken = false;

  constructor(pair: PairCall, path: string) {
    this.#pair = pair;
    this.#path = path;
  }

  get worker(): CalledWorker {
    return this.#pair.worker;
  }

  get half(): "prefill" | "decode" {
    return this.#broken ? "prefill" : this.#pair.half;
  }

  async open(): Promise<IncomingResponse> {
    const pair = this.#pair;
    const response = await pair.open();
    if (response.status !== 200 || pair.half === "prefill" || pair.first === undefined) {
      return response;
    }
    pair.gotToken();
    const prefill = await pair.prefillAnswer();
    if (prefill === undefined) {
      this.#broken = true;
      const error = new TransportError("reset_in_body", pair.worker.url);
      await pair.stop(error);
      throw error;
    }
    const logprobs = new PrefillLogprobs(this.#path, prefill);
    // The length is another one now.
    const { "content-length": _, ...headers } = response.headers;
    this.#merged = isEventStream(headers) ? completedEvents(pair, logprobs) : completedWhole(pair, logprobs);
    this.#first = await this.#merged.next();
    return { status: response.status, headers, body: response.body };
  }

  get first(): Uint8Array | undefined {
    return this.#merged === undefined ? this.#pair.first : this.#first?.value ?? undefined;
  }

  get whole(): boolean {
    return this.#merged === undefined && this.#pair.whole;
  }

  next(): Promise<Read> {
    const first = this.#first;
    this.#first = undefined;
    return first === undefined ? (this.#merged ?? this.#pair).next() : Promise.resolve(first);
  }

  read<T>(filter: ReadFilter<T>): Promise<T> {
    return this.next().then((read) => filter.take(read), (error) => filter.fail(error));
  }

  async return(): Promise<Read> {
    await this.stop(LEFT);
    return { done: true, value: undefined };
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  gotToken(): void {
    this.#pair.gotToken();
  }

  complete(): void {
    this.#pair.complete();
  }

  stop(reason: unknown): Promise<void> {
    return this.#pair.stop(reason);
  }

  drop(): Promise<void> {
    return this.#pair.drop();
  }

  close(): Promise<void> {
    return this.#pair.close();
  }
}

async function* completedEvents(
  pair: PairCall,
  logprobs: PrefillLogprobs,
): AsyncGenerator<Uint8Array, void, void> {
  const frames = new EventFrames();
  for (let read = await pair.next(); read.done !== true; read = await pair.next()) {
    const events = frames.push(read.value);
    if (events.length > 0) yield logprobs.events(events);
  }
  const rest = frames.rest();
  if (rest.length > 0) yield rest;
}

async function* completedWhole(
  pair: PairCall,
  logprobs: PrefillLogprobs,
): AsyncGenerator<Uint8Array, void, void> {
  const chunks: Uint8Array[] = [];
  for (let read = await pair.next(); read.done !== true; read = await pair.next()) chunks.push(read.value);
  yield logprobs.answer(joined(chunks));
}
