import { CanopyError } from "../../base/errors.ts";
import { poolProblem } from "../pool/pool_problem.ts";
import { EngineError } from "../worker/engine_error.ts";
import type { ServedModel } from "./served_model.ts";

/** The reason why another model answers: no worker can take work, all were full, or all attempts failed. */
export type FallbackReason = "no_worker" | "full" | "failed";

/** A model by its key. */
export type FindModel = (name: string) => ServedModel | undefined;

/** The models that may answer in a model's place: its own fallbacks in their order, each followed by its own ones. */
export function fallbacksOf(name: string, find: FindModel): ServedModel[] {
  const found = new Map<string, ServedModel>();
  const visit = (from: string): void => {
    for (const next of find(from)?.config.fallback ?? []) {
      const model = find(next);
      if (model === undefined || next === name || found.has(next)) continue;
      found.set(next, model);
      visit(next);
    }
  };
  visit(name);
  return [...found.values()];
}

/** The reason for which a request that failed so may go to another model; undefined where that would not help. */
export function fallbackReason(error: unknown): FallbackReason | undefined {
  if (error instanceof EngineError) {
    if (!error.retryable) return undefined;
    return error.status === 429 || error.status === 503 ? "full" : "failed";
  }
  return CanopyError.is(error) && error.code === "no_worker" ? "no_worker" : undefined;
}

/** The reason why neither a model nor any in its place is known to serve, in words; undefined when one is. */
export function servingProblem(model: ServedModel, find: FindModel): string | undefined {
  const problem = poolProblem(model.pool.workers(), model.config);
  if (problem === undefined) return undefined;
  const others = fallbacksOf(model.name, find);
  const isServed = others.some(({ pool, config }) => poolProblem(pool.workers(), config) === undefined);
  return isServed ? undefined : problem;
}
