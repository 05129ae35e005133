import { messageOf } from "../../../base/errors.ts";
import { isJsonObject } from "../../../base/json.ts";
import { type CallerOptions, callOptions } from "../engine_options.ts";
import { parseObject, usageOf } from "../openai/openai_stream.ts";
import {
  isIds,
  keptForDecode,
  prefillBody,
  tokenizeBody,
  type WholeRequest,
  whyAlone,
} from "./vllm_pd_bodies.ts";
import { readTopLevel } from "../../wire/splice_json.ts";
import type { CallChain } from "../../worker/call_chain.ts";
import { EngineError } from "../../worker/engine_error.ts";
import type { PrefillSide } from "../../worker/placement.ts";
import type { WorkerCallOptions } from "../../worker/worker_call.ts";
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

/** What came of the prefill half of a request. */
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
    /** Why the decode server has to read the prompt by itself; the end of a sentence. */
    readonly reason: string;
    /** True when that is the prefill server's fault. */
    readonly failed: boolean;
    /** The tokens of the prompt, if they are known. */
    readonly ids?: readonly number[];
  };

/** What it takes to have a prompt prefilled. */
export interface HandOffOptions extends CallerOptions {
  readonly side: PrefillSide;
  readonly request: WholeRequest;
  /** `x-request-id` among them: both halves must have the same (vLLM before 0.13 tells the prompt by it). */
  readonly headers: Readonly<Record<string, string>>;
  readonly signal: AbortSignal;
  /** When the first token is due, in clock time. */
  readonly deadlineMs: number;
  readonly chain: CallChain;
}

/**
 * Has a prompt prefilled (vLLM's NIXL protocol, pull): its tokens are settled first, so that both halves read the same
 * ones. A prefill server that fails is done without; what it refuses, and its overload, are thrown as `EngineError`,
 * as is a first token overdue. Rejects with the signal's reason, or the one that the chain was left for.
 */
export async function handOff(options: HandOffOptions): Promise<HandOff> {
  const reason = whyAlone(options.request);
  if (reason !== undefined) return { kind: "alone", reason, failed: false };
  let ids: readonly number[] | undefined;
  try {
    ids = await promptIds(options);
    return ids === undefined ? untokenised(options.side.url) : await prefilled(options, ids);
  } catch (error) {
    if (options.signal.aborted || !mayGoOn(error)) throw error;
    return {
      kind: "alone",
      reason: messageOf(error),
      failed: true,
      ...(ids === undefined ? {} : { ids }),
    };
  }
}

/** The same limits as those of the call, but on the time until a first token for the request as a whole. */
export function dueAt(call: WorkerCallOptions, deadlineMs: number): WorkerCallOptions {
  const leftMs = Math.max(1, deadlineMs - call.clock.now());
  return { ...call, config: { ...call.config, first_token_timeout_ms: leftMs } };
}

/** True for failures that leave time, and have nothing to do with the request or the load. */
function mayGoOn(error: unknown): boolean {
  return error instanceof EngineError && error.retryable && error.code !== "worker_overloaded" &&
    error.code !== "worker_timeout";
}

/** What a prefill server has answered about a prompt of these ids. Throws `EngineError` for what it cannot have meant. */
export function readHandOff(text: string, ids: readonly number[], url: string): HandOff {
  const answer = parseObject(text, url);
  if (isJsonObject(answer.error)) throw streamedError(url, readComplaint(answer));
  const usage = isJsonObject(answer.usage) ? usageOf(answer.usage) : undefined;
  if (usage?.promptTokens !== ids.length) {
    throw invalidAnswer(url, `it read ${usage?.promptTokens ?? "no"} tokens of a prompt of ${ids.length}`);
  }
  const json = transferJson(text);
  if (json === undefined) {
    return { kind: "alone", reason: `Worker ${url} gave no kv_transfer_params`, failed: false, ids };
  }
  return { kind: "prefilled", ids, transfer: new KvTransfer(json), cachedTokens: usage.cachedTokens };
}

/** The ids in an answer of `/tokenize`. Throws `EngineError` when there are none. */
export function readIds(text: string, url: string): readonly number[] {
  const { tokens } = parseObject(text, url);
  if (!isIds(tokens)) throw invalidAnswer(url, "its /tokenize gave no tokens");
  return tokens;
}

/** What comes of a prompt whose tokens nobody tells. */
export function untokenised(url: string): HandOff {
  return { kind: "alone", reason: `Worker ${url} has no /tokenize`, failed: false };
}

async function promptIds(options: HandOffOptions): Promise<readonly number[] | undefined> {
  const { request, side } = options;
  if (isIds(request.body.prompt)) return request.body.prompt;
  try {
    return readIds(await answerOf(options, "/tokenize", tokenizeBody(request)), side.url);
  } catch (error) {
    if (error instanceof EngineError && error.workerStatus === 404) return undefined;
    throw error;
  }
}

async function prefilled(options: HandOffOptions, ids: readonly number[]): Promise<HandOff> {
  const { request, side } = options;
  const body = prefillBody(request.body, ids);
  return readHandOff(await answerOf(options, "/v1/completions", body, keptForDecode(body)), ids, side.url);
}

async function answerOf(
  options: HandOffOptions,
  path: string,
  body: WholeRequest["body"],
  sent: WholeRequest["body"] = body,
): Promise<string> {
  const { side, headers, signal, deadlineMs, chain } = options;
  const call = dueAt(callOptions(options, side, path, body, signal, headers), deadlineMs);
  return await chain.use(call, async (worker) => {
    await worker.open(sent);
    const text = await worker.readText(MAX_ANSWER_BYTES);
    worker.complete();
    return text;
  });
}

/** The parameters exactly as they came, so that numbers beyond double precision survive; undefined for none. */
function transferJson(answer: string): string | undefined {
  const bytes = new TextEncoder().encode(answer);
  const range = readTopLevel(bytes, ["kv_transfer_params"]).values.get("kv_transfer_params")?.at(-1);
  if (range === undefined) return undefined;
  const json = new TextDecoder().decode(bytes.subarray(range.start, range.end));
  return json.startsWith("{") ? json : undefined;
}
