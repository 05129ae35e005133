import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { Tokenizer } from "@huggingface/tokenizers";
import { CanopyError, messageOf } from "../../base/errors.ts";
import { isJsonObject, type Json, type JsonObject } from "../../base/json.ts";
import { streamingOf } from "../../ml/tokenizers/hf_streaming.ts";
import type { OpenTokenStream } from "../../ml/tokenizers/token_stream.ts";

/** The token that Qwen3-Embedding pools at. Its configuration names another one, `<|im_end|>`, as the end. */
const QWEN_END = "<|endoftext|>";

/** An answer's tokens, while it is written. */
export interface AnswerTokens {
  append(text: string): void;
  /** Tokens with which the whole text begins, whatever is still to come; empty where that cannot be known. */
  readonly stable: readonly number[];
  /** All of the text's tokens, without the end token. */
  complete(): readonly number[];
}

/**
 * An embedding model's tokenizer. Special tokens in the text of an answer become what they become in training texts:
 * their single ids. They are untrusted, but they only move similarity, which never lets an answer in by itself.
 */
export class EmbeddingTokenizer {
  /** Appended to every text, exactly once, also when the text itself ends with it: the model pools there. */
  readonly endId: number;
  readonly #tokenizer: Tokenizer;
  readonly #open: OpenTokenStream | undefined;

  constructor(source: string, files: { readonly tokenizer: JsonObject; readonly config: JsonObject }) {
    try {
      this.#tokenizer = new Tokenizer(files.tokenizer, files.config);
      this.endId = endIdOf(this.#tokenizer, files.tokenizer["post_processor"]);
      const streaming = streamingOf(this.#tokenizer, {
        normalizer: files.tokenizer["normalizer"],
        preTokenizer: files.tokenizer["pre_tokenizer"],
        config: files.config,
      });
      this.#open = "open" in streaming ? streaming.open : undefined;
    } catch (cause) {
      throw new CanopyError(`Cannot use the tokenizer of ${source}: ${messageOf(cause)}`, {
        code: "tokenizer_unsupported",
        status: 500,
        cause,
      });
    }
  }

  /** From `tokenizer.json` and, where it is, `tokenizer_config.json`. Throws 500 `tokenizer_unsupported`. */
  static async load(folder: string): Promise<EmbeddingTokenizer> {
    const tokenizer = await readJson(join(folder, "tokenizer.json"));
    if (tokenizer === undefined) {
      throw new CanopyError(`Cannot embed with ${folder}: it has no tokenizer.json`, {
        code: "tokenizer_unavailable",
        status: 500,
      });
    }
    return new EmbeddingTokenizer(folder, {
      tokenizer,
      config: await readJson(join(folder, "tokenizer_config.json")) ?? {},
    });
  }

  /** A text's tokens, the end token included. */
  encodeWhole(text: string): number[] {
    return [...this.#tokenizer.encode(text, { add_special_tokens: false }).ids, this.endId];
  }

  open(): AnswerTokens {
    const stream = this.#open?.();
    if (stream !== undefined) return stream;
    let whole = "";
    return {
      append: (text) => void (whole += text),
      stable: [],
      complete: () => this.#tokenizer.encode(whole, { add_special_tokens: false }).ids,
    };
  }
}

/** The token that the post-processor puts behind a text; without a post-processor, as in base models' files, Qwen's. */
function endIdOf(tokenizer: Tokenizer, postProcessor: Json | undefined): number {
  const template = stepsOf(postProcessor).find((step) => step["type"] === "TemplateProcessing");
  const pieces = template === undefined ? [] : Array.isArray(template["single"]) ? template["single"] : [];
  if (pieces.length === 0) {
    const id = tokenizer.token_to_id(QWEN_END);
    if (id === undefined) throw new Error(`it appends no end token, and knows no ${QWEN_END}`);
    return id;
  }
  const [text, end, ...others] = pieces;
  const special = isJsonObject(end) ? end["SpecialToken"] : undefined;
  const name = isJsonObject(special) ? special["id"] : undefined;
  if (!isJsonObject(text) || !("Sequence" in text) || typeof name !== "string" || others.length > 0) {
    throw new Error("its post-processor does something else than append one end token");
  }
  const id = tokenizer.token_to_id(name);
  if (id === undefined) throw new Error(`it has no id for its end token ${name}`);
  return id;
}

/** The members of a `Sequence`, or the one step that is there. */
function stepsOf(step: Json | undefined): JsonObject[] {
  if (!isJsonObject(step)) return [];
  if (step["type"] !== "Sequence") return [step];
  const list = step["processors"];
  return Array.isArray(list) ? list.flatMap(stepsOf) : [];
}

async function readJson(path: string): Promise<JsonObject | undefined> {
  let text;
  try {
    text = await readFile(path, "utf8");
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return undefined;
    throw error;
  }
  const value: unknown = JSON.parse(text);
  if (!isJsonObject(value)) throw new Error(`${path} is not a JSON object`);
  return value;
}
