import type { OnnxRuntime, Tensor } from "../../ml/onnx/runtime.ts";
import type { CacheSlot } from "../../ml/onnx/transformer_inputs.ts";

type Numbers = Float32Array<ArrayBuffer> | Uint16Array<ArrayBuffer>;

/** Sizes are multiples of so many tokens. */
const GRANULARITY = 64;
/** By how much it grows at least, as a share: what is copied then adds up to a few times the whole. */
const GROWTH = 0.25;

/** Memory for the keys and values of one text, with room for tokens that are still to come. */
export class CacheRoom {
  /** [1, heads, capacity, size], by the names of the inputs that take them. */
  readonly tensors: Readonly<Record<string, Tensor>>;
  /** Tokens that there is memory for. */
  readonly capacity: number;
  readonly #numbers: readonly Numbers[];

  private constructor(runtime: OnnxRuntime, slots: readonly CacheSlot[], capacity: number) {
    this.capacity = capacity;
    const numbers: Numbers[] = [];
    const tensors: Record<string, Tensor> = {};
    for (const { input, type, heads, headDimensions } of slots) {
      const [length, shape] = [heads * capacity * headDimensions, [1, heads, capacity, headDimensions]];
      if (type === "float32") {
        const values = new Float32Array(length);
        numbers.push(values);
        tensors[input] = runtime.float32(values, shape);
      } else {
        const bits = new Uint16Array(length);
        numbers.push(bits);
        tensors[input] = runtime.float16(bits, shape);
      }
    }
    this.#numbers = numbers;
    this.tensors = tensors;
  }

  /** Room for `tokens`: the one that is there, or a larger one with what it held. */
  static for(
    runtime: OnnxRuntime,
    slots: readonly CacheSlot[],
    tokens: number,
    cache: { readonly tokens: number; readonly room: CacheRoom | undefined } | undefined,
  ): CacheRoom {
    const old = cache?.room;
    if (old !== undefined && old.capacity >= tokens) return old;
    const least = Math.max(tokens, (old?.capacity ?? 0) * (1 + GROWTH));
    const room = new CacheRoom(runtime, slots, Math.ceil(least / GRANULARITY) * GRANULARITY);
    if (old !== undefined) room.#take(old, cache?.tokens ?? 0, slots);
    return room;
  }

  #take(old: CacheRoom, tokens: number, slots: readonly CacheSlot[]): void {
    for (const [index, { heads, headDimensions }] of slots.entries()) {
      const [from, to] = [old.#numbers[index]!, this.#numbers[index]!];
      for (let head = 0; head < heads; head++) {
        const start = head * old.capacity * headDimensions;
        to.set(
          from.subarray(start, start + tokens * headDimensions),
          head * this.capacity * headDimensions,
        );
      }
    }
  }
}
