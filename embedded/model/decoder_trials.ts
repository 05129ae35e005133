import { CanopyError } from "../../base/errors.ts";
import { type CacheGrowth, copyRows } from "../cache/cache_layout.ts";
import { KeyValuePool, type KeyValues } from "../cache/key_values.ts";
import type { DecoderExport } from "./decoder_export.ts";
import type { CacheTensors, DecoderSteps } from "./decoder_steps.ts";

// An export's metadata does not tell all: the rest is found out with a few tokens.

/** A decoder as far as its export's metadata tells of it. */
interface UntriedDecoder extends DecoderSteps {
  readonly export: DecoderExport;
  readonly vocabSize: number;
}

/**
 * Tokens from all over the vocabulary: the first ones, which every model has, are special ones, whose numbers are so
 * large that a model in 8 bits loses the others.
 */
function sampleIds({ vocabSize }: UntriedDecoder): number[] {
  return Array.from({ length: 12 }, (_, index) => Math.floor(vocabSize * ((0.1 + index * 0.382) % 1)));
}

/** Size of a pool that no trial fills. */
const POOL_TOKENS = 1024;

/**
 * The growth of a model's cache. ONNX Runtime's fused attention (`GroupQueryAttention`) appends to its cache when that
 * is given as its output, too. Other exports refuse an output of that size.
 */
export async function findGrowth(decoder: UntriedDecoder): Promise<CacheGrowth> {
  const ids = sampleIds(decoder);
  const { logits: expected } = await computed(decoder, "copies", ids, ids.length);
  const found = await allowed(() => computed(decoder, "appends", ids, 7));
  return found !== undefined && agree(found.logits, expected) ? "appends" : "copies";
}

/**
 * True when two sequences of different lengths can be computed in one step. It needs exports that know the batch as a dimension, are told
 * the tokens' places where padding shifts them, and heed the mask: padding is large numbers here, which would show.
 */
export async function findBatches(decoder: UntriedDecoder, growth: CacheGrowth): Promise<boolean> {
  const { cache, mask, positions } = decoder.export;
  if (mask === undefined || (growth === "copies" && positions === undefined)) return false;
  const ids = sampleIds(decoder);
  const texts = [ids, ids.slice(2, 6)];
  const sequences = [];
  for (const text of texts) sequences.push(await computed(decoder, growth, text, text.length - 1));
  const longest = ids.length - 1;
  const pool = new KeyValuePool(cache, growth, POOL_TOKENS);
  const tensors = (rows: number): CacheTensors => {
    const { tensors } = pool.take(texts.length * rows)!;
    for (const numbers of tensors) numbers.fill(numbers instanceof Float32Array ? 8 : HALF_OF_8);
    return { tensors, rows };
  };
  const from = tensors(growth === "appends" ? longest + 3 : longest);
  const into = growth === "appends" ? from : tensors(longest + 1);
  for (const [slot, { past, before }] of sequences.entries()) {
    const first = growth === "appends" ? 0 : longest - before;
    copyRows(cache, before, past.place(before), { ...from, slot, first });
  }
  const next = texts.map((ids) => ({ id: ids.at(-1)!, before: ids.length - 1 }));
  const found = await allowed(() => decoder.stepBatch(next, from, into));
  return found !== undefined && sequences.every(({ logits }, index) => agree(found[index]!, logits));
}

/** The bits of the number 8 in 16 bits. */
const HALF_OF_8 = 0x4800;

interface Computed {
  /** After the last token. */
  readonly logits: Float32Array;
  /** Keys and values of the first tokens, and how many they are. */
  readonly past: KeyValues;
  readonly before: number;
}

/** Computes some tokens, and then the rest. */
async function computed(
  decoder: UntriedDecoder,
  growth: CacheGrowth,
  ids: readonly number[],
  before: number,
): Promise<Computed> {
  const pool = new KeyValuePool(decoder.export.cache, growth, POOL_TOKENS);
  const first = pool.extend(undefined, 0, before, ids.length)!;
  let logits = await decoder.step(ids.slice(0, before), first);
  if (before < ids.length) {
    const rest = pool.extend(first.into, before, ids.length - before, ids.length)!;
    logits = await decoder.step(ids.slice(before), rest);
  }
  return { logits: logits.slice(), past: first.into, before };
}

/** The logits after some tokens, at most 1,024. */
export async function logitsAfter(
  decoder: UntriedDecoder & { readonly growth: CacheGrowth; readonly scaledPerCall: boolean },
  ids: readonly number[],
): Promise<Float32Array> {
  return (await computed(decoder, decoder.growth, ids, decoder.scaledPerCall ? 1 : ids.length)).logits;
}

/** Undefined when the model refuses it. */
async function allowed<T>(run: () => Promise<T>): Promise<T | undefined> {
  try {
    return await run();
  } catch (error) {
    if (CanopyError.is(error)) return undefined;
    throw error;
  }
}

/** Logits of int8 models differ a little, since their scales depend on what is in a step; wrong ones differ a lot. */
function agree(found: Float32Array, expected: Float32Array): boolean {
  let [difference, size] = [0, 0];
  for (const [id, logit] of expected.entries()) {
    difference += (found[id]! - logit) ** 2;
    size += logit ** 2;
  }
  return difference <= size / 10;
}
