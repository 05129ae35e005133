import { joined } from "../../base/bytes.ts";
import { type IncomingResponse, TransportError } from "../../base/transport.ts";
import type { PairCall } from "./pair_call.ts";
import { PrefillLogprobs } from "./prefill_logprobs.ts";
import type { RelayCall } from "./upstream_call.ts";
import { isEventStream } from "../wire/answer_kind.ts";
import { EventFrames } from "../wire/event_frames.ts";

/**
 * An attempt on a pair whose answer needs both halves: decode's, completed with the prompt's log-probabilities, which
 * only the prefill server has. Here, and only here, prefill's answer is waited for.
 */
export class MergedCall implements RelayCall {
  readonly #pair: PairCall;
  readonly #path: string;
  #response: IncomingResponse | undefined;
  #first: Uint8Array | undefined;
  #logprobs: PrefillLogprobs | undefined;
  #frames: EventFrames | undefined;
  /** Decode has answered, and the prefill server has not. */
  #broken = false;

  constructor(pair: PairCall, path: string) {
    this.#pair = pair;
    this.#path = path;
  }

  get response(): IncomingResponse {
    return this.#response ?? this.#pair.response;
  }

  get first(): Uint8Array | undefined {
    return this.#first ?? this.#pair.first;
  }

  get url(): string {
    return this.#pair.url;
  }

  get worker(): string {
    return this.#pair.worker;
  }

  get half(): "prefill" | "decode" {
    return this.#broken ? "prefill" : this.#pair.half;
  }

  async open(): Promise<void> {
    const pair = this.#pair;
    await pair.open();
    const { response, first } = pair;
    if (response.status !== 200 || pair.half === "prefill" || first === undefined) return;
    const prefill = await pair.prefillAnswer();
    if (prefill === undefined) {
      this.#broken = true;
      const error = new TransportError("reset_in_body", pair.url);
      await pair.stop(error);
      throw error;
    }
    this.#logprobs = new PrefillLogprobs(this.#path, prefill);
    // The length is another one now.
    const { "content-length": _, ...headers } = response.headers;
    this.#response = { ...response, headers };
    if (isEventStream(headers)) {
      this.#frames = new EventFrames();
      this.#first = this.#completed(first) ?? await this.read();
    } else this.#first = this.#logprobs.answer(await this.#whole(first));
  }

  async read(): Promise<Uint8Array | undefined> {
    if (this.#logprobs === undefined) return await this.#pair.read();
    if (this.#frames === undefined) return undefined;
    while (true) {
      const chunk = await this.#pair.read();
      if (chunk === undefined) {
        const rest = this.#frames.rest();
        return rest.length > 0 ? rest : undefined;
      }
      const events = this.#completed(chunk);
      if (events !== undefined) return events;
    }
  }

  stop(reason: unknown): Promise<void> {
    return this.#pair.stop(reason);
  }

  close(): void {
    this.#pair.close();
  }

  #completed(chunk: Uint8Array): Uint8Array | undefined {
    const events = this.#frames?.push(chunk) ?? chunk;
    return events.length === 0 ? undefined : this.#logprobs?.events(events);
  }

  async #whole(first: Uint8Array): Promise<Uint8Array> {
    const chunks = [first];
    for (let chunk = await this.#pair.read(); chunk !== undefined; chunk = await this.#pair.read()) {
      chunks.push(chunk);
    }
    return joined(chunks);
  }
}
