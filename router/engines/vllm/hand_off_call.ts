import { messageOf } from "../../../base/errors.ts";
import { isJsonObject, type JsonObject } from "../../../base/json.ts";
import { type IncomingResponse, TransportError } from "../../../base/transport.ts";
import { OpenAiDecoder, parseObject, usageOf } from "../openai/openai_stream.ts";
import {
  isIds,
  keptForDecode,
  prefillBody,
  tokenizeBody,
  type WholeRequest,
  whyAlone,
} from "./vllm_pd_bodies.ts";
import { isEventStream } from "../../wire/answer_kind.ts";
import { readTopLevel } from "../../wire/splice_json.ts";
import { LongEventParser } from "../../wire/long_events.ts";
import { DONE } from "../../wire/sse.ts";
import {
  type CalledWorker,
  LEFT,
  type Read,
  type ReadFilter,
  refusalOf,
  restAsText,
  type UpstreamCall,
} from "../../worker/upstream_call.ts";
import { EngineError } from "../../worker/engine_error.ts";
import type { Placement } from "../../worker/placement.ts";
import { invalidAnswer, readComplaint, streamedError } from "../../worker/worker_errors.ts";

/** Longest answer of a prefill server, and of its tokenizer: a million ids. */
const MAX_ANSWER_BYTES = 16 * 1024 * 1024;

/**
 * A prefill server's `kv_transfer_params`, as the JSON that they came as. They serve once: the decode server answers a
 * second use with 200 and wrong text.
 */
export class KvTransfer {
  #json: string | undefined;

  constructor(json: string) {
    this.#json = json;
  }

  /** The parameters. Throws when they were taken before. */
  take(): string {
    const json = this.#json;
    if (json === undefined) throw new Error("Cannot use kv_transfer_params twice");
    this.#json = undefined;
    return json;
  }
}

/** The outcome of the prefill half of a request. */
export type HandOff =
  | {
    readonly kind: "prefilled";
    /** The tokens that the prefill server has read; the decode server must read no others. */
    readonly ids: readonly number[];
    readonly transfer: KvTransfer;
    readonly cachedTokens: number | undefined;
  }
  | {
    readonly kind: "alone";
    /** Reason for which the decode server has to read the prompt by itself; the end of a sentence. */
    readonly reason: string;
    /** True when that is the prefill server's fault. */
    readonly failed: boolean;
    /** The tokens of the prompt, if they are known. */
    readonly ids?: readonly number[] | undefined;
  };

/** One request for a pair of vLLM servers. */
export interface HandOffCallOptions {
  readonly at: Placement;
  /** The request as a single server would get it, or the reason for which decode has to do without a hand-off. */
  readonly request: WholeRequest | string;
  /** Makes a POST to one of the two servers; `sent` replaces `body`, which is then only checked. */
  readonly call: (worker: CalledWorker, path: string, body: JsonObject, sent?: JsonObject) => UpstreamCall;
  /** Makes the decode half's call. */
  readonly decode: (handOff: HandOff) => UpstreamCall;
  /** Called when decode reads the prompt by itself; `failed`: after a fault of one of the servers. */
  readonly onAlone: (reason: string, failed: boolean) => void;
}

/**
 * A request to a pair of vLLM servers (NIXL, pull): its tokens are settled first, so that both halves read the same
 * ones, then it is prefilled on one and answered by the other. What the prefill server refuses, and its overload, is
 * the answer; where it fails, or decode cannot fetch its cache, decode reads the prompt by itself.
 */
export class HandOffCall implements UpstreamCall {
  readonly #options: HandOffCallOptions;
  #half: "prefill" | "decode" = "prefill";
  #current: UpstreamCall | undefined;
  /** Chunks read to see whether the hand-off worked. */
  #held: Uint8Array[] = [];
  #alone: string | undefined;
  #cachedTokens: number | undefined;
  #stopped: { readonly reason: unknown } | undefined;

  constructor(options: HandOffCallOptions) {
    this.#options = options;
  }

  get worker(): CalledWorker {
    const { at } = this.#options;
    return this.#half === "decode" ? at : at.prefill ?? at;
  }

  get half(): "prefill" | "decode" {
    return this.#half;
  }

  /** Reason for which decode has read the prompt by itself; undefined when prefill did. Known once the call is open. */
  get alone(): string | undefined {
    return this.#alone;
  }

