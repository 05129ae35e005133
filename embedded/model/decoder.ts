import { CanopyError, messageOf } from "../../base/errors.ts";
import { bytesPerToken, type CacheGrowth, type Numbers } from "../cache/cache_layout.ts";
import type { Extension } from "../cache/key_values.ts";
import { type DecoderExport, readDecoder } from "./decoder_export.ts";
import type { CacheTensors, DecoderSteps, NextToken } from "./decoder_steps.ts";
import { findBatches, findGrowth, logitsAfter } from "./decoder_trials.ts";
import type { Arithmetic } from "../../ml/onnx/products.ts";
import type { OnnxFallback, OnnxRuntime, OnnxSession, Tensor } from "../../ml/onnx/runtime.ts";
import { halfToNumber } from "../../ml/onnx/tensor_numbers.ts";
import { feedNextTokens, feedTokens } from "../../ml/onnx/transformer_inputs.ts";

/** A decoder with a cache on ONNX Runtime. */
export class Decoder implements DecoderSteps {
  readonly export: DecoderExport;
  readonly #runtime: OnnxRuntime;
  readonly #session: OnnxSession;
  readonly #source: string;
  #vocabSize = 0;
  #growth: CacheGrowth = "copies";
  #batches = false;
  /** True when it gives logits for each token, false for the last one only. */
  #allRows = true;
  /** Memory for logits, of the longest step so far. */
  #logits: Numbers = new Float32Array(0);

  private constructor(runtime: OnnxRuntime, session: OnnxSession, source: string) {
    this.#runtime = runtime;
    this.#session = session;
    this.#source = source;
    this.export = readDecoder(source, session);
  }

  /** `path` is the `.onnx` file. Throws when it cannot be read or is no model that is known here. */
  static async open(runtime: OnnxRuntime, path: string, threads: number): Promise<Decoder> {
    const decoder = new Decoder(runtime, await runtime.open(path, threads), path);
    await decoder.#readLogits();
    decoder.#growth = await findGrowth(decoder);
    decoder.#batches = await findBatches(decoder, decoder.#growth);
    return decoder;
  }

  get vocabSize(): number {
    return this.#vocabSize;
  }

  /** Ways around what ONNX Runtime cannot do with it as it should. */
  get fallbacks(): readonly OnnxFallback[] {
    return this.#session.fallbacks;
  }

  /** True when a prompt's first token is computed in a step of its own; see `Scheduler`. */
  get scaledPerCall(): boolean {
    return this.#session.scaledPerCall;
  }

  get arithmetic(): Arithmetic {
    return this.#session.arithmetic;
  }

  /** Bytes of keys and values for one token. */
  get bytesPerToken(): number {
    return bytesPerToken(this.export.cache);
  }

  /** Its cache's growth. */
  get growth(): CacheGrowth {
    return this.#growth;
  }

  /** True when it computes sequences of different lengths in one step. */
  get batches(): boolean {
    return this.#batches;
  }

  /** The logits after at most 1,024 tokens, computed as a prompt of a sequence of its own. */
  async numbersAfter(ids: readonly number[]): Promise<Float32Array> {
    return await logitsAfter(this, ids);
  }

  async step(ids: readonly number[], { from, into }: Extension): Promise<Float32Array> {
    const before = from?.tokens ?? 0;
    const feeds = feedTokens(this.#runtime, this.export, ids, before);
    const past = (from ?? into).place(before);
    const all = before + ids.length;
    const [last] = await this.#run(feeds, past, into.place(all), 1, ids.length);
    into.tokens = all;
    return last!;
  }

  async stepBatch(
    next: readonly NextToken[],
    from: CacheTensors,
    into: CacheTensors,
  ): Promise<Float32Array[]> {
    const lengths = next.map(({ before }) => before);
    const padding = into === from
      ? { rows: Math.max(...lengths), padded: "right" as const }
      : { rows: from.rows, padded: "left" as const };
    const feeds = feedNextTokens(this.#runtime, this.export, next.map(({ id }) => id), lengths, padding);
    return await this.#run(feeds, from, into, next.length, 1);
  }

  async close(): Promise<void> {
    await this.#session.release();
  }

  /** Gives the logits after the last token of each sequence. */
  async #run(
    feeds: Record<string, Tensor>,
    from: CacheTensors,
    into: CacheTensors,
    sequences: number,
    tokens: number,
  ): Promise<Float32Array[]> {
    // Nothing is allocated in a step, and nothing left behind.
    const outputs: Record<string, Tensor> = {};
    for (const [index, { input, output, heads, headDimensions }] of this.export.cache.entries()) {
      const part = ({ tensors, rows }: CacheTensors) => {
        const shape = [sequences, heads, rows, headDimensions];
        return this.#tensor(tensors[index]!.subarray(0, sequences * heads * rows * headDimensions), shape);
      };
      feeds[input] = part(from);
      outputs[output] = part(into);
    }
    const rows = this.#allRows ? tokens : 1;
    const logits = this.#roomForLogits(sequences * rows);
    outputs[this.export.logits.name] = this.#tensor(logits, [sequences, rows, this.#vocabSize]);
    try {
      await this.#session.runInto(feeds, outputs);
    } catch (cause) {
      const what = sequences === 1 ? `${tokens} tokens` : `a token of each of ${sequences} sequences`;
      throw new CanopyError(`Cannot compute ${what} with ${this.#source}: ${messageOf(cause)}`, {
        code: "model_failed",
        status: 500,
        cause,
      });
    }
    return Array.from({ length: sequences }, (_, sequence) => {
      const end = (sequence + 1) * rows * this.#vocabSize;
      const last = logits.subarray(end - this.#vocabSize, end);
      return last instanceof Float32Array ? last : Float32Array.from(last, halfToNumber);
    });
  }

  #tensor(numbers: Numbers, shape: readonly number[]): Tensor {
    return numbers instanceof Float32Array
      ? this.#runtime.float32(numbers, shape)
      : this.#runtime.float16(numbers, shape);
  }

  #roomForLogits(rows: number): Numbers {
    const length = rows * this.#vocabSize;
    if (this.#logits.length < length) {
      this.#logits = this.export.logits.type === "float32"
        ? new Float32Array(length)
        : new Uint16Array(length);
    }
    return this.#logits.subarray(0, length);
  }

  /** Runs two tokens, which tells the form of the logits. It also touches all weights once. */
  async #readLogits(): Promise<void> {
    const { cache, logits } = this.export;
    const feeds = feedTokens(this.#runtime, this.export, [0, 1], 0);
    for (const { input, type, heads, headDimensions } of cache) {
      const none = type === "float32" ? new Float32Array(0) : new Uint16Array(0);
      feeds[input] = this.#tensor(none, [1, heads, 0, headDimensions]);
    }
    const results = await this.#session.run(feeds, [logits.name]);
    const [, rows, size] = results[logits.name]!.dims;
    this.#allRows = rows === 2;
    this.#vocabSize = size!;
  }
}
