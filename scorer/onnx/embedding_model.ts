import {
  halfBits,
  type InferenceSession,
  type OnnxRuntime,
  type Tensor,
  toFloat32,
} from "../../onnx/runtime.ts";
import { feedTokens } from "../../onnx/transformer_inputs.ts";
import { cosine } from "../similarity.ts";
import { type EmbeddingExport, readExport } from "./embedding_export.ts";

/** Keys and values of the tokens so far, by the names of the inputs that take them. */
export interface KeyValueCache {
  readonly tokens: number;
  readonly tensors: Readonly<Record<string, Tensor>>;
}

/** What came of some tokens. */
export interface Step {
  /** Features of these tokens after the last norm, [tokens, dimensions]. */
  readonly rows: Float32Array;
  /** To go on from, unless it was said that nothing follows. */
  readonly cache: KeyValueCache | undefined;
}

/**
 * An exported embedding model. Batches of one text, without padding: more gain nothing on a CPU, and padding is right
 * on some exports only.
 */
export class EmbeddingModel {
  readonly export: EmbeddingExport;
  readonly #runtime: OnnxRuntime;
  readonly #session: InferenceSession;
  readonly #last: readonly string[];
  readonly #all: readonly string[];
  #streams: boolean;
  #dimensions = 0;

  private constructor(runtime: OnnxRuntime, session: InferenceSession, source: string) {
    this.#runtime = runtime;
    this.#session = session;
    this.export = readExport(source, session);
    this.#last = [this.export.hidden.name];
    this.#all = [...this.#last, ...this.export.cache.map(({ output }) => output)];
    this.#streams = this.export.cache.length > 0;
  }

  /** `path` is the `.onnx` file. Throws when it cannot be read or is no model that is known here. */
  static async open(runtime: OnnxRuntime, path: string, threads: number): Promise<EmbeddingModel> {
    const session = await runtime.open(path, threads);
    const model = new EmbeddingModel(runtime, session, path);
    await model.#tryOut();
    return model;
  }

  /** True when a text can be embedded in steps, with the numbers that one go gives. */
  get streams(): boolean {
    return this.#streams;
  }

  /** h, the columns of a row. */
  get dimensions(): number {
    return this.#dimensions;
  }

  /** Embeds `ids`, at least one, behind the tokens of `cache`. With `more` what follows needs is kept. */
  async step(ids: readonly number[], cache: KeyValueCache | undefined, more: boolean): Promise<Step> {
    const past = cache?.tokens ?? 0;
    const feeds = feedTokens(this.#runtime, this.export, ids, past);
    for (const slot of this.export.cache) {
      const { input, type, heads, headDimensions } = slot;
      const shape = [1, heads, 0, headDimensions];
      feeds[input] = cache?.tensors[input] ??
        (type === "float32"
          ? this.#runtime.float32(new Float32Array(0), shape)
          : this.#runtime.float16(new Uint16Array(0), shape));
    }
    // Only what is fetched is handed to JavaScript.
    const results = await this.#session.run(feeds, more ? this.#all : this.#last);
    const rows = toFloat32(results[this.export.hidden.name]!);
    if (!more) return { rows, cache: undefined };
    const tensors: Record<string, Tensor> = {};
    for (const { input, output, type } of this.export.cache) {
      const tensor = results[output]!;
      tensors[input] = type === "float16" ? this.#runtime.float16(halfBits(tensor), tensor.dims) : tensor;
    }
    return { rows, cache: { tokens: past + ids.length, tensors } };
  }

  async close(): Promise<void> {
    await this.#session.release();
  }

  /**
   * Runs a few tokens in one go and in two steps. Exports whose cache does not continue the text (a mask that is read
   * another way, positions that start anew) are embedded in one go. It also touches all weights once.
   */
  async #tryOut(): Promise<void> {
    const ids = [1, 2, 3, 5, 8, 13, 21, 34];
    const whole = (await this.step(ids, undefined, false)).rows;
    this.#dimensions = whole.length / ids.length;
    if (!this.#streams) return;
    const first = await this.step(ids.slice(0, 5), undefined, true);
    const second = (await this.step(ids.slice(5), first.cache, false)).rows;
    this.#streams = cosine(whole.subarray(whole.length * 5 / 8), second) > leastAgreement;
  }
}

/** Steps of int8 models differ a little, since their scales depend on what is in a call; wrong ones differ a lot. */
const leastAgreement = 0.9;
