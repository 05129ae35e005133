import { isJsonObject, type JsonObject } from "../../base/json.ts";
import type { ModelConfig } from "../../cfgs/schema/config.ts";
import type { EngineCapabilities } from "./engine.ts";
import { pairDiesOfTopLogprobs } from "./guards/refuse_deadly.ts";
import { askedJson, askedText, asObject, type ProbeOptions } from "./probe_get.ts";
import { fakeBootstrapWarms } from "./sglang/bootstrap.ts";
import { olderThan } from "./version.ts";
import { cacheFacts, schedulesByPriority } from "./vllm/vllm_facts.ts";

/** Abilities of the newest version of the model's family, for servers that have not been asked yet. */
export function defaultCapabilities(
  config: Pick<ModelConfig, "engine" | "context_tokens">,
): EngineCapabilities {
  const all = {
    version: undefined,
    contextTokens: config.context_tokens,
    maxStopStrings: undefined,
    tokenIds: true,
    returnsTokenIds: true,
    logprobs: true,
    cachedTokens: true,
  };
  switch (config.engine) {
    case "openai":
      return { ...all, tokenIds: false, returnsTokenIds: false, warm: "none", abort: "close" };
    case "onnx":
      return {
        ...all,
        warm: "max_tokens_1",
        abort: "close",
        blockTokens: 1,
        smallPieces: true,
        priority: "lower_first",
        priorityTokens: true,
      };
    case "vllm":
    case "vllm-pd":
      return { ...all, maxStopStrings: 4, warm: "max_tokens_1", abort: "close" };
    case "sglang":
    case "sglang-pd": {
      const warm = config.engine === "sglang" ? "max_new_tokens_0" : "pair_1";
      return { ...all, warm, abort: "abort_then_close" };
    }
  }
}

/**
 * Asks one worker for its version and limits. Needs one answer to `/v1/models` (or SGLang's server info): throws
 * `EngineError` when the worker cannot be reached or refuses; what it does not say stays undefined.
 */
export async function probe(options: ProbeOptions): Promise<EngineCapabilities> {
  const { config } = options;
  const base = defaultCapabilities(config);
  if (config.engine === "vllm" || config.engine === "vllm-pd") return await probeVllm(options, base);
  if (config.engine === "sglang" || config.engine === "sglang-pd") return await probeSglang(options, base);
  const models = await askedJson(options, "/v1/models");
  const computes = cardOf(models, config.model)?.computes;
  return {
    ...base,
    ...simulatedBy(models, config.model),
    contextTokens: config.context_tokens ?? contextOf(models, config.model),
    ...(config.engine === "onnx" && isJsonObject(computes) ? { computes } : {}),
  };
}

async function probeVllm(options: ProbeOptions, base: EngineCapabilities): Promise<EngineCapabilities> {
  const [models, about, metrics, info] = await Promise.all([
    askedJson(options, "/v1/models"),
    askedJson(options, "/version"),
    ifAnswered(options, "/metrics"),
    ifAnswered(options, "/server_info?config_format=json"),
  ]);
  const cache = cacheFacts(metrics ?? "");
  const version = typeof about?.version === "string" ? about.version : undefined;
  const old = (than: string) => version !== undefined && olderThan(version, than);
  const { maxStopStrings: _, ...rest } = base;
  return {
    ...rest,
    ...simulatedBy(models, options.config.model),
    version,
    contextTokens: options.config.context_tokens ?? contextOf(models, options.config.model),
    returnsTokenIds: !old("0.10.2"),
    // The limit is known of 0.32 only; earlier versions take any number.
    maxStopStrings: old("0.32.0") ? undefined : 4,
    ...(cache?.blockTokens === undefined ? {} : { blockTokens: cache.blockTokens }),
    ...(cache?.caches === false ? { warm: "none" } : {}),
    ...(schedulesByPriority(asObject(info ?? "")) ? { priority: "lower_first" } : {}),
    tokenizerNames: rootsOf(models, options.config.model),
  };
}

