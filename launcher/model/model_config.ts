import { isJsonObject, type JsonObject } from "../../base/json.ts";

/** Sizes in a Hub `config.json`, under names that do not depend on the model's family. */
export interface ModelFacts {
  readonly architecture: string;
  readonly layers: number;
  /** Layers that keep keys and values for every token: not those of linear attention. */
  readonly attentionLayers: number;
  readonly hiddenSize: number;
  readonly attentionHeads: number;
  readonly kvHeads: number;
  readonly headDim: number;
  readonly vocabSize: number;
  readonly maxContextTokens: number;
  readonly tiedEmbeddings: boolean;
  /** Width of the dense feed-forward part. */
  readonly ffnSize: number;
  /** Mixture of experts; undefined for dense models. */
  readonly experts: {
    readonly count: number;
    readonly shared: number;
    readonly size: number;
    /** Layers at the beginning that are dense. */
    readonly denseLayers: number;
  } | undefined;
  /** Multi-head latent attention (DeepSeek): the sizes of its projections. */
  readonly latent: {
    readonly queryRank: number;
    readonly kvRank: number;
    readonly nopeDim: number;
    readonly ropeDim: number;
    readonly valueDim: number;
  } | undefined;
  /** Vision tower; undefined for text models. */
  readonly vision: {
    readonly depth: number;
    readonly hiddenSize: number;
    readonly ffnSize: number;
    readonly gated: boolean;
    readonly patchTokens: number;
    readonly mergers: number;
    readonly positions: number;
  } | undefined;
  /** Bits of a weight in the linear layers, the scales of its group included. */
  readonly linearBits: number;
  /** Quantised weights are only those of the experts (gpt-oss). */
  readonly onlyExpertsQuantised: boolean;
  /** Such as bf16, fp8, awq. */
  readonly weightType: string;
  /** Bits of the weights as they are stored where nothing is quantised: 32 halve when an engine loads them. */
  readonly storedBits: number;
}

/**
 * Reads a `config.json`; models with several parts keep their language model under `text_config`.
 * Undefined when sizes are missing, as in the configurations of other kinds of models.
 */
export function parseModelConfig(config: JsonObject): ModelFacts | undefined {
  const text = isJsonObject(config["text_config"])
    ? config["text_config"]
    : isJsonObject(config["llm_config"])
    ? config["llm_config"]
    : config;
  const number = (...names: string[]) => firstNumber(text, names);
  const layers = number("num_hidden_layers", "n_layer");
  const hiddenSize = number("hidden_size", "n_embd");
  const attentionHeads = number("num_attention_heads", "n_head");
  const vocabSize = number("vocab_size") ?? firstNumber(config, ["vocab_size"]);
  if (
    layers === undefined || hiddenSize === undefined || attentionHeads === undefined ||
    vocabSize === undefined
  ) return undefined;
  const latent = latentOf(text);
  const architectures = config["architectures"];
  const dtype = text["dtype"] ?? text["torch_dtype"] ?? config["dtype"] ?? config["torch_dtype"];
  const quantised = quantisationOf(config, text);
  return {
    architecture: Array.isArray(architectures) ? String(architectures[0]) : "unknown",
    layers,
    attentionLayers: attentionLayersOf(text, layers),
    hiddenSize,
    attentionHeads,
    // The latent vector of a token is one for all heads.
    kvHeads: latent === undefined ? number("num_key_value_heads") ?? attentionHeads : 1,
    headDim: number("head_dim") ?? Math.floor(hiddenSize / attentionHeads),
    vocabSize,
    maxContextTokens: number("max_position_embeddings", "n_positions", "seq_length") ?? 4_096,
    tiedEmbeddings: (text["tie_word_embeddings"] ?? config["tie_word_embeddings"]) === true,
    ffnSize: number("intermediate_size", "n_inner") ?? 4 * hiddenSize,
    experts: expertsOf(text),
    latent,
    vision: visionOf(config["vision_config"], hiddenSize),
    linearBits: quantised?.bits ?? 16,
    onlyExpertsQuantised: quantised?.type === "mxfp4",
    weightType: quantised?.type ?? (dtype === "float16" ? "fp16" : "bf16"),
    storedBits: quantised === undefined && dtype === "float32" ? 32 : 16,
  };
}

function firstNumber(object: JsonObject, names: readonly string[]): number | undefined {
  for (const name of names) {
    const value = object[name];
    if (typeof value === "number") return value;
  }
  return undefined;
}

