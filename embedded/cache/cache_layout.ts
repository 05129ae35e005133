import type { CacheSlot } from "../../ml/onnx/transformer_inputs.ts";

/** Numbers, or the bits of numbers of 16 bits. */
export type Numbers = Float32Array<ArrayBuffer> | Uint16Array<ArrayBuffer>;

/** The form of a model's cache: per tensor, its heads and their size. */
export type CacheLayout = readonly Pick<CacheSlot, "type" | "heads" | "headDimensions">[];

/**
 * A model's way to continue its cache. `copies`: it reads tensors [batch, heads, tokens, size] without gaps and writes
 * longer ones elsewhere. `appends`: it writes behind what is there, in tensors [batch, heads, capacity, size].
 */
export type CacheGrowth = "copies" | "appends";

/** Bytes that the cache takes for one token. */
export function bytesPerToken(layout: CacheLayout): number {
  return layout.reduce(
    (sum, { type, heads, headDimensions }) => sum + heads * headDimensions * (type === "float32" ? 4 : 2),
    0,
  );
}

/** A sequence's keys and values within tensors [batch, heads, rows, size]. */
export interface CacheRows {
  readonly tensors: readonly Numbers[];
  /** Its place in the batch. */
  readonly slot: number;
  /** Rows from one head to the next. */
  readonly rows: number;
  /** The row of its first token. */
  readonly first: number;
}

/** Copies the first `tokens` of a sequence to another place. */
export function copyRows(layout: CacheLayout, tokens: number, from: CacheRows, to: CacheRows): void {
  for (const [index, { heads, headDimensions }] of layout.entries()) {
    const [source, target] = [from.tensors[index]!, to.tensors[index]!];
    for (let head = 0; head < heads; head++) {
      const at = ({ slot, rows, first }: CacheRows) =>
        ((slot * heads + head) * rows + first) * headDimensions;
      const start = at(from);
      target.set(source.subarray(start, start + tokens * headDimensions), at(to));
    }
  }
}
