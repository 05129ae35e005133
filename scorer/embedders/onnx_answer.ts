import type { CacheBudget } from "./cache_budget.ts";
import type { AnswerEmbedding } from "./embedder.ts";
import type { AnswerTokens } from "./embedding_tokenizer.ts";
import { OnnxFeatures } from "./onnx_features.ts";
import type { EmbeddingModel, KeyValueCache } from "../onnx/embedding_model.ts";
import { FeatureSum } from "../onnx/feature_sum.ts";
import type { SimilarityGraphs } from "../onnx/similarity_graphs.ts";

/**
 * Tokens that are embedded at once. Always so many, until the last ones: the scales of an int8 model depend on what is
 * in a call, and an answer's numbers must not depend on the pace at which its text came.
 */
export const STEP_TOKENS = 64;

/** Model and settings of an `OnnxAnswer`. */
export interface OnnxAnswerOptions {
  readonly model: EmbeddingModel;
  readonly graphs: SimilarityGraphs;
  readonly tokens: AnswerTokens;
  readonly endId: number;
  readonly budget: CacheBudget;
  /** The part that is embedded of a text longer than `maxTokens`, end token included. */
  readonly span: "all" | "tail";
  readonly maxTokens: number;
  /** Turns the pooled vector into what `cosine` compares. */
  readonly transform: (pooled: Float32Array) => Float32Array;
}

/**
 * One answer on its way through an ONNX model. With a cache of keys and values its tokens are embedded as they come;
 * without one, or when there is no room in it, all at the end. The numbers are the same.
 */
export class OnnxAnswer implements AnswerEmbedding {
  readonly #options: OnnxAnswerOptions;
  /** Most tokens of text. */
  readonly #limit: number;
  /** Tokens are embedded before the text is complete. */
  #early: boolean;
  /** All ids to embed, once no further text can change them. */
  #ids: readonly number[] | undefined;
  #done = 0;
  #cache: KeyValueCache | undefined;
  #sum: FeatureSum;
  #features: OnnxFeatures | undefined;
  #closed = false;

  constructor(options: OnnxAnswerOptions) {
    this.#options = options;
    this.#limit = options.maxTokens - 1;
    this.#early = options.model.streams;
    this.#sum = this.#newSum();
  }

  async append(text: string): Promise<void> {
    if (this.#ids !== undefined || this.#closed) return;
    const { tokens, span, budget } = this.#options;
    tokens.append(text);
    const { stable } = tokens;
    if (span === "all" && stable.length >= this.#limit) this.#ids = this.#withEnd(stable);
    if (!this.#early) return;
    if (span === "tail" && stable.length > this.#limit) {
      // The beginning falls off, and with it all that was made of it.
      this.#early = false;
      return this.#startAgain();
    }
    // The last step is taken by `finish`.
    const known = this.#ids?.slice(0, -1) ?? stable;
    while (known.length - this.#done >= this.#stepTokens) {
      const count = this.#stepTokens;
      if (!budget.take(this, count)) {
        this.#early = false;
        return this.#startAgain();
      }
      await this.#step(known, count, true);
    }
    if (this.#ids !== undefined) await this.finish();
  }

  async finish(): Promise<OnnxFeatures | undefined> {
    if (this.#features !== undefined) return this.#features;
    const { model, budget, graphs, transform } = this.#options;
    this.#ids ??= this.#withEnd(this.#options.tokens.complete());
    const left = this.#ids.length - this.#done;
    const count = model.streams ? Math.min(left, this.#stepTokens) : left;
    const more = count < left;
    if (more && !budget.takeForComplete(this, count)) return undefined;
    await this.#step(this.#ids, count, more);
    if (more) return undefined;
    const { correlation, last } = await this.#sum.correlation();
    this.#features = new OnnxFeatures(graphs, correlation, transform(last));
    this.#startAgain();
    return this.#features;
  }

  close(): void {
    this.#closed = true;
    this.#startAgain();
  }

  /**
   * Tokens of the next step. Where activations of 8 bits have one scale per step the first token has one of its own: models
   * park attention there, in numbers so large that those of all tokens beside it are rounded away.
   */
  get #stepTokens(): number {
    return this.#done === 0 && this.#options.model.firstAlone ? 1 : STEP_TOKENS;
  }

  async #step(ids: readonly number[], count: number, more: boolean): Promise<void> {
    const next = ids.slice(this.#done, this.#done + count);
    const { rows, cache } = await this.#options.model.step(next, this.#cache, more);
    if (this.#closed) throw new Error("The answer was closed");
    this.#cache = cache;
    this.#done += count;
    await this.#sum.add(rows);
  }

  /** Drops what was embedded. */
  #startAgain(): void {
    this.#done = 0;
    this.#cache = undefined;
    this.#sum = this.#newSum();
    this.#options.budget.release(this);
  }

  #newSum(): FeatureSum {
    return new FeatureSum(this.#options.graphs, this.#options.model.dimensions);
  }

  #withEnd(text: readonly number[]): readonly number[] {
    const from = this.#options.span === "tail" ? Math.max(0, text.length - this.#limit) : 0;
    return [...text.slice(from, from + this.#limit), this.#options.endId];
  }
}
