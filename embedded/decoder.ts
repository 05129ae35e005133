import { CanopyError, messageOf } from "../base/errors.ts";
import {
  halfToNumber,
  type InferenceSession,
  type OnnxRuntime,
  type Tensor,
  toFloat32,
} from "../onnx/runtime.ts";
import { feedTokens } from "../onnx/transformer_inputs.ts";
import { type DecoderExport, readDecoder } from "./decoder_export.ts";
import {
  bytesPerToken,
  type CacheGrowth,
  type Extension,
  KeyValuePool,
  type KeyValues,
  type Numbers,
} from "./key_values.ts";

/** A decoder with a cache on ONNX Runtime. Its calls block the thread for as long as a step takes. */
export class Decoder {
  readonly export: DecoderExport;
  readonly #runtime: OnnxRuntime;
  readonly #session: InferenceSession;
  readonly #source: string;
  #vocabSize = 0;
  #growth: CacheGrowth = "copies";
  /** It gives logits for each token, or for the last one only. */
  #allRows = true;
  /** Where logits are written, for as many tokens as a step has had. */
  #logits: Numbers = new Float32Array(0);

  private constructor(runtime: OnnxRuntime, session: InferenceSession, source: string) {
    this.#runtime = runtime;
    this.#session = session;
    this.#source = source;
    this.export = readDecoder(source, session);
  }

  /** `path` is the `.onnx` file. Throws when it cannot be read or is no model that is known here. */
  static async open(runtime: OnnxRuntime, path: string, threads: number): Promise<Decoder> {
    const decoder = new Decoder(runtime, await runtime.open(path, threads), path);
    await decoder.#tryOut();
    return decoder;
  }

  get vocabSize(): number {
    return this.#vocabSize;
  }

  /** Bytes of keys and values for one token. */
  get bytesPerToken(): number {
    return bytesPerToken(this.export.cache);
  }

  /** How its cache is continued. */
  get growth(): CacheGrowth {
    return this.#growth;
  }

  /**
   * Computes `ids`, at least one, behind `from`, and puts the keys and values of all of them into `into`, which has
   * room. Gives the logits after the last one, good until the next step. Throws 500 `model_failed`.
   */
  async step(ids: readonly number[], { from, into }: Extension): Promise<Float32Array> {
    const before = from?.tokens ?? 0;
    const all = before + ids.length;
    const feeds = feedTokens(this.#runtime, this.export, ids, before);
    // Outputs that are given are written to in place: nothing is allocated in a step, and nothing left behind.
    const outputs: Record<string, Tensor> = {};
    for (const [index, { input, output, heads, headDimensions }] of this.export.cache.entries()) {
      const part = (room: KeyValues, tokens: number) => {
        const rows = room.rows(tokens);
        const numbers = room.tensors[index]!.subarray(0, heads * rows * headDimensions);
        return this.#tensor(numbers, [1, heads, rows, headDimensions]);
      };
      feeds[input] = part(from ?? into, before);
      outputs[output] = part(into, all);
    }
    const rows = this.#allRows ? ids.length : 1;
    const logits = this.#roomForLogits(rows);
    outputs[this.export.logits.name] = this.#tensor(logits, [1, rows, this.#vocabSize]);
    try {
      await this.#session.run(feeds, outputs);
    } catch (cause) {
      throw new CanopyError(`Cannot compute ${ids.length} tokens with ${this.#source}: ${messageOf(cause)}`, {
        code: "model_failed",
        status: 500,
        cause,
      });
    }
    into.tokens = all;
    const last = logits.subarray((rows - 1) * this.#vocabSize);
    return last instanceof Float32Array ? last : Float32Array.from(last, halfToNumber);
  }

  async close(): Promise<void> {
    await this.#session.release();
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

  /**
   * Runs a few tokens, which tells the form of the logits, and touches all weights once. Then the same in two steps,
   * written in place: ONNX Runtime's fused attention (`GroupQueryAttention`) does that when its cache is given as its
   * output, too; other exports refuse an output of that size.
   */
  async #tryOut(): Promise<void> {
    const { cache, logits } = this.export;
    const ids = [0, 1, 0, 1, 1];
    const feeds = feedTokens(this.#runtime, this.export, ids, 0);
    for (const { input, type, heads, headDimensions } of cache) {
      const none = type === "float32" ? new Float32Array(0) : new Uint16Array(0);
      feeds[input] = this.#tensor(none, [1, heads, 0, headDimensions]);
    }
    const results = await this.#session.run(feeds, [logits.name]);
    const [, rows, size] = results[logits.name]!.dims;
    this.#allRows = rows === ids.length;
    this.#vocabSize = size!;
    const expected = toFloat32(results[logits.name]!).subarray(-size!);
    const pool = new KeyValuePool(cache, "appends", 256);
    const first = pool.extend(undefined, 0, 3, 2 * ids.length)!;
    try {
      await this.step(ids.slice(0, 3), first);
      const logits = await this.step(ids.slice(3), pool.extend(first.into, 3, 2, ids.length)!);
      if (agree(logits, expected)) this.#growth = "appends";
    } catch {
      // It copies.
    }
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
