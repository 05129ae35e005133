import { loadTokenizer, type LoadTokenizerOptions } from "../../../ml/tokenizers/hf_tokenizer.ts";
import type { ModelTokenizer } from "../../../ml/tokenizers/model_tokenizer.ts";
import { builtinTokenizer } from "../../../simulator/server/backend.ts";
import { BUILTIN_TOKENIZER } from "../../../simulator/text/tokenizer.ts";

/**
 * A tokenizer by its name: a folder, a Hub id, or the one that simulated servers speak.
 * Throws 500 `tokenizer_unavailable` or `tokenizer_unsupported`.
 */
export async function loadAnyTokenizer(
  source: string,
  options: LoadTokenizerOptions,
): Promise<ModelTokenizer> {
  return source === BUILTIN_TOKENIZER ? builtinTokenizer() : await loadTokenizer(source, options);
}
