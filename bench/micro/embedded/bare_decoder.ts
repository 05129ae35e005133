import type { Clock } from "../../../base/clock.ts";
import type { Pace } from "./measures.ts";
import { QWEN06 } from "../scorer/model.ts";
import type { OnnxRuntime, OnnxSession, Tensor } from "../../../ml/onnx/runtime.ts";

/** The loop that one writes first: outputs of a step are inputs of the next, the likeliest token goes on. */
export class BareDecoder {
  readonly #runtime: OnnxRuntime;
  readonly #session: OnnxSession;
  readonly #clock: Clock;
  readonly #past: readonly string[];

  private constructor(runtime: OnnxRuntime, session: OnnxSession, clock: Clock) {
    this.#runtime = runtime;
    this.#session = session;
    this.#clock = clock;
    this.#past = session.inputNames.filter((name) => name.startsWith("past"));
  }

  static async open(runtime: OnnxRuntime, path: string, threads: number, clock: Clock): Promise<BareDecoder> {
    return new BareDecoder(runtime, await runtime.open(path, threads), clock);
  }

  async run(prompt: readonly number[], answerTokens: number, stepTokens: number): Promise<Pace> {
    const startMs = this.#clock.now();
    let cache: Record<string, Tensor> = {};
    const { cacheHeads, headSize } = QWEN06;
    for (const name of this.#past) {
      cache[name] = this.#runtime.float32(new Float32Array(0), [1, cacheHeads, 0, headSize]);
    }
    let known = 0;
    let next = 0;
    const step = async (ids: readonly number[]) => {
      const all = known + ids.length;
      const results = await this.#session.run({
        input_ids: this.#runtime.integers("int64", ids, [1, ids.length]),
        attention_mask: this.#runtime.integers("int64", new Array<number>(all).fill(1), [1, all]),
        ...(this.#session.inputNames.includes("position_ids")
          ? {
            position_ids: this.#runtime.integers("int64", ids.map((_, index) => known + index), [
              1,
              ids.length,
            ]),
          }
          : {}),
        ...cache,
      });
      cache = {};
      for (const name of this.#past) cache[name] = results[name.replace("past_key_values", "present")]!;
      known = all;
      const logits = results["logits"]!;
      const row = (logits.data as Float32Array).subarray(-logits.dims[2]!);
      next = 0;
      for (let id = 1; id < row.length; id++) if (row[id]! > row[next]!) next = id;
    };
    for (let at = 0; at < prompt.length; at += stepTokens) await step(prompt.slice(at, at + stepTokens));
    const firstMs = this.#clock.now();
    for (let count = 1; count < answerTokens; count++) await step([next]);
    return {
      promptPerSecond: prompt.length / (firstMs - startMs) * 1000,
      answerPerSecond: (answerTokens - 1) / (this.#clock.now() - firstMs) * 1000,
    };
  }

  async close(): Promise<void> {
    await this.#session.release();
  }
}
