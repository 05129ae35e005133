import type { AnswerFeatures } from "./embedder.ts";
import type { SimilarityMetric } from "../scorer.ts";
import { RowCorrelation } from "../similarity/row_correlation.ts";
import { cosine, effectiveDimensions, frobeniusCosine, unbiasedCosine } from "../similarity/similarity.ts";

/** Token features of an answer, compared by loops in this thread. */
export class RowFeatures implements AnswerFeatures {
  readonly dimensions: number;
  readonly pooled: Float32Array;
  readonly #correlation: RowCorrelation;

  /** `rows`: [n, h], n > 0. Throws a `RangeError` for numbers that are not finite. */
  constructor(rows: Float32Array, dimensions: number, pooled: Float32Array) {
    this.dimensions = dimensions;
    this.pooled = pooled;
    this.#correlation = new RowCorrelation(rows, dimensions);
  }

  get tokens(): number {
    return this.#correlation.rows;
  }

  get effectiveDimensions(): number {
    return effectiveDimensions(this.#correlation);
  }

  compare(other: AnswerFeatures, metric: SimilarityMetric): Promise<number> {
    if (!(other instanceof RowFeatures)) throw new TypeError("Features of different embedders");
    if (metric === "cosine") return Promise.resolve(cosine(this.pooled, other.pooled));
    const [a, b] = [this.#correlation, other.#correlation];
    const product = a.product(b);
    return Promise.resolve(
      metric === "fcs" ? frobeniusCosine(a, b, product) : unbiasedCosine(a, b, product, a.shared(b)),
    );
  }
}

/** An answer of which only the pooled vector is known. */
export class PooledFeatures implements AnswerFeatures {
  readonly effectiveDimensions = undefined;

  constructor(readonly tokens: number, readonly pooled: Float32Array) {}

  get dimensions(): number {
    return this.pooled.length;
  }

  compare(other: AnswerFeatures, metric: SimilarityMetric): Promise<number> {
    if (!(other instanceof PooledFeatures)) throw new TypeError("Features of different embedders");
    if (metric !== "cosine") {
      throw new Error(
        `${metric} needs the features of tokens, and the endpoint gives pooled vectors: use cosine`,
      );
    }
    return Promise.resolve(cosine(this.pooled, other.pooled));
  }
}

/** An answer without text. */
export class NoFeatures implements AnswerFeatures {
  readonly tokens = 0;
  readonly dimensions = 0;
  readonly effectiveDimensions = undefined;

  compare(): Promise<undefined> {
    return Promise.resolve(undefined);
  }
}
