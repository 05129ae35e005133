import type { Json, JsonObject } from "../../base/json.ts";
import type { Choice } from "../engine/choice.ts";
import type { EngineSequence } from "../engine/sequence.ts";
import { SGLANG, versionNumber } from "../engine/sglang_version.ts";
import type { Backend } from "../server/backend.ts";
import { promptLogprobs, type ScoredToken } from "../text/tokens.ts";

/** Tokens after which the engine tells the front end of an answer that is not streamed. */
const FORCED_OUTPUT_TOKENS = 50;

/** Log-probabilities that a `/generate` request asks for. */
export interface LogprobRequest {
  readonly start: number;
  readonly top: number;
  readonly tokenIds: readonly number[] | undefined;
  readonly text: boolean;
}

/** Arrival and dispatch of a request, for `meta_info`. */
export interface RequestTimes {
  readonly receivedMs: number;
  readonly dispatchedMs: number;
}

/** `finish_reason` of `/generate`. */
export function finishReason(choice: Choice): Json {
  const { finish } = choice;
  if (finish === undefined) return null;
  if (finish.type === "stop") return { type: "stop", matched: finish.matched };
  if (finish.type === "length") return { type: "length", length: finish.length };
  if (finish.failure !== undefined) {
    return {
      type: "abort",
      message: finish.failure.message,
      status_code: finish.failure.status,
      err_type: null,
    };
  }
  const message = choice.ids.length === 0 && choice.sequence?.scheduledMs === undefined
    ? "Abort in waiting queue"
    : "Aborted";
  return { type: "abort", message, status_code: null, err_type: null };
}

/** `meta_info` of one answer. `sentMs`: when its first event was sent; `stream`: it is part of a stream. */
export function metaInfo(
  rid: string,
  choice: Choice,
  prompt: readonly number[],
  times: RequestTimes,
  logprobs: LogprobRequest | undefined,
  sent: SentTimes,
  backend: Backend,
): JsonObject {
  const { sequence, finish } = choice;
  const version = versionNumber(backend.version);
  const info: JsonObject = {
    id: rid,
    finish_reason: finishReason(choice),
    prompt_tokens: prompt.length,
    weight_version: "default",
  };
  if (version >= SGLANG.errorEvents) Object.assign(info, queueInfo(sequence, version, backend));
  if (logprobs !== undefined) Object.assign(info, logprobInfo(choice, prompt, logprobs, backend));
  if (version >= SGLANG.errorEvents) info["reasoning_tokens"] = 0;
  info["completion_tokens"] = choice.ids.length;
  const cached = sequence?.cachedTokens ?? 0;
  info["cached_tokens"] = cached;
  if (version < SGLANG.errorEvents) {
    if (finish !== undefined) info["e2e_latency"] = (endOf(choice, backend) - times.receivedMs) / 1000;
    return info;
  }
  if (version >= SGLANG.newest && finish !== undefined) {
    info["weight_versions"] = [{ version: "default", start: 0, end: choice.ids.length }];
  }
  info["cached_tokens_details"] = cached === 0 ? null : { device: cached, host: 0 };
  info["dp_rank"] = sent.dpRank ?? null;
  if (finish !== undefined) Object.assign(info, endInfo(choice, times, sent, backend));
  else if (sent.first) info["response_sent_to_client_ts"] = backend.unixTime(sent.sentMs);
  return info;
}

/** Times at which the parts of an answer are sent. */
interface SentTimes {
  /** The rank that answers; undefined for a server without ranks. */
  readonly dpRank?: number | undefined;
  readonly stream: boolean;
  readonly first: boolean;
  readonly sentMs: number;
}

/** Fields of `meta_info` about the time until the first token. */
function queueInfo(sequence: EngineSequence | undefined, version: number, backend: Backend): JsonObject {
  if (version < SGLANG.sparseShapes) {
    return {
      total_retractions: 0,
      queue_time: 0,
      prefill_waiting_latency: null,
      prefill_launch_latency: null,
    };
  }
  const info: JsonObject = { num_retractions: 0 };
  const role = backend.pd?.role;
  if (sequence?.scheduledMs === undefined) return role === undefined ? info : { ...info, queue_time: 0 };
  if (role === "prefill" && version >= SGLANG.newest) {
    Object.assign(info, { storage_prefetch_wait: 0, storage_staging_wait: 0 });
  }
  info["forward_entry_time"] = backend.unixTime(sequence.scheduledMs);
  if (sequence.prefilledMs !== undefined && role !== "decode") {
    info["prefill_finished_time"] = backend.unixTime(sequence.prefilledMs);
  }
  info["queue_time"] = (sequence.scheduledMs - sequence.arrivedMs) / 1000;
  return info;
}

