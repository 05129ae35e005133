import { type EngineCapabilities, type Sampling, statedPriority } from "../../engines/engine.ts";

/** Tokens of a word at most, as most tokenizers have it: a last word that may not be whole is not read. */
const WORD_TOKENS = 4;

/** By how much requests for first words go ahead of others, where an engine orders its queue by priority. */
export interface Ahead {
  /** Below 0, and added to a request's own. */
  readonly priority: number;
  /** Tokens for which that holds; undefined where the engine knows no such limit. */
  readonly tokens: number | undefined;
}

/**
 * For an agent with so many others one behind the other before it: the nearer it is to the root, the sooner its first
 * words are needed. Undefined where the engine orders nothing; a leaf, whose request is for all of its answer, goes ahead
 * only where that ends with its first words.
 */
export function aheadOf(
  { priority, priorityTokens }: EngineCapabilities,
  { depth, firstTokens }: { readonly depth: number; readonly firstTokens: number },
): Ahead | undefined {
  if (priority === undefined || (depth === 0 && priorityTokens !== true)) return undefined;
  return { priority: -1 - depth, tokens: priorityTokens === true ? firstTokens + WORD_TOKENS : undefined };
}

/** The parameters of a request that goes ahead. */
export function goingAhead(sampling: Sampling, { priority, tokens }: Ahead): Sampling {
  const extra = { ...sampling.extra, priority: (statedPriority(sampling) ?? 0) + priority };
  return { ...sampling, extra: tokens === undefined ? extra : { ...extra, priority_tokens: tokens } };
}
