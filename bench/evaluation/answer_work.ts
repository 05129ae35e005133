import { isJsonObject, type Json, type JsonObject } from "../../base/json.ts";
import { sumOf } from "../statistics/statistics.ts";

/** Work of a model, or of all agents with it. */
export interface ModelWork {
  readonly calls: number;
  readonly promptTokens: number;
  /** Of these, the ones that were found in a cache; null where no engine says it. */
  readonly cachedTokens: number | null;
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
  /** Of a graph's agents. */
  readonly graph?: true | undefined;
}

/** The work that an answer's `usage` tells, or, of a graph, its `canopy.usage`. `model`: that was asked. */
export function answerWork(model: string, usage: JsonObject, canopy: JsonObject | undefined): AnswerWork {
  const run = canopy?.["usage"];
  if (isJsonObject(run)) {
    const models = Array.isArray(run["models"]) ? run["models"].filter(isJsonObject) : [];
    return {
      graph: true,
      calls: numberIn(run["calls"]) ?? 1,
      cachedTokens: numberIn(run["cached_tokens"]) ?? null,
      wastedTokens: numberIn(run["wasted_tokens"]) ?? 0,
      savedTokens: numberIn(run["saved_tokens_estimate"]) ?? 0,
      cost: numberIn(run["cost"]) ?? null,
      models: Object.fromEntries(models.map((one) => [String(one["model"]), {
        calls: numberIn(one["calls"]) ?? 0,
        promptTokens: numberIn(one["prompt_tokens"]) ?? 0,
        cachedTokens: numberIn(one["cached_tokens"]) ?? null,
        completionTokens: numberIn(one["completion_tokens"]) ?? 0,
      }])),
    };
  }
  const details = usage["prompt_tokens_details"];
  const cachedTokens = (isJsonObject(details) ? numberIn(details["cached_tokens"]) : undefined) ?? null;
  const tokens = {
    promptTokens: numberIn(usage["prompt_tokens"]) ?? 0,
    completionTokens: numberIn(usage["completion_tokens"]) ?? 0,
  };
  return {
    calls: 1,
    cachedTokens,
    wastedTokens: 0,
    savedTokens: 0,
    cost: numberIn(usage["cost"]) ?? null,
    models: { [model]: { calls: 1, cachedTokens, ...tokens } },
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
    ...known.some(({ graph }) => graph === true) ? { graph: true } : {},
    calls: sum(({ calls }) => calls),
    cachedTokens: ofAll(({ cachedTokens }) => cachedTokens),
    wastedTokens: sum(({ wastedTokens }) => wastedTokens),
    savedTokens: sum(({ savedTokens }) => savedTokens),
    cost: ofAll(({ cost }) => cost),
    models: Object.fromEntries(
      [...names].sort().map((name) => {
        const work = known.flatMap(({ models }) => models[name] ?? []);
        return [name, modelWorkOfAll(work)];
      }),
    ),
  };
}

function modelWorkOfAll(all: readonly ModelWork[]): ModelWork {
  const sum = (of: (one: ModelWork) => number) => sumOf(all.map(of));
  // Records of older versions have no prompt tokens by model: NaN, shown as a dash.
  return {
    calls: sum(({ calls }) => calls),
    promptTokens: sum(({ promptTokens = NaN }: Partial<ModelWork>) => promptTokens),
    cachedTokens: all.some(({ cachedTokens = null }: Partial<ModelWork>) => cachedTokens === null)
      ? null
      : sum(({ cachedTokens }) => cachedTokens ?? 0),
    completionTokens: sum(({ completionTokens }) => completionTokens),
  };
}

function numberIn(value: Json | undefined): number | undefined {
  return typeof value === "number" ? value : undefined;
}
