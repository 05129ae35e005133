import type { CanopyError } from "../../base/errors.ts";
import type { InferenceSession, OnnxRuntime, OnnxSession, Tensor } from "./runtime.ts";

/** One tensor of a key-value cache: what comes out of `output` goes into `input` with the next tokens. */
export interface CacheSlot {
  readonly input: string;
  readonly output: string;
  readonly type: "float32" | "float16";
  /** Heads of keys and values. */
  readonly heads: number;
  readonly headDimensions: number;
}

/** An input of whole numbers. */
export interface IntegerInput {
  readonly name: string;
  readonly type: "int64" | "int32";
}

/** An input that is a scalar or a vector of length 1. */
export interface Switch {
  readonly name: string;
  readonly type: "bool" | "int64" | "int32";
  readonly shape: readonly number[];
}

/** Inputs of an exported transformer. */
export interface TransformerInputs {
  readonly ids: IntegerInput;
  /** Inputs [batch, tokens so far] of ones, [batch, tokens] of places, and [batch, tokens] of zeros. */
  readonly mask: IntegerInput | undefined;
  readonly positions: IntegerInput | undefined;
  readonly tokenTypes: IntegerInput | undefined;
  /** Of merged decoders: whether the cache holds anything. */
  readonly useCache: Switch | undefined;
  /** Number of rows of logits to compute; always set to 1. */
  readonly logitsToKeep: Switch | undefined;
  /** Empty without a cache. */
  readonly cache: readonly CacheSlot[];
}

type Metadata = InferenceSession.ValueMetadata;
export type TensorMetadata = Extract<Metadata, { isTensor: true }>;

/** The metadata of a session. */
export type SessionMetadata = Pick<OnnxSession, "inputMetadata" | "outputMetadata">;

const CACHE_INPUT = /^past_key_values?\.(\d+)\.(?:\w+\.)?(key|value)$/;

const KNOWN_INPUTS = [
  "input_ids",
  "attention_mask",
  "position_ids",
  "token_type_ids",
  "use_cache_branch",
  "num_logits_to_keep",
];

/** Reads a model's inputs from its metadata. Throws `refuse(why)` for inputs that are missing or not known. */
export function readInputs(
  session: SessionMetadata,
  refuse: (why: string) => CanopyError,
): TransformerInputs {
  const outputs = session.outputMetadata.filter((value) => value.isTensor);
  const cache: CacheSlot[] = [];
  const found: Record<string, TensorMetadata> = {};
  const unknown: string[] = [];
  for (const input of session.inputMetadata) {
    const match = CACHE_INPUT.exec(input.name);
    if (!input.isTensor) unknown.push(input.name);
    else if (match !== null) cache.push(cacheSlot(input, match, outputs, refuse));
    else if (KNOWN_INPUTS.includes(input.name)) found[input.name] = input;
    else unknown.push(input.name);
  }
  if (unknown.length > 0) {
    throw refuse(`it wants ${unknown.map((name) => `\`${name}\``).join(", ")}, which is not known here`);
  }
  const integer = (name: string): IntegerInput | undefined => {
    const input = found[name];
    if (input === undefined) return undefined;
    if (input.type !== "int64" && input.type !== "int32") {
      throw refuse(`its input \`${name}\` is ${input.type}; int64 or int32 is known here`);
    }
    return { name, type: input.type };
  };
  const single = (name: string): Switch | undefined => {
    const input = found[name];
    if (input === undefined) return undefined;
    const { type, shape } = input;
    if ((type !== "bool" && type !== "int64" && type !== "int32") || shape.length > 1) {
      throw refuse(`its input \`${name}\` is ${type} with ${shape.length} dimensions`);
    }
    return { name, type, shape: shape.map(() => 1) };
  };
  const ids = integer("input_ids");
  if (ids === undefined) throw refuse("it has no input `input_ids`");
  return {
    ids,
    cache,
    mask: integer("attention_mask"),
    positions: integer("position_ids"),
    tokenTypes: integer("token_type_ids"),
    useCache: single("use_cache_branch"),
    logitsToKeep: single("num_logits_to_keep"),
  };
}

/** The inputs of one text's next tokens but for the cache; `past` tokens are in that. */
export function feedTokens(
  runtime: OnnxRuntime,
  inputs: TransformerInputs,
  ids: readonly number[],
  past: number,
): Record<string, Tensor> {
  const all = past + ids.length;
  return feed(runtime, inputs, {
    texts: 1,
    ids,
    mask: new Array<number>(all).fill(1),
    positions: ids.map((_, index) => past + index),
    past,
  });
}

/**
 * The inputs of the next token of each of several texts but for the cache, which has `rows` rows for the longest of
 * them: `past[i]` of these are of text i, the first ones, or, where they are `padded` on the left, the last ones.
 */
export function feedNextTokens(
  runtime: OnnxRuntime,
  inputs: TransformerInputs,
  ids: readonly number[],
  past: readonly number[],
  { rows, padded }: { readonly rows: number; readonly padded: "left" | "right" },
): Record<string, Tensor> {
  const mask = past.flatMap((tokens) => {
    const [ones, zeros] = [new Array<number>(tokens + 1).fill(1), new Array<number>(rows - tokens).fill(0)];
    return padded === "left" ? [...zeros, ...ones] : [...ones, ...zeros];
  });
  return feed(runtime, inputs, { texts: ids.length, ids, mask, positions: past, past: rows });
}

/** The tokens of some texts, row by row. */
interface TokenInputs {
  readonly texts: number;
  readonly ids: readonly number[];
  readonly mask: readonly number[];
  readonly positions: readonly number[];
  /** Tokens in the cache. */
  readonly past: number;
}

function feed(
  runtime: OnnxRuntime,
  inputs: TransformerInputs,
  { texts, ids, mask, positions, past }: TokenInputs,
): Record<string, Tensor> {
  const { useCache, logitsToKeep } = inputs;
  const feeds: Record<string, Tensor> = {};
  const put = (input: IntegerInput | undefined, data: readonly number[]) => {
    if (input !== undefined) {
      feeds[input.name] = runtime.integers(input.type, data, [texts, data.length / texts]);
    }
  };
  put(inputs.ids, ids);
  put(inputs.mask, mask);
  put(inputs.positions, positions);
  put(inputs.tokenTypes, ids.map(() => 0));
  for (const one of [useCache, logitsToKeep]) {
    if (one === undefined) continue;
    feeds[one.name] = one.type === "bool"
      ? runtime.bool(past > 0, one.shape)
      : runtime.integers(one.type, [one === logitsToKeep || past > 0 ? 1 : 0], one.shape);
  }
  return feeds;
}

function cacheSlot(
  input: TensorMetadata,
  match: RegExpExecArray,
  outputs: readonly TensorMetadata[],
  refuse: (why: string) => CanopyError,
): CacheSlot {
  const [, layer, part] = match;
  const { name, type, shape } = input;
  const output = outputs.find((value) =>
    new RegExp(`^present.*\\.${layer}\\.(\\w+\\.)?${part}$`).test(value.name)
  );
  if (output === undefined) throw refuse(`its cache \`${name}\` has no output that continues it`);
  const [, heads, , headDimensions] = shape;
  if (
    (type !== "float32" && type !== "float16") || shape.length !== 4 || typeof heads !== "number" ||
    typeof headDimensions !== "number"
  ) {
    throw refuse(
      `its cache \`${name}\` is ${type} [${shape.join(", ")}]; [batch, heads, tokens, size] is known here`,
    );
  }
  return { input: name, output: output.name, type, heads, headDimensions };
}
