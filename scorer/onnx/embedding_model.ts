import type { Arithmetic } from "../../ml/onnx/products.ts";
import type { OnnxFallback, OnnxRuntime, OnnxSession, Tensor } from "../../ml/onnx/runtime.ts";
import { halfBits, toFloat32 } from "../../ml/onnx/tensor_numbers.ts";
import { feedTokens } from "../../ml/onnx/transformer_inputs.ts";
import { CacheRoom } from "./cache_room.ts";
import { type EmbeddingExport, readExport } from "./embedding_export.ts";
import { cosine } from "../similarity/similarity.ts";

/** Keys and values of the tokens so far. A step that goes on from it may write into it: it is used once. */
export interface KeyValueCache {
  readonly tokens: number;
  /** By the names of the inputs that take them. */
  readonly tensors: Readonly<Record<string, Tensor>>;
  /** Their memory when there is room for more behind them. */
  readonly room: CacheRoom | undefined;
}

/** Result of a step over some tokens. */
export interface Step {
  /** Features of these tokens after the last norm, [tokens, dimensions]. */
  readonly rows: Float32Array;
  /** For the next step; undefined when nothing follows. */
  readonly cache: KeyValueCache | undefined;
}

/**
 * An exported embedding model. Batches of one text, without padding: more gain nothing on a CPU, and padding is right
 * on some exports only.
 */
export class EmbeddingModel {
  readonly export: EmbeddingExport;
  readonly #runtime: OnnxRuntime;
  readonly #session: OnnxSession;
  readonly #last: readonly string[];
  readonly #all: readonly string[];
  #streams: boolean;
  #inPlace = false;
  #dimensions = 0;

  private constructor(runtime: OnnxRuntime, session: OnnxSession, source: string) {
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

  /** True when steps do not copy the keys and values of earlier ones. */
  get inPlace(): boolean {
    return this.#inPlace;
  }

  /** Ways around what ONNX Runtime cannot do with it as it should. */
  get fallbacks(): readonly OnnxFallback[] {
    return this.#session.fallbacks;
  }

  /** True when a text's first token is embedded in a step of its own; see `OnnxAnswer`. */
  get firstAlone(): boolean {
    return this.#streams && this.#session.scaledPerCall;
  }

  get arithmetic(): Arithmetic {
    return this.#session.arithmetic;
  }

  /** h, the columns of a row. */
  get dimensions(): number {
    return this.#dimensions;
  }

  /** Embeds `ids`, at least one, behind the tokens of `cache`. `more`: another step follows, and needs the cache. */
  async step(ids: readonly number[], cache: KeyValueCache | undefined, more: boolean): Promise<Step> {
    return this.#inPlace ? await this.#stepInPlace(ids, cache, more) : await this.#step(ids, cache, more);
  }

  /** The features of the last token. */
  async numbersAfter(ids: readonly number[]): Promise<Float32Array> {
    const alone = this.firstAlone && ids.length > 1;
    const first = alone ? await this.step(ids.slice(0, 1), undefined, true) : undefined;
    return (await this.step(ids.slice(alone ? 1 : 0), first?.cache, false)).rows.slice(-this.#dimensions);
  }

  async #step(ids: readonly number[], cache: KeyValueCache | undefined, more: boolean): Promise<Step> {
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
    // Only outputs that are named are handed to JavaScript.
    const results = await this.#session.run(feeds, more ? this.#all : this.#last);
    const rows = toFloat32(results[this.export.hidden.name]!);
    if (!more) return { rows, cache: undefined };
    const tensors: Record<string, Tensor> = {};
    for (const { input, output, type } of this.export.cache) {
      const tensor = results[output]!;
      tensors[input] = type === "float16" ? this.#runtime.float16(halfBits(tensor), tensor.dims) : tensor;
    }
    return { rows, cache: { tokens: past + ids.length, tensors, room: undefined } };
  }

  /** Keys and values are written behind those that are there: nothing is copied. */
  async #stepInPlace(
    ids: readonly number[],
    cache: KeyValueCache | undefined,
    more: boolean,
  ): Promise<Step> {
    const past = cache?.tokens ?? 0;
    const room = CacheRoom.for(this.#runtime, this.export.cache, past + ids.length, cache);
    const feeds = feedTokens(this.#runtime, this.export, ids, past);
    const hidden = this.#hiddenOf(ids.length);
    const outputs: Record<string, Tensor> = { [this.export.hidden.name]: hidden };
    for (const { input, output } of this.export.cache) {
      feeds[input] = room.tensors[input]!;
      outputs[output] = room.tensors[input]!;
    }
    await this.#session.runInto(feeds, outputs);
    const rows = toFloat32(hidden);
    if (!more) return { rows, cache: undefined };
    const next = { tokens: past + ids.length, tensors: room.tensors, room };
    // Grown now, not when the next step is waited for.
    const roomier = CacheRoom.for(this.#runtime, this.export.cache, next.tokens + ROOM_AHEAD, next);
    return { rows, cache: { ...next, tensors: roomier.tensors, room: roomier } };
  }

  async close(): Promise<void> {
    await this.#session.release();
  }

  /** Memory for the features of so many tokens. */
  #hiddenOf(tokens: number): Tensor {
    const shape = [1, tokens, this.#dimensions];
    const length = tokens * this.#dimensions;
    return this.export.hidden.type === "float32"
      ? this.#runtime.float32(new Float32Array(length), shape)
      : this.#runtime.float16(new Uint16Array(length), shape);
  }

  /**
   * Runs a few tokens in one go and in two steps. Exports whose cache does not continue the text (a mask that is read
   * another way, positions that start anew) are embedded in one go. It also touches all weights once. ONNX Runtime's
   * fused attention can write behind what is in its cache, when that is given as its output too; other exports refuse
   * an output of that size.
   */
  async #tryOut(): Promise<void> {
    const ids = [1, 2, 3, 5, 8, 13, 21, 34];
    const whole = (await this.step(ids, undefined, false)).rows;
    this.#dimensions = whole.length / ids.length;
    if (!this.#streams) return;
    const inSteps = async () => {
      const first = await this.step(ids.slice(0, 5), undefined, true);
      const second = (await this.step(ids.slice(5), first.cache, false)).rows;
      return cosine(whole.subarray(whole.length * 5 / 8), second) > LEAST_AGREEMENT;
    };
    this.#inPlace = true;
    this.#inPlace = await inSteps().catch(() => false);
    if (!this.#inPlace) this.#streams = await inSteps();
  }
}

/** Tokens that there is room for before they come: a step, and the end token. */
const ROOM_AHEAD = 65;

/** Steps of int8 models differ a little, since their scales depend on what is in a call; wrong ones differ a lot. */
const LEAST_AGREEMENT = 0.9;