function attentionLayersOf(text: JsonObject, layers: number): number {
  const types = text["layer_types"];
  if (Array.isArray(types)) return types.filter((type) => !/linear|mamba|conv/.test(String(type))).length;
  const interval = firstNumber(text, ["full_attention_interval"]);
  return interval === undefined ? layers : Math.floor(layers / interval);
}

function expertsOf(text: JsonObject): ModelFacts["experts"] {
  const count = firstNumber(text, ["n_routed_experts", "num_experts", "num_local_experts"]);
  const size = firstNumber(text, ["moe_intermediate_size", "intermediate_size"]);
  if (count === undefined || count < 2 || size === undefined) return undefined;
  const sharedSize = firstNumber(text, ["shared_expert_intermediate_size"]);
  return {
    count,
    size,
    shared: firstNumber(text, ["n_shared_experts"]) ?? (sharedSize === undefined ? 0 : sharedSize / size),
    denseLayers: firstNumber(text, ["first_k_dense_replace"]) ?? 0,
  };
}

function latentOf(text: JsonObject): ModelFacts["latent"] {
  const kvRank = firstNumber(text, ["kv_lora_rank"]);
  if (kvRank === undefined) return undefined;
  return {
    kvRank,
    queryRank: firstNumber(text, ["q_lora_rank"]) ?? 0,
    nopeDim: firstNumber(text, ["qk_nope_head_dim"]) ?? 128,
    ropeDim: firstNumber(text, ["qk_rope_head_dim"]) ?? 64,
    valueDim: firstNumber(text, ["v_head_dim"]) ?? 128,
  };
}

function visionOf(vision: unknown, textHiddenSize: number): ModelFacts["vision"] {
  if (!isJsonObject(vision)) return undefined;
  const depth = firstNumber(vision, ["depth", "num_hidden_layers"]);
  const hiddenSize = firstNumber(vision, ["hidden_size", "embed_dim"]);
  if (depth === undefined || hiddenSize === undefined || hiddenSize > textHiddenSize * 2) return undefined;
  const extra = vision["deepstack_visual_indexes"];
  return {
    depth,
    hiddenSize,
    ffnSize: firstNumber(vision, ["intermediate_size"]) ?? 4 * hiddenSize,
    gated: vision["hidden_act"] === "silu",
    patchTokens: (firstNumber(vision, ["spatial_merge_size"]) ?? 1) ** 2,
    mergers: 1 + (Array.isArray(extra) ? extra.length : 0),
    positions: firstNumber(vision, ["num_position_embeddings"]) ?? 0,
  };
}

/** Bits of a weight with the 16-bit scale, and the zero point, of each group. */
function quantisationOf(config: JsonObject, text: JsonObject): { type: string; bits: number } | undefined {
  const found = config["quantization_config"] ?? text["quantization_config"];
  if (!isJsonObject(found)) return undefined;
  const method = String(found["quant_method"] ?? "unknown");
  const grouped = (bits: number, size: number) => bits + (16 + bits) / (size > 0 ? size : 128);
  if (method === "fp8" || method === "fbgemm_fp8") return { type: "fp8", bits: 8 };
  if (method === "mxfp4") return { type: "mxfp4", bits: 4.25 };
  if (method === "awq" || method === "gptq") {
    const bits = firstNumber(found, ["bits", "w_bit"]) ?? 4;
    return { type: method, bits: grouped(bits, firstNumber(found, ["group_size", "q_group_size"]) ?? 128) };
  }
  if (method === "compressed-tensors" && isJsonObject(found["config_groups"])) {
    const group = Object.values(found["config_groups"])[0];
    const weights = isJsonObject(group) ? group["weights"] : undefined;
    if (!isJsonObject(weights)) return { type: method, bits: 16 };
    const bits = firstNumber(weights, ["num_bits"]) ?? 16;
    const type = weights["type"] === "float" ? `fp${bits}` : `int${bits}`;
    const size = firstNumber(weights, ["group_size"]) ?? 0;
    return { type, bits: bits >= 8 || size <= 0 ? bits : grouped(bits, size) };
  }
  if (method === "bitsandbytes") {
    return found["load_in_4bit"] === true ? { type: "bnb-4bit", bits: 4.5 } : { type: "bnb-8bit", bits: 8 };
  }
  return { type: method, bits: 16 };
}
