import type { Json, JsonObject } from "../../base/json.ts";
import type { Choice, Collector, ScoredChoice } from "../engine/choice.ts";
import type { Backend } from "../server/backend.ts";
import type { ScoredToken } from "../text/tokens.ts";
import type { VllmSampling } from "./request.ts";

const utf8 = new TextEncoder();

/** `finish_reason` and `stop_reason` of an answer. */
export function finishFields(choice: Choice): { finish: string | null; stop: string | number | null } {
  const { finish } = choice;
  if (finish === undefined) return { finish: null, stop: null };
  if (finish.type !== "stop") return { finish: finish.type, stop: null };
  return { finish: "stop", stop: finish.matched === choice.options.speech.endId ? null : finish.matched };
}

/** Name of a token in log-probability lists. */
export function tokenName(id: number, backend: Backend, asId: boolean): string {
  return asId ? `token_id:${id}` : backend.tokenizer.decode([id]);
}

/** `choices[].logprobs` of completions, for tokens that follow `offset` characters of text. */
export function vllmCompletionLogprobs(
  scores: readonly { id: number; logprob: number | null; top: readonly ScoredToken[] | null }[],
  offset: number,
  backend: Backend,
  asId: boolean,
): JsonObject {
  const offsets: number[] = [];
  const tops: Json[] = [];
  let at = offset;
  const tokens = scores.map(({ id, logprob, top }) => {
    const name = tokenName(id, backend, asId);
    offsets.push(at);
    at += name.length;
    const alternatives: JsonObject = logprob === null ? {} : { [name]: logprob };
    for (const other of top ?? []) alternatives[tokenName(other.id, backend, asId)] ??= other.logprob;
    tops.push(logprob === null ? null : alternatives);
    return name;
  });
  return {
    text_offset: offsets,
    token_logprobs: scores.map(({ logprob }) => logprob),
    tokens,
    top_logprobs: tops,
  };
}

/** `choices[].logprobs` of chats. */
export function vllmChatLogprobs(
  scores: readonly ScoredChoice[],
  count: number,
  backend: Backend,
  asId: boolean,
): JsonObject {
  const entry = (id: number, logprob: number, bytesOf: string): JsonObject => ({
    token: tokenName(id, backend, asId),
    logprob,
    bytes: [...utf8.encode(bytesOf)],
  });
  return {
    content: scores.map(({ id, logprob, top }) => ({
      ...entry(id, logprob, backend.tokenizer.decode([id])),
      top_logprobs: top.slice(0, count).map((other) =>
        entry(other.id, other.logprob, tokenName(other.id, backend, asId))
      ),
    })),
  };
}

/** Token counts of a request: each prompt once, all answers. */
export function countTokens(collector: Collector): { prompt: number; completion: number; cached: number } {
  const counts = { prompt: 0, completion: 0, cached: 0 };
  const prompts = new Set<number>();
  for (const choice of collector.choices) {
    counts.completion += choice.ids.length;
    if (prompts.has(choice.options.promptIndex)) continue;
    prompts.add(choice.options.promptIndex);
    counts.prompt += choice.sequence?.promptLength ?? 0;
    counts.cached += choice.sequence?.cachedTokens ?? 0;
  }
  return counts;
}

/** Blocks that the prompt added to the cache, in tokens. */
export function createdCacheTokens(
  collector: Collector,
  backend: Backend,
  counts: { prompt: number; cached: number },
): number {
  // KV that came from another server does not count.
  if (collector.choices[0]?.sequence?.resumeAt !== undefined) return 0;
  const page = backend.scheduler.options.pageSize;
  return Math.max(0, counts.prompt - counts.prompt % page - counts.cached);
}

/** Lets events through as the request's `stream_interval` wants: the first token at once, then in groups. */
export function isDue(choice: Choice, seenIds: number, sampling: VllmSampling): boolean {
  if (choice.finish !== undefined || seenIds === 0) return true;
  return choice.ids.length - seenIds >= sampling.streamInterval;
}

/** `system_fingerprint`: the version and a hash of the configuration. */
export function fingerprint(backend: Backend): string {
  return `vllm-${backend.version}-ff0e0355`;
}
