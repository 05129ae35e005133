import { addInt64 } from "../../../base/int64.ts";
import { isJsonObject, type Json, type JsonObject } from "../../../base/json.ts";
import type { SamplingConfig } from "../../../cfgs/schema/config.ts";
import type { Sampling } from "../../engines/engine.ts";

/** Turns the config's sampling parameters into an engine's; those that OpenAI does not name go to `extra`. */
export function samplingOf(config: SamplingConfig): Sampling {
  const {
    max_tokens,
    temperature,
    top_p,
    top_k,
    min_p,
    frequency_penalty,
    presence_penalty,
    repetition_penalty,
    seed,
    stop,
    ...rest
  } = config;
  const extra: JsonObject = {};
  for (const [name, value] of Object.entries(rest)) if (isJson(value)) extra[name] = value;
  return {
    ...given("max_tokens", max_tokens),
    ...given("temperature", temperature),
    ...given("top_p", top_p),
    ...given("top_k", top_k),
    ...given("min_p", min_p),
    ...given("frequency_penalty", frequency_penalty),
    ...given("presence_penalty", presence_penalty),
    ...given("repetition_penalty", repetition_penalty),
    ...given("seed", seed),
    ...given("stop", typeof stop === "string" ? [stop] : stop),
    ...(Object.keys(extra).length === 0 ? {} : { extra }),
  };
}

/** Lays `over` over `base`, parameter by parameter; those of `extra`, too. */
export function mergeSampling(base: Sampling, over: Sampling): Sampling {
  const extra = { ...base.extra, ...over.extra };
  return { ...base, ...over, ...(Object.keys(extra).length === 0 ? {} : { extra }) };
}

/** The parameters of choice `index` of several: a given seed is counted up, or all choices would be the same. */
export function samplingOfChoice(sampling: Sampling, index: number): Sampling {
  return sampling.seed === undefined || index === 0
    ? sampling
    : { ...sampling, seed: addInt64(sampling.seed, index) };
}

function given<K extends string, V>(name: K, value: V | undefined): { [P in K]?: V } {
  const entry: { [P in K]?: V } = {};
  if (value !== undefined) entry[name] = value;
  return entry;
}

function isJson(value: unknown): value is Json {
  if (Array.isArray(value)) return value.every(isJson);
  if (isJsonObject(value)) return Object.values(value).every(isJson);
  return value === null || ["string", "number", "boolean"].includes(typeof value);
}
