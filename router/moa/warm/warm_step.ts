import type { WarmControl } from "./warm_control.ts";
import type { ServedModel } from "../../served/served_model.ts";

/**
 * New tokens that are worth a warm of their own: what the cache keeps, not less than 16, and a fixed share of what is
 * warmed already of others' text: n such tokens take some 64 log n warms, and what is left for the end is one percent.
 * The prompt's own beginning does not count: it may be long, and is in the cache at once.
 */
const STEP = { least: 16, most: 256, share: 1 / 64 };

/**
 * On a server that mixes prefill into its decode steps, a warm makes the step of each stream longer by more than its
 * tokens take: so many new tokens per stream outweigh that.
 */
const TOKENS_PER_STREAM = 4;

/** New tokens from which on a prompt's next warm is worthwhile. */
export function stepTokens({ model, control, home, splicedTokens, stableTokens }: {
  readonly model: ServedModel;
  readonly control: WarmControl;
  /** The worker that holds the prefix; undefined before the first warm has a place. */
  readonly home: string | undefined;
  /** Tokens that warms have sent since the first one, which takes the prompt's own beginning. */
  readonly splicedTokens: number;
  /** Of the prompt's tokens, those that are certain. */
  readonly stableTokens: number;
}): number {
  const { warm } = model.engine.capabilities;
  const share = Math.min(STEP.most, Math.floor(splicedTokens * STEP.share));
  const fine = Math.max(blockTokensOf(model), STEP.least, share);
  if (warm === "pair_1" || warm === "fake_bootstrap") return fine;
  const streams = streamsAt(model, home);
  if (streams === 0) return fine;
  if (warm === "max_tokens_1") return Math.max(fine, TOKENS_PER_STREAM * streams);
  // Such a server stops all its streams for each warm.
  return Math.max(fine, control.worthwhile(stableTokens, streams));
}

/** Requests that run on a worker; without one, on the worker of the model that has the fewest. */
export function streamsAt(model: ServedModel, workerId: string | undefined): number {
  const counts = model.pool.workers()
    .filter(({ id }) => workerId === undefined || id === workerId)
    .map(({ inFlight }) => inFlight);
  return counts.length === 0 ? 0 : Math.min(...counts);
}

/** True when requests can go to a worker. */
export function isUsable(model: ServedModel, workerId: string): boolean {
  return model.pool.workers().some(({ id, health }) =>
    id === workerId && (health === "healthy" || health === "unknown")
  );
}

/** Tokens of one block of the prefix cache; a guess where the engine does not say. */
export function blockTokensOf({ engine }: ServedModel): number {
  const { blockTokens, warm } = engine.capabilities;
  return blockTokens ?? (warm === "max_tokens_1" ? 16 : 1);
}
