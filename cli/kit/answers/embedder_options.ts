import { CanopyError } from "../../../base/errors.ts";
import { scorerSchema } from "../../../cfgs/schema/scorer.ts";
import type { OptionValues } from "../command.ts";
import type { Io } from "../io.ts";
import type { Embedder } from "../../../scorer/embedders/embedder.ts";
import { LexicalEmbedder } from "../../../scorer/embedders/lexical_embedder.ts";
import { OnnxEmbedder } from "../../../scorer/embedders/onnx_embedder.ts";
import { findOnnxFiles } from "../../../scorer/embedders/onnx_files.ts";

/** Options of the commands that compare answers. */
export const EMBEDDER_OPTIONS = {
  model: {
    type: "text",
    value: "DIR",
    help:
      "Embedding model: a folder with ONNX files and tokenizer.json, or a Hub id in the cache; without it words are compared",
  },
  "max-tokens": {
    type: "number",
    value: "N",
    min: 8,
    help: "Longest text that is embedded, from its start; 2048 by default",
  },
} as const;

/** The embedder of a model, or the one that needs none. Throws `weights_unavailable` when the model is not here. `whitening`: a calibration file. */
export async function openEmbedder(
  { model, "max-tokens": maxTokens }: OptionValues<typeof EMBEDDER_OPTIONS>,
  io: Io,
  whitening?: string,
): Promise<Embedder> {
  const settings = scorerSchema.parse({ model, max_tokens: maxTokens });
  if (model === undefined) {
    io.err.write("No --model: words are compared, not meanings\n");
    return new LexicalEmbedder({ maxTokens: settings.max_tokens });
  }
  const files = await findOnnxFiles(settings, io.env);
  if (files === undefined) {
    throw new CanopyError(
      `Cannot embed with ${model}: it is neither a folder nor in the Hub's cache: run "canopy models pull ${model}"`,
      { code: "weights_unavailable", status: 500 },
    );
  }
  return await OnnxEmbedder.open({
    clock: io.clock,
    files,
    model,
    span: settings.span,
    maxTokens: settings.max_tokens,
    maxCachedTokens: settings.max_cached_tokens,
    whitening,
  });
}
