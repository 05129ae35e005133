import { CanopyError } from "../../base/errors.ts";
import type { InferenceSession } from "./runtime.ts";

/** One tensor of a key-value cache: what comes out of `output` goes into `input` with the next tokens. */
export interface CacheSlot {
  readonly input: string;
  readonly output: string;
  readonly type: "float32" | "float16";
  /** Heads of keys and values. */
  readonly heads: number;
  readonly headDimensions: number;
}

/** What a scalar or a vector of length 1 is fed with. */
export interface Switch {
  readonly name: string;
  readonly type: "bool" | "int64" | "int32";
  readonly shape: readonly number[];
}

/** How an exported embedding model is fed and read. */
export interface EmbeddingExport {
  readonly ids: { readonly name: string; readonly type: "int64" | "int32" };
  /** Inputs [batch, tokens so far] of ones, [batch, tokens] of places, and [batch, tokens] of zeros. */
  readonly mask: { readonly name: string; readonly type: "int64" | "int32" } | undefined;
  readonly positions: { readonly name: string; readonly type: "int64" | "int32" } | undefined;
  readonly tokenTypes: { readonly name: string; readonly type: "int64" | "int32" } | undefined;
  /** Of merged decoders: whether the cache holds anything. */
  readonly useCache: Switch | undefined;
  /** How many rows of logits to compute; not one more than must be. */
  readonly logitsToKeep: Switch | undefined;
  /** Empty without a cache: texts are then embedded in one go. */
  readonly cache: readonly CacheSlot[];
  /** The output that holds a row of features for each token, [batch, tokens, dimensions]. */
  readonly hidden: { readonly name: string; readonly type: "float32" | "float16" };
}

type Metadata = InferenceSession.ValueMetadata;
type TensorMetadata = Extract<Metadata, { isTensor: true }>;

const hiddenNames = ["last_hidden_state", "hidden_states", "token_embeddings"];
const cacheInput = /^past_key_values?\.(\d+)\.(?:\w+\.)?(key|value)$/;

/**
 * Reads from a model's metadata how it is fed. Throws 500 `unsupported_export`, saying what is missing or not known.
 */
export function readExport(
  source: string,
  session: Pick<InferenceSession, "inputMetadata" | "outputMetadata">,
): EmbeddingExport {
  const refuse = (why: string): CanopyError =>
    new CanopyError(`Cannot embed with ${source}: ${why}`, { code: "unsupported_export", status: 500 });
  const outputs = session.outputMetadata.filter((value) => value.isTensor);
  const hidden = hiddenOf(outputs, refuse);
  const cache: CacheSlot[] = [];
  const found: Record<string, TensorMetadata> = {};
  const unknown: string[] = [];
  for (const input of session.inputMetadata) {
    const match = cacheInput.exec(input.name);
    if (!input.isTensor) unknown.push(input.name);
    else if (match !== null) cache.push(cacheSlot(input, match, outputs, refuse));
    else if (knownInputs.includes(input.name)) found[input.name] = input;
    else unknown.push(input.name);
  }
  if (unknown.length > 0) {
    throw refuse(`it wants ${unknown.map((name) => `\`${name}\``).join(", ")}, which is not known here`);
  }
  const integer = (name: string) => {
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
    hidden,
    cache,
    mask: integer("attention_mask"),
    positions: integer("position_ids"),
    tokenTypes: integer("token_type_ids"),
    useCache: single("use_cache_branch"),
    logitsToKeep: single("num_logits_to_keep"),
  };
}

const knownInputs = [
  "input_ids",
  "attention_mask",
  "position_ids",
  "token_type_ids",
  "use_cache_branch",
  "num_logits_to_keep",
];

function hiddenOf(
  outputs: readonly TensorMetadata[],
  refuse: (why: string) => CanopyError,
): EmbeddingExport["hidden"] {
  const hidden = hiddenNames.map((name) => outputs.find((output) => output.name === name)).find((output) =>
    output !== undefined
  );
  if (hidden === undefined) {
    const names = outputs.filter(({ name }) => !name.startsWith("present")).map(({ name }) => `\`${name}\``);
    throw refuse(
      `it gives ${names.join(", ") || "nothing"}, but no row of features per token (${
        hiddenNames.map((name) => `\`${name}\``).join(", ")
      }); use an export for feature extraction`,
    );
  }
  const { name, type, shape } = hidden;
  if ((type !== "float32" && type !== "float16") || shape.length !== 3) {
    throw refuse(
      `its output \`${name}\` is ${type} with ${shape.length} dimensions; 3 of float are known here`,
    );
  }
  return { name, type };
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
