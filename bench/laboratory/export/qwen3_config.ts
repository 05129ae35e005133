import { z } from "zod";
import { CanopyError } from "../../../base/errors.ts";

/** Sizes of a Qwen3 model. */
export interface Qwen3Config {
  readonly layers: number;
  readonly hidden: number;
  readonly heads: number;
  readonly cacheHeads: number;
  readonly headSize: number;
  readonly feedForward: number;
  readonly vocabulary: number;
  /** Longest text, in tokens. */
  readonly positions: number;
  readonly ropeTheta: number;
  readonly epsilon: number;
  /** True when the embeddings are the last matrix, too. */
  readonly tied: boolean;
}

const count = z.int().positive();
const schema = z.object({
  model_type: z.literal("qwen3"),
  num_hidden_layers: count,
  hidden_size: count,
  num_attention_heads: count,
  num_key_value_heads: count,
  head_dim: count,
  intermediate_size: count,
  vocab_size: count,
  max_position_embeddings: count,
  rms_norm_eps: z.number(),
  rope_theta: z.number().optional(),
  // As later versions of transformers write it.
  rope_parameters: z.object({ rope_theta: z.number() }).optional(),
  tie_word_embeddings: z.boolean().default(false),
});

/** Reads the text of a `config.json`. Throws 400 `unsupported_config` for what is no Qwen3. */
export function readQwen3Config(text: string): Qwen3Config {
  const { success, data, error } = schema.safeParse(JSON.parse(text));
  const theta = data?.rope_parameters?.rope_theta ?? data?.rope_theta;
  if (!success || theta === undefined) {
    const why = success ? "it has no rope_theta" : z.prettifyError(error).replaceAll("\n", " ");
    throw new CanopyError(`Cannot export a model: its config.json is not that of a Qwen3: ${why}`, {
      code: "unsupported_config",
      status: 400,
    });
  }
  return {
    layers: data.num_hidden_layers,
    hidden: data.hidden_size,
    heads: data.num_attention_heads,
    cacheHeads: data.num_key_value_heads,
    headSize: data.head_dim,
    feedForward: data.intermediate_size,
    vocabulary: data.vocab_size,
    positions: data.max_position_embeddings,
    ropeTheta: theta,
    epsilon: data.rms_norm_eps,
    tied: data.tie_word_embeddings,
  };
}
