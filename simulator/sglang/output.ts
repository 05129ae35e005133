import type { JsonObject } from "../../base/json.ts";
import type { Choice, Collector, ScoredChoice } from "../engine/choice.ts";
import type { Backend } from "../server/backend.ts";
import { isNewer } from "./meta.ts";
import { promptLogprobs, type ScoredToken } from "../text/tokens.ts";

const utf8 = new TextEncoder();

/** A request of either OpenAI endpoint, in common terms. */
export interface OpenaiJob {
  readonly dpRank: number | undefined;
  readonly kind: "chat" | "completions";
  readonly body: JsonObject;
  readonly created: number;
  readonly model: string;
  readonly prompts: readonly (readonly number[])[];
  readonly rids: readonly string[];
  readonly n: number;
  /** Alternatives per token; undefined: no log-probabilities. */
  readonly logprobs: number | undefined;
  readonly echo: boolean;
  readonly stream: boolean;
  readonly includeUsage: boolean;
  readonly continuousUsage: boolean;
  readonly receivedMs: number;
  readonly collector: Collector;
}

/** `finish_reason` and `matched_stop` of an answer. */
export function finishOf(choice: Choice): { finish: string | null; matched: string | number | null } {
  if (choice.finish === undefined) return { finish: null, matched: null };
  return {
    finish: choice.finish.type,
    matched: choice.finish.type === "stop" ? choice.finish.matched : null,
  };
}

/** `usage` of some answers: each prompt once. */
export function sglangUsage(choices: readonly Choice[], backend: Backend): JsonObject {
  let prompt = 0;
  let cached = 0;
  let completion = 0;
  const prompts = new Set<number>();
  for (const choice of choices) {
    completion += choice.ids.length;
    if (prompts.has(choice.options.promptIndex)) continue;
    prompts.add(choice.options.promptIndex);
    prompt += choice.sequence?.promptLength ?? 0;
    cached += choice.sequence?.cachedTokens ?? 0;
  }
  const newer = isNewer(backend.version);
  return {
    prompt_tokens: prompt,
    total_tokens: prompt + completion,
    completion_tokens: completion,
    prompt_tokens_details: cached > 0 || newer ? { cached_tokens: cached } : null,
    reasoning_tokens: 0,
    ...(newer ? { completion_tokens_details: null } : {}),
  };
}

/** `choices[].logprobs` of completions; the prompt's tokens come first in an echo. */
export function sglangCompletionLogprobs(
  job: OpenaiJob,
  prompt: readonly number[],
  scores: readonly ScoredChoice[],
  first: boolean,
  backend: Backend,
): JsonObject | null {
  if (job.logprobs === undefined) return null;
  const all: { id: number; logprob: number | null; top: readonly ScoredToken[] | null }[] = [
    // A decode server has no log-probabilities of the prompt.
    ...(first && job.echo && backend.pd?.role !== "decode"
      ? promptLogprobs(backend.speech, prompt, 0, job.logprobs)
      : []),
    ...scores,
  ];
  return {
    text_offset: all.map(() => -1),
    token_logprobs: all.map(({ logprob }) => logprob),
    tokens: all.map(({ id }) => backend.tokenizer.decode([id])),
    top_logprobs: all.map(({ logprob, top }) => {
      if (logprob === null) return null;
      const named: JsonObject = {};
      for (const other of top ?? []) named[backend.tokenizer.decode([other.id])] = other.logprob;
      return named;
    }),
  };
}

/** `choices[].logprobs` of chats. */
export function sglangChatLogprobs(
  scores: readonly ScoredChoice[],
  count: number,
  backend: Backend,
): JsonObject {
  const entry = (id: number, logprob: number): JsonObject => {
    const token = backend.tokenizer.decode([id]);
    return { token, bytes: [...utf8.encode(token)], logprob };
  };
  return {
    content: scores.map(({ id, logprob, top }) => ({
      ...entry(id, logprob),
      top_logprobs: top.slice(0, count).map((other) => entry(other.id, other.logprob)),
    })),
  };
}
