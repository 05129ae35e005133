import type { AnswerFeatures } from "./embedder.ts";
import type { Correlation, SimilarityGraphs } from "../onnx/similarity_graphs.ts";
import type { SimilarityMetric } from "../scorer.ts";
import { cosine, effectiveDimensions, frobeniusCosine, unbiasedCosine } from "../similarity/similarity.ts";

/** Features of an answer from an ONNX model: all tokens' rows, the end token's too, and the last one as pooled vector. */
export class OnnxFeatures implements AnswerFeatures {
  /** Not normalised. */
  readonly pooled: Float32Array;
  readonly #graphs: SimilarityGraphs;
  readonly #correlation: Correlation;

  constructor(graphs: SimilarityGraphs, correlation: Correlation, pooled: Float32Array) {
    this.#graphs = graphs;
    this.#correlation = correlation;
    this.pooled = pooled;
  }

  get tokens(): number {
    return this.#correlation.rows;
  }

  get dimensions(): number {
    return this.#correlation.dimensions;
  }

  get effectiveDimensions(): number {
    return effectiveDimensions(this.#correlation);
  }

  async compare(other: AnswerFeatures, metric: SimilarityMetric): Promise<number | undefined> {
    if (!(other instanceof OnnxFeatures)) throw new TypeError("Features of different embedders");
    if (metric === "cosine") return cosine(this.pooled, other.pooled);
    const [a, b] = [this.#correlation, other.#correlation];
    const product = await this.#graphs.product(a, b);
    return metric === "fcs" ? frobeniusCosine(a, b, product) : unbiasedCosine(a, b, product);
  }
}