  /** Of the prompt's tokens, those that the prefill server had cached: decode counts all that it fetched. */
  get cachedTokens(): number | undefined {
    return this.#cachedTokens;
  }

  async open(): Promise<IncomingResponse> {
    const { at, decode, onAlone } = this.#options;
    const handOff = await this.#prefill();
    if ("status" in handOff) return handOff;
    if (at.prefill !== undefined) at.promptRead();
    this.#half = "decode";
    let failed = true;
    if (handOff.kind === "prefilled") {
      const response = await this.#begin(() => decode(handOff));
      this.#alone = await this.#lostTransfer(response);
      if (this.#alone === undefined) {
        // The cache has been fetched: the prefill server may forget it.
        at.release("ok", "prefill");
        this.#cachedTokens = handOff.cachedTokens;
        return response;
      }
      this.#held = [];
      await this.#current?.close();
      at.release("aborted", "prefill");
    } else {
      failed = handOff.failed;
      this.#alone = handOff.reason;
      if (at.prefill !== undefined) at.release(failed ? "failed" : "aborted", "prefill");
    }
    onAlone(this.#alone, failed);
    return await this.#begin(() =>
      decode({ kind: "alone", reason: this.#alone ?? "", failed, ids: handOff.ids })
    );
  }

  get first(): Uint8Array | undefined {
    return this.#held[0] ?? this.#opened.first;
  }

  get whole(): boolean {
    return this.#held.length === 0 && this.#opened.whole;
  }

  next(): Promise<Read> {
    const value = this.#held.shift();
    return value === undefined ? this.#opened.next() : Promise.resolve({ done: false, value });
  }

  read<T>(filter: ReadFilter<T>): Promise<T> {
    const value = this.#held.shift();
    return value === undefined
      ? this.#opened.read(filter)
      : Promise.resolve(filter.take({ done: false, value }));
  }

  async return(): Promise<Read> {
    await this.stop(LEFT);
    return { done: true, value: undefined };
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  gotToken(): void {
    this.#current?.gotToken();
  }

  complete(): void {
    this.#current?.complete();
  }

  async stop(reason: unknown): Promise<void> {
    this.#stopped ??= { reason };
    this.#held = [];
    await this.#current?.stop(reason);
  }

  async drop(): Promise<void> {
    this.#stopped ??= { reason: LEFT };
    await this.#current?.drop();
  }

  async close(): Promise<void> {
    this.#stopped ??= { reason: LEFT };
    await this.#current?.close();
  }

  get #opened(): UpstreamCall {
    if (this.#current === undefined) throw new Error("Cannot read the answer: it has not arrived");
    return this.#current;
  }

  /** Has the prompt prefilled. A refusal of the prefill server is given as its answer, and stays the current call's. */
  async #prefill(): Promise<HandOff | IncomingResponse> {
    const { at, request } = this.#options;
    const reason = typeof request === "string" ? request : whyAlone(request);
    if (at.prefill === undefined) return alone("there is no prefill server");
    if (typeof request === "string" || reason !== undefined) return alone(reason ?? "");
    let ids = isIds(request.body.prompt) ? request.body.prompt : undefined;
    try {
      if (ids === undefined) {
        const answer = await this.#ask(at.prefill, "/tokenize", tokenizeBody(request));
        // A server without it has not refused the request.
        if (isMissing(answer)) {
          await this.#refusal(answer);
          return alone(`Worker ${at.prefill.workerId} has no /tokenize`);
        }
        if (typeof answer !== "string") return answer;
        ids = readIds(answer, at.prefill);
      }
      const body = prefillBody(request.body, ids);
      const answer = await this.#ask(at.prefill, "/v1/completions", body, keptForDecode(body));
      // It has another model by now, which its next check will tell; whether the client is to blame, decode knows.
      if (isMissing(answer)) return { ...alone((await this.#refusal(answer)).message), ids };
      return typeof answer === "string" ? readHandOff(answer, ids, at.prefill) : answer;
    } catch (error) {
      if (this.#stopped !== undefined) throw error;
      if (mayGoOn(error)) return { kind: "alone", reason: messageOf(error), failed: true, ids };
      if (error instanceof EngineError && error.status >= 500 && error.status !== 503) {
        at.release("failed", "prefill");
      }
      throw error;
    }
  }

  /** The error of a refusal that is not passed on. */
  async #refusal(answer: IncomingResponse): Promise<EngineError> {
    const call = this.#opened;
    const error = await refusalOf(call, answer);
    await call.close();
    return error;
  }

  /** A whole answer of the prefill server, or the head of a refusal. Throws for a server that failed. */
  async #ask(
    prefill: CalledWorker,
    path: string,
    body: JsonObject,
    sent?: JsonObject,
  ): Promise<string | IncomingResponse> {
    const response = await this.#begin(() => this.#options.call(prefill, path, body, sent));
    const call = this.#opened;
    if (isRefusal(response.status)) return response;
    if (response.status !== 200) throw await refusalOf(call, response);
    const text = await restAsText(call, MAX_ANSWER_BYTES);
    call.complete();
    await call.close();
    return text;
  }

  async #begin(make: () => UpstreamCall): Promise<IncomingResponse> {
    if (this.#stopped !== undefined) throw this.#stopped.reason;
    this.#current = make();
    return await this.#current.open();
  }

  /**
   * Reads decode's answer until it says something: the sentence with which it says that it could not fetch the cache
   * (never plainly: it fails, or gives the generation up), undefined when it begins well.
   */
  async #lostTransfer(response: IncomingResponse): Promise<string | undefined> {
    const call = this.#opened;
    const { status, headers } = response;
    if (status >= 500 && status !== 503) return (await refusalOf(call, response)).message;
    if (status !== 200 || !isEventStream(headers)) return undefined;
    const parser = new LongEventParser();
    const decoder = new OpenAiDecoder(this.worker);
    while (true) {
      const read = await call.next();
      if (read.done === true) return undefined;
      this.#held.push(read.value);
      try {
        for (const data of parser.push(read.value)) {
          // No sentence is so long.
          if (typeof data !== "string" || data === DONE || decoder.push(data) !== undefined) return undefined;
        }
      } catch (error) {
        const lost = error instanceof EngineError &&
          (error.code === "worker_failed" || error.code === "worker_aborted");
        return lost ? error.message : undefined;
      }
    }
  }
}

function alone(reason: string): HandOff {
  return { kind: "alone", reason, failed: false };
}

/** True for a 404: of a path, or of a model. */
function isMissing(answer: string | IncomingResponse): answer is IncomingResponse {
  return typeof answer !== "string" && answer.status === 404;
}

/** True for a status with which a prefill server blames the request, or is overloaded. */
function isRefusal(status: number): boolean {
  if (status === 401 || status === 403 || status === 408) return false;
  return status >= 400 && status < 500 || status === 503;
}

/** True for failures that leave time, and have nothing to do with the request or the load. */
function mayGoOn(error: unknown): boolean {
  if (error instanceof TransportError) return true;
  return error instanceof EngineError && error.retryable && error.code !== "worker_overloaded" &&
    error.code !== "worker_timeout";
}

/** The hand-off in a prefill server's answer about a prompt of these ids. Throws `EngineError` for what it cannot have meant. */
function readHandOff(text: string, ids: readonly number[], worker: CalledWorker): HandOff {
  const answer = parseObject(text, worker);
  if (isJsonObject(answer.error)) throw streamedError(worker, readComplaint(answer));
  const usage = isJsonObject(answer.usage) ? usageOf(answer.usage) : undefined;
  if (usage?.promptTokens !== ids.length) {
    throw invalidAnswer(worker, `it read ${usage?.promptTokens ?? "no"} tokens of a prompt of ${ids.length}`);
  }
  const json = transferJson(text);
  if (json === undefined) {
    return {
      kind: "alone",
      reason: `Worker ${worker.workerId} gave no kv_transfer_params`,
      failed: false,
      ids,
    };
  }
  return { kind: "prefilled", ids, transfer: new KvTransfer(json), cachedTokens: usage.cachedTokens };
}

function readIds(text: string, worker: CalledWorker): number[] {
  const { tokens } = parseObject(text, worker);
  if (!isIds(tokens)) throw invalidAnswer(worker, "its /tokenize gave no tokens");
  return tokens;
}

/** The parameters exactly as they came, so that numbers beyond double precision survive; undefined for none. */
function transferJson(answer: string): string | undefined {
  const bytes = new TextEncoder().encode(answer);
  const range = readTopLevel(bytes, ["kv_transfer_params"]).values.get("kv_transfer_params")?.at(-1);
  if (range === undefined) return undefined;
  const json = new TextDecoder().decode(bytes.subarray(range.start, range.end));
  return json.startsWith("{") ? json : undefined;
}
