import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { loadTokenizer } from "../../ml/tokenizers/hf_tokenizer.ts";
import type { ModelTokenizer } from "../../ml/tokenizers/model_tokenizer.ts";
import { MemoryTransport } from "../../router/transport/memory.ts";

const fixtures = join(fileURLToPath(new URL(".", import.meta.url)), "..", "fixtures");

/** The folder with the tokenizer and the configuration of the tiny Qwen3. */
export const TINY_FOLDER = join(fixtures, "tiny-qwen3");

/** The tokenizer of the tiny Qwen3. */
export function tinyTokenizer(): Promise<ModelTokenizer> {
  return loadTokenizer(TINY_FOLDER, {
    transport: new MemoryTransport(() => undefined),
    signal: new AbortController().signal,
    env: {},
  });
}

/** The files of the tiny Qwen3 as an export has them in one folder, by their names there. */
export const tinyFiles: Readonly<Record<string, string>> = {
  "config.json": join(TINY_FOLDER, "config.json"),
  "generation_config.json": join(TINY_FOLDER, "generation_config.json"),
  "tokenizer.json": join(TINY_FOLDER, "tokenizer.json"),
  "tokenizer_config.json": join(TINY_FOLDER, "tokenizer_config.json"),
  "onnx/model.onnx": join(fixtures, "tiny-qwen3-onnx", "model.onnx"),
};
