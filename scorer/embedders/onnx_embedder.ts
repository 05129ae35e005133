import { availableParallelism } from "node:os";
import type { Clock } from "../../base/clock.ts";
import { describeFile, type OnnxFiles } from "../../ml/hub/onnx_files.ts";
import { CHECK_TEXTS, checkNumbers, wrongNumbers } from "../../ml/onnx/check_numbers.ts";
import { loadOnnxRuntime } from "../../ml/onnx/runtime.ts";
import { CacheBudget } from "./cache_budget.ts";
import type { Embedder } from "./embedder.ts";
import { EmbeddingTokenizer } from "./embedding_tokenizer.ts";
import { OnnxAnswer, STEP_TOKENS } from "./onnx_answer.ts";
import { EmbeddingModel } from "../onnx/embedding_model.ts";
import { SimilarityGraphs } from "../onnx/similarity_graphs.ts";
import type { ScorerFacts } from "../scorer.ts";
import { Whitening } from "../similarity/whitening.ts";

/** A model, and how texts are embedded with it. */
export interface OnnxEmbedderOptions {
  readonly clock: Clock;
  readonly files: OnnxFiles;
  /** As it was configured, for traces. */
  readonly model: string;
  /** All cores but one by default. */
  readonly threads?: number | undefined;
  readonly span: "all" | "tail";
  readonly maxTokens: number;
  readonly maxCachedTokens: number;
  /** Calibration file that the cosine of pooled vectors is whitened by. */
  readonly whitening?: string | undefined;
}

/** A Qwen3-Embedding-like model on ONNX Runtime. Its calls block the thread for as long as a step takes. */
export class OnnxEmbedder implements Embedder {
  readonly concurrency = 1;
  readonly facts: ScorerFacts;
  readonly #options: OnnxEmbedderOptions;
  readonly #tokenizer: EmbeddingTokenizer;
  readonly #model: EmbeddingModel;
  readonly #graphs: SimilarityGraphs;
  readonly #whitening: Whitening | undefined;
  readonly #budget: CacheBudget;

  private constructor(
    options: OnnxEmbedderOptions,
    parts: {
      readonly tokenizer: EmbeddingTokenizer;
      readonly model: EmbeddingModel;
      readonly graphs: SimilarityGraphs;
      readonly whitening: Whitening | undefined;
    },
    facts: ScorerFacts,
  ) {
    this.#options = options;
    this.#tokenizer = parts.tokenizer;
    this.#model = parts.model;
    this.#graphs = parts.graphs;
    this.#whitening = parts.whitening;
    this.#budget = new CacheBudget(options.maxCachedTokens);
    this.facts = facts;
  }

  /** Loads everything and tries it out. Throws when the model cannot be used. */
  static async open(options: OnnxEmbedderOptions): Promise<OnnxEmbedder> {
    const { clock, files } = options;
    const threads = options.threads ?? Math.max(1, availableParallelism() - 1);
    const runtime = await loadOnnxRuntime();
    const tokenizer = await EmbeddingTokenizer.load(files.folder);
    const model = await EmbeddingModel.open(runtime, files.path, threads);
    const check = await checkNumbers({
      folder: files.folder,
      path: files.path,
      model,
      texts: CHECK_TEXTS.map((text) => tokenizer.encodeWhole(text)),
      open: (path) => EmbeddingModel.open(runtime, path, threads),
    });
    const graphs = await SimilarityGraphs.open(runtime, threads);
    const whitening = options.whitening === undefined ? undefined : await Whitening.read(options.whitening);
    // Told now when it belongs to another model.
    whitening?.apply(new Float32Array(model.dimensions));
    const startMs = clock.now();
    await model.step(new Array<number>(STEP_TOKENS).fill(tokenizer.endId), undefined, false);
    const seconds = (clock.now() - startMs) / 1000;
    const file = describeFile(files.path);
    const wrong = check && wrongNumbers(file.file, check, "scorer.file");
    return new OnnxEmbedder(options, { tokenizer, model, graphs, whitening }, {
      embedder: "onnx",
      model: options.model,
      details: {
        ...file,
        dimensions: model.dimensions,
        threads,
        span: options.span,
        max_tokens: options.maxTokens,
        streams: model.streams,
        fallbacks: [...model.fallbacks],
        arithmetic: { ...model.arithmetic },
        ...(check === undefined ? {} : { check: { ...check } }),
        ...(wrong === undefined ? {} : { wrong }),
        ...(whitening === undefined ? {} : { whitened_by_texts: whitening.source.texts }),
        tokens_per_second: Math.round(STEP_TOKENS / seconds),
      },
    });
  }

  open(): OnnxAnswer {
    return new OnnxAnswer({
      model: this.#model,
      graphs: this.#graphs,
      tokens: this.#tokenizer.open(),
      endId: this.#tokenizer.endId,
      budget: this.#budget,
      span: this.#options.span,
      maxTokens: this.#options.maxTokens,
      transform: (pooled) => this.#whitening?.apply(pooled) ?? pooled,
    });
  }

  async close(): Promise<void> {
    await this.#model.close();
    await this.#graphs.close();
  }
}
