import type { CacheRows } from "../cache/cache_layout.ts";
import type { Extension } from "../cache/key_values.ts";

/** Tensors [batch, heads, rows, size]. */
export type CacheTensors = Pick<CacheRows, "tensors" | "rows">;

/** The next token of a sequence in a batch. */
export interface NextToken {
  readonly id: number;
  /** Tokens of the sequence that are in the cache. */
  readonly before: number;
}

/** The steps of a decoder with a cache. Each blocks the thread for as long as it takes. */
export interface DecoderSteps {
  /**
   * Computes `ids`, at least one, behind `from`, and puts the keys and values of all of them into `into`, which has
   * room. Gives the logits after the last one, good until the next step. Throws 500 `model_failed`.
   */
  step(ids: readonly number[], extension: Extension): Promise<Float32Array>;
  /**
   * Computes a token of each sequence of a batch behind those that are in `from`, and puts their keys and values into
   * `into`. The sequences' tokens are the first rows of tensors that are appended to, the last rows of such that are
   * copied. Gives the logits of each, good until the next step. Throws 500 `model_failed`.
   */
  stepBatch(next: readonly NextToken[], from: CacheTensors, into: CacheTensors): Promise<Float32Array[]>;
}