async function probeSglang(options: ProbeOptions, base: EngineCapabilities): Promise<EngineCapabilities> {
  const models = await askedJson(options, "/v1/models");
  const info = await askedJson(options, "/get_server_info") ?? await askedJson(options, "/server_info");
  const version = typeof info?.version === "string" ? info.version : undefined;
  const old = (than: string) => version !== undefined && olderThan(version, than);
  const incremental = version === undefined
    ? undefined
    : info?.incremental_streaming_output ?? info?.stream_output;
  const context = contextOf(models, options.config.model) ??
    (typeof info?.context_length === "number" ? info.context_length : undefined);
  return {
    ...base,
    ...simulatedBy(models, options.config.model),
    version,
    warm: base.warm === "pair_1" && fakeBootstrapWarms(version) ? "fake_bootstrap" : base.warm,
    ...(options.config.engine === "sglang-pd" && pairDiesOfTopLogprobs(version)
      ? { topLogprobs: false }
      : {}),
    contextTokens: options.config.context_tokens ?? context,
    // 0.5.3 to 0.5.5 lose ids when events are merged.
    returnsTokenIds: !old("0.5.6"),
    // In between, and before, text and ids did not go the same way: the stream itself has to tell.
    ...(incremental === false && !old("0.5.6") || incremental === true && !old("0.5.10")
      ? { incrementalStream: incremental }
      : {}),
    ...(isCount(info?.dp_size) ? { ranks: info.dp_size } : {}),
    ...(isCount(info?.page_size) ? { blockTokens: info.page_size } : {}),
    tokenizerNames: textsOf([info?.tokenizer_path, info?.model_path]),
  };
}

/** An answer that is good to have, but not needed: undefined when it cannot be had. */
async function ifAnswered(options: ProbeOptions, path: string): Promise<string | undefined> {
  try {
    return await askedText(options, path);
  } catch {
    options.signal.throwIfAborted();
    return undefined;
  }
}

function isCount(value: unknown): value is number {
  return typeof value === "number" && Number.isInteger(value) && value > 0;
}

/** vLLM's `root` of a model: the folder or Hub id that it was started with; of an adapter, that of its base model. */
function rootsOf(models: JsonObject | undefined, name: string): readonly string[] | undefined {
  const list = Array.isArray(models?.data) ? models.data.filter(isJsonObject) : [];
  const model = list.find((item) => item.id === name);
  const base = list.find((item) => item.id === model?.parent);
  return textsOf([base?.root ?? model?.root]);
}

function textsOf(values: readonly unknown[]): readonly string[] | undefined {
  const texts = values.filter((value) => typeof value === "string" && value !== "");
  return texts.length === 0 ? undefined : [...new Set(texts)].map(String);
}

/** What a model list says of a model; of its only one, whatever its name. */
function cardOf(models: JsonObject | undefined, name: string): JsonObject | undefined {
  const list = Array.isArray(models?.data) ? models.data.filter(isJsonObject) : [];
  return list.find((item) => item.id === name) ?? (list.length === 1 ? list[0] : undefined);
}

/** Canopy's simulated servers say of their models that they are. */
function simulatedBy(models: JsonObject | undefined, name: string): Pick<EngineCapabilities, "simulated"> {
  return cardOf(models, name)?.simulated === true ? { simulated: true } : {};
}

/** The context length that a model list states for a model: vLLM's and SGLang's field, OpenRouter's, llama.cpp's. */
function contextOf(models: JsonObject | undefined, name: string): number | undefined {
  const model = cardOf(models, name);
  const meta = isJsonObject(model?.meta) ? model.meta : {};
  for (const value of [model?.max_model_len, model?.context_length, meta.n_ctx_train]) {
    if (typeof value === "number" && value > 0) return value;
  }
  return undefined;
}