/** Fields of `meta_info` for an answer that has ended. */
function endInfo(choice: Choice, times: RequestTimes, sent: SentTimes, backend: Backend): JsonObject {
  const { sequence, ids } = choice;
  const version = versionNumber(backend.version);
  const endMs = endOf(choice, backend);
  const firstMs = sequence?.prefilledMs ?? endMs;
  const info: JsonObject = {
    e2e_latency: (endMs - times.receivedMs) / 1000,
    request_received_ts: backend.unixTime(times.receivedMs),
  };
  if (version >= SGLANG.newest) info["first_token_latency"] = (firstMs - times.receivedMs) / 1000;
  info["api_server_dispatch_finish_ts"] = backend.unixTime(times.dispatchedMs);
  const early = sent.stream && !sent.first;
  if (early) info["response_sent_to_client_ts"] = backend.unixTime(sent.sentMs);
  info["request_finished_ts"] = backend.unixTime(endMs);
  if (version < SGLANG.sparseShapes) info["inference_time"] = endMs / 1000;
  if (hasThroughput(choice, version, sent.stream)) {
    const seconds = (endMs - firstMs) / 1000;
    info["decode_throughput"] = Math.max(1, ids.length - 1) / Math.max(1e-6, seconds);
  }
  if (!early) info["response_sent_to_client_ts"] = backend.unixTime(sent.sentMs);
  return info;
}

/** Without a stream 0.5.23 hears of an answer every 50 tokens: a shorter one has no pace. */
function hasThroughput({ ids }: Choice, version: number, stream: boolean): boolean {
  if (version < SGLANG.sparseShapes) return ids.length > 0;
  return ids.length > (stream || version < SGLANG.newest ? 1 : FORCED_OUTPUT_TOKENS);
}

function endOf(choice: Choice, backend: Backend): number {
  return choice.sequence?.endedMs ?? backend.options.clock.now();
}

/** True for the shapes of 0.5.23 and later. */
export function isNewer(version: string): boolean {
  return versionNumber(version) >= SGLANG.newest;
}

function logprobInfo(
  choice: Choice,
  prompt: readonly number[],
  request: LogprobRequest,
  backend: Backend,
): JsonObject {
  const tuple = (logprob: number | null, id: number): Json => [
    logprob,
    id,
    request.text ? backend.tokenizer.decode([id]) : null,
  ];
  const tuples = (tokens: readonly ScoredToken[]): Json =>
    tokens.slice(0, request.top).map(({ id, logprob }) => tuple(logprob, id));
  // Decode servers know nothing of the prompt, nor of asked-for ids at prefill's token.
  const decodes = backend.pd?.role === "decode";
  const input = request.start < 0 || decodes
    ? []
    : promptLogprobs(backend.speech, prompt, request.start, request.top);
  const info: JsonObject = {
    input_token_logprobs: input.map(({ id, logprob }) => tuple(logprob, id)),
    output_token_logprobs: choice.scores.map(({ id, logprob }) => tuple(logprob, id)),
  };
  if (versionNumber(backend.version) >= SGLANG.errorEvents) {
    info["output_token_logprobs_length"] = choice.scores.length;
  }
  if (request.top > 0) {
    info["input_top_logprobs"] = input.map(({ top }) => top === null ? null : tuples(top));
    info["output_top_logprobs"] = choice.scores.map(({ top }) => tuples(top));
  }
  if (request.tokenIds !== undefined) {
    const asked = request.tokenIds;
    info["input_token_ids_logprobs"] = [];
    const scored: Json[] = choice.scores.map(({ logprob }) => asked.map((id) => tuple(logprob - 1, id)));
    if (decodes) scored.splice(0, 1, ...(isNewer(backend.version) ? [null] : []));
    info["output_token_ids_logprobs"] = scored;
  }
  return info;
}
