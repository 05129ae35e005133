import { isJsonObject, type Json, type JsonObject } from "../../base/json.ts";

/** Longest answer that is read. */
export const MAX_ANSWER_BYTES = 256 * 1024 * 1024;

/** An endpoint's answer about one text. */
export interface HttpEmbedding {
  /** Of all tokens, row by row, or the pooled one. */
  readonly values: Float32Array;
  /** h. */
  readonly dimensions: number;
  /** Tokens of the text, as far as the endpoint says. */
  readonly tokens: number;
}

/** An endpoint that embeds texts. */
export interface EmbeddingEndpoint {
  readonly path: string;
  /** True when it gives the features of each token, not one vector. */
  readonly rows: boolean;
  body(model: string, input: string | readonly number[], limit: TextLimit): JsonObject;
  /** Throws an error that says what is wrong with the answer. */
  read(answer: JsonObject): HttpEmbedding;
}

/** The part of a text that is embedded. */
export interface TextLimit {
  readonly maxTokens: number;
  readonly span: "all" | "tail";
}

/**
 * vLLM's pooling endpoint, of a server that was started with the pooling task `token_embed`: hidden states as they are
 * (`use_activation`: not normalised), in base64, which is a fifth of the size of numbers in JSON.
 */
export const poolingEndpoint: EmbeddingEndpoint = {
  path: "/pooling",
  rows: true,
  body: (model, input, { maxTokens, span }) => ({
    model,
    input: typeof input === "string" ? input : [...input],
    task: "token_embed",
    use_activation: false,
    encoding_format: "base64",
    embed_dtype: "float32",
    endianness: "little",
    truncate_prompt_tokens: maxTokens,
    truncation_side: span === "tail" ? "left" : "right",
  }),
  read: (answer) => {
    const data = firstOf(answer)["data"];
    if (Array.isArray(data)) {
      const rows = data.map(numbersOf);
      const dimensions = rows[0]?.length ?? 0;
      if (dimensions === 0 || rows.some((row) => row.length !== dimensions)) {
        throw new Error("its rows are not of one width");
      }
      return { values: Float32Array.from(rows.flat()), dimensions, tokens: rows.length };
    }
    const values = floatsOf(data);
    // The text in base64 has lost its shape; the rows are those of the prompt's tokens.
    const tokens = tokensOf(answer);
    if (tokens === 0 || values.length === 0 || values.length % tokens !== 0) {
      throw new Error(`it gave ${values.length} numbers for ${tokens} tokens`);
    }
    return { values, dimensions: values.length / tokens, tokens };
  },
};

/** vLLM's endpoint for a text's ids, special tokens included. */
export const tokenizeEndpoint = {
  path: "/tokenize",
  body: (model: string, prompt: string): JsonObject => ({ model, prompt, add_special_tokens: true }),
  read: ({ tokens }: JsonObject): number[] => numbersOf(tokens),
};

/** OpenAI's endpoint for embeddings: one vector for each text. */
export const embeddingsEndpoint: EmbeddingEndpoint = {
  path: "/v1/embeddings",
  rows: false,
  body: (model, input) => ({
    model,
    input: typeof input === "string" ? input : [...input],
    encoding_format: "float",
  }),
  read: (answer) => {
    const { embedding } = firstOf(answer);
    const values = typeof embedding === "string"
      ? floatsOf(embedding)
      : Float32Array.from(numbersOf(embedding));
    if (values.length === 0) throw new Error("it gave a vector without numbers");
    return { values, dimensions: values.length, tokens: tokensOf(answer) };
  },
};

function firstOf({ data }: JsonObject): JsonObject {
  const first = Array.isArray(data) ? data[0] : undefined;
  if (!isJsonObject(first)) throw new Error("it has no data");
  return first;
}

function tokensOf({ usage }: JsonObject): number {
  const tokens = isJsonObject(usage) ? usage["prompt_tokens"] : undefined;
  return typeof tokens === "number" && Number.isSafeInteger(tokens) && tokens > 0 ? tokens : 0;
}

function numbersOf(list: Json | undefined): number[] {
  if (!Array.isArray(list)) throw new Error("it has no list of numbers");
  return list.map((value) => {
    if (typeof value !== "number") throw new Error(`it has ${JSON.stringify(value)} among its numbers`);
    return value;
  });
}

/** 32-bit numbers, little-endian. */
function floatsOf(base64: Json | undefined): Float32Array {
  if (typeof base64 !== "string") throw new Error("it has no numbers");
  const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
  if (bytes.length % 4 !== 0) throw new Error(`it has ${bytes.length} bytes, which are no 32-bit numbers`);
  const view = new DataView(bytes.buffer);
  return Float32Array.from({ length: bytes.length / 4 }, (_, index) => view.getFloat32(4 * index, true));
}
