import { isJsonObject, type Json, type JsonObject } from "../../base/json.ts";
import { sumOf } from "../statistics/statistics.ts";

/** Work of a model, or of all agents with it. */
export interface ModelWork {
  readonly calls: number;
  readonly completionTokens: number;
}

/** What an answer took, of all agents, as the server counts it. */
export interface AnswerWork {
  readonly calls: number;
  /** Prompt tokens that were found in a cache; null where no engine says it. */
  readonly cachedTokens: number | null;
  /** Tokens that were written and nobody read. */
  readonly wastedTokens: number;
  /** Estimate of the tokens that early exits spared. */
  readonly savedTokens: number;
  /** In the currency of the models' prices; null where one of them has none. */
  readonly cost: number | null;
  readonly models: Readonly<Record<string, ModelWork>>;
}

/** The work that an answer's `usage` tells, or, of a graph, its `canopy.usage`. `model`: that was asked. */
export function answerWork(model: string, usage: JsonObject, canopy: JsonObject | undefined): AnswerWork {
  const run = canopy?.["usage"];
  if (isJsonObject(run)) {
    const models = Array.isArray(run["models"]) ? run["models"].filter(isJsonObject) : [];
    return {
      calls: numberIn(run["calls"]) ?? 1,
      cachedTokens: numberIn(run["cached_tokens"]) ?? null,
      wastedTokens: numberIn(run["wasted_tokens"]) ?? 0,
      savedTokens: numberIn(run["saved_tokens_estimate"]) ?? 0,
      cost: numberIn(run["cost"]) ?? null,
      models: Object.fromEntries(models.map((one) => [String(one["model"]), {
        calls: numberIn(one["calls"]) ?? 0,
        completionTokens: numberIn(one["completion_tokens"]) ?? 0,
      }])),
    };
  }
  const details = usage["prompt_tokens_details"];
  return {
    calls: 1,
    cachedTokens: (isJsonObject(details) ? numberIn(details["cached_tokens"]) : undefined) ?? null,
    wastedTokens: 0,
    savedTokens: 0,
    cost: numberIn(usage["cost"]) ?? null,
    models: { [model]: { calls: 1, completionTokens: numberIn(usage["completion_tokens"]) ?? 0 } },
  };
}

/** The work of several answers together; undefined where that of one is not known. */
export function workOfAll(all: readonly (AnswerWork | undefined)[]): AnswerWork | undefined {
  const known = all.filter((one) => one !== undefined);
  if (known.length < all.length || known.length === 0) return undefined;
  const sum = (of: (one: AnswerWork) => number) => sumOf(known.map(of));
  const ofAll = (of: (one: AnswerWork) => number | null) =>
    known.some((one) => of(one) === null) ? null : sum((one) => of(one) ?? 0);
  const names = new Set(known.flatMap(({ models }) => Object.keys(models)));
  return {
    calls: sum(({ calls }) => calls),
    cachedTokens: ofAll(({ cachedTokens }) => cachedTokens),
    wastedTokens: sum(({ wastedTokens }) => wastedTokens),
    savedTokens: sum(({ savedTokens }) => savedTokens),
    cost: ofAll(({ cost }) => cost),
    models: Object.fromEntries(
      [...names].sort().map((name) => [name, {
        calls: sum(({ models }) => models[name]?.calls ?? 0),
        completionTokens: sum(({ models }) => models[name]?.completionTokens ?? 0),
      }]),
    ),
  };
}

function numberIn(value: Json | undefined): number | undefined {
  return typeof value === "number" ? value : undefined;
}
