import type { Json, JsonObject } from "../../base/json.ts";
import type { Backend } from "./backend.ts";
import type { Choice } from "./choice.ts";
import { SGLANG, versionNumber } from "./sglang_version.ts";
import { promptLogprobs, type ScoredToken } from "./tokens.ts";

/** What `/generate` was asked to report about log-probabilities. */
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
  sent: { readonly stream: boolean; readonly first: boolean; readonly sentMs: number },
  backend: Backend,
): JsonObject {
  const { sequence, finish } = choice;
  const newer = isNewer(backend.version);
  const info: JsonObject = {
    id: rid,
    finish_reason: finishReason(choice),
    prompt_tokens: prompt.length,
    weight_version: "default",
    num_retractions: 0,
  };
  if (sequence?.scheduledMs !== undefined) {
    info["forward_entry_time"] = backend.unixTime(sequence.scheduledMs);
    if (sequence.prefilledMs !== undefined) {
      info["prefill_finished_time"] = backend.unixTime(sequence.prefilledMs);
    }
    info["queue_time"] = (sequence.scheduledMs - sequence.arrivedMs) / 1000;
  }
  if (logprobs !== undefined) Object.assign(info, logprobInfo(choice, prompt, logprobs, backend));
  info["reasoning_tokens"] = 0;
  info["completion_tokens"] = choice.ids.length;
  const cached = sequence?.cachedTokens ?? 0;
  info["cached_tokens"] = cached;
  if (newer && finish !== undefined) {
    info["weight_versions"] = [{ version: "default", start: 0, end: choice.ids.length }];
  }
  info["cached_tokens_details"] = cached === 0 ? null : { device: cached, host: 0 };
  info["dp_rank"] = null;
  if (finish === undefined) {
    if (sent.first) info["response_sent_to_client_ts"] = backend.unixTime(sent.sentMs);
    return info;
  }
  const endMs = sequence?.endedMs ?? backend.options.clock.now();
  info["e2e_latency"] = (endMs - times.receivedMs) / 1000;
  info["request_received_ts"] = backend.unixTime(times.receivedMs);
  if (newer) info["first_token_latency"] = ((sequence?.prefilledMs ?? endMs) - times.receivedMs) / 1000;
  info["api_server_dispatch_finish_ts"] = backend.unixTime(times.dispatchedMs);
  const early = sent.stream && !sent.first;
  if (early) info["response_sent_to_client_ts"] = backend.unixTime(sent.sentMs);
  info["request_finished_ts"] = backend.unixTime(endMs);
  if (choice.ids.length > 1) {
    const seconds = (endMs - (sequence?.prefilledMs ?? endMs)) / 1000;
    info["decode_throughput"] = (choice.ids.length - 1) / Math.max(1e-6, seconds);
  }
  if (!early) info["response_sent_to_client_ts"] = backend.unixTime(sent.sentMs);
  return info;
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
  const input = request.start < 0 ? [] : promptLogprobs(backend.speech, prompt, request.start, request.top);
  const info: JsonObject = {
    input_token_logprobs: input.map(({ id, logprob }) => tuple(logprob, id)),
    output_token_logprobs: choice.scores.map(({ id, logprob }) => tuple(logprob, id)),
    output_token_logprobs_length: choice.scores.length,
  };
  if (request.top > 0) {
    info["input_top_logprobs"] = input.map(({ top }) => top === null ? null : tuples(top));
    info["output_top_logprobs"] = choice.scores.map(({ top }) => tuples(top));
  }
  if (request.tokenIds !== undefined) {
    const asked = request.tokenIds;
    info["input_token_ids_logprobs"] = [];
    info["output_token_ids_logprobs"] = choice.scores.map(({ logprob }) =>
      asked.map((id) => tuple(logprob - 1, id))
    );
  }
  return info;
}
