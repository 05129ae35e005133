import type { JsonObject } from "../../base/json.ts";

/** The sizes of the Qwen3 family, which is what the presets run. */
function qwen3(
  hidden_size: number,
  intermediate_size: number,
  num_hidden_layers: number,
  num_attention_heads: number,
  more: JsonObject = {},
): JsonObject {
  return {
    hidden_size,
    intermediate_size,
    num_hidden_layers,
    num_attention_heads,
    num_key_value_heads: 8,
    head_dim: 128,
    vocab_size: 151_936,
    max_position_embeddings: 40_960,
    tie_word_embeddings: false,
    ...more,
  };
}

function qwen3Vl(text: JsonObject, vision: JsonObject): JsonObject {
  return {
    architectures: ["Qwen3VLForConditionalGeneration"],
    tie_word_embeddings: text["tie_word_embeddings"] ?? false,
    text_config: { ...text, dtype: "bfloat16", max_position_embeddings: 262_144 },
    vision_config: {
      out_hidden_size: text["hidden_size"] ?? 0,
      num_position_embeddings: 2_304,
      spatial_merge_size: 2,
      ...vision,
    },
  };
}

const VISION_LARGE = {
  depth: 27,
  hidden_size: 1_152,
  intermediate_size: 4_304,
  deepstack_visual_indexes: [8, 16, 24],
};
const VISION_SMALL = {
  depth: 24,
  hidden_size: 1_024,
  intermediate_size: 4_096,
  deepstack_visual_indexes: [5, 11, 17],
};

const r1Distill = qwen3(4_096, 12_288, 36, 32, { max_position_embeddings: 131_072 });

/** Sizes of these models in the Hub's config.json. */
const KNOWN: Readonly<Record<string, JsonObject>> = {
  "Qwen/Qwen3-0.6B": qwen3(1_024, 3_072, 28, 16, { tie_word_embeddings: true }),
  "Qwen/Qwen3-4B": qwen3(2_560, 9_728, 36, 32, { tie_word_embeddings: true }),
  "Qwen/Qwen3-8B": qwen3(4_096, 12_288, 36, 32),
  "Qwen/Qwen3-14B": qwen3(5_120, 17_408, 40, 40),
  "Qwen/Qwen3-32B": qwen3(5_120, 25_600, 64, 64),
  "Qwen/Qwen3-VL-4B-Instruct": qwen3Vl(
    qwen3(2_560, 9_728, 36, 32, { tie_word_embeddings: true }),
    VISION_SMALL,
  ),
  "Qwen/Qwen3-VL-8B-Instruct": qwen3Vl(qwen3(4_096, 12_288, 36, 32), VISION_LARGE),
  "Qwen/Qwen3-VL-32B-Instruct": qwen3Vl(qwen3(5_120, 25_600, 64, 64), VISION_LARGE),
  "deepseek-ai/DeepSeek-R1-0528-Qwen3-8B": r1Distill,
};

/** The config of a model of the presets, so that they can be planned without the Hub; undefined for others. */
export function knownModelConfig(model: string): JsonObject | undefined {
  const name = model.split("@")[0] ?? model;
  return Object.hasOwn(KNOWN, name) ? KNOWN[name] : undefined;
}
