import { AsyncQueue } from "../../../base/queue.ts";
import { pythonStripper } from "../prompt/compat_moa_vllm.ts";
import type { EventSink } from "../agent/agent_call.ts";
import type { FinishReason, GenerateEvent } from "../../engines/engine.ts";
import type { RunEvent } from "./run.ts";

/** Events that wait for the reader before the engines' streams are paused. */
const CAPACITY = 64;

/** The root's output on its way to one reader, at the reader's pace. */
export class RunOutput implements AsyncIterable<RunEvent> {
  readonly #queue = new AsyncQueue<RunEvent>(CAPACITY);
  readonly #onLeave: () => Promise<void>;
  readonly #strips: boolean;

  /** `onLeave`: the reader stops before the end. `strips`: white space at both ends of a text is left out. */
  constructor(onLeave: () => Promise<void>, strips = false) {
    this.#onLeave = onLeave;
    this.#strips = strips;
  }

  /** The way in for the call of choice `index`: it waits for the reader, and rejects when the reader leaves. */
  choice(index: number): EventSink {
    const strip = this.#strips ? pythonStripper() : undefined;
    return {
      push: (event, signal) => {
        if (event.type === "delta") {
          const delta = strip === undefined ? event : { ...event, text: strip(event.text) };
          return this.#queue.push({ type: "delta", index, delta }, signal);
        }
        const { finishReason, stopReason } = event;
        return this.#queue.push({ type: "end", index, finishReason, stopReason }, signal);
      },
    };
  }

  /** As `choice`, for a reader who wants nothing before the end: until then the answer may be begun anew. */
  wholeChoice(index: number): EventSink {
    const sink = this.choice(index);
    let held: GenerateEvent[] = [];
    return {
      push: async (event, signal) => {
        held.push(event);
        if (event.type === "delta") return;
        for (const one of held) await sink.push(one, signal);
      },
      restart: () => {
        held = [];
      },
    };
  }

  /** Says the whole of choice `index` at once: nothing but thoughts has been said, which a slow reader may have yet to read. */
  say(index: number, text: string, finishReason: FinishReason = "stop"): void {
    this.#queue.add({ type: "delta", index, delta: { type: "delta", text } });
    this.#queue.add({ type: "end", index, finishReason });
  }

  /** Ends choice `index` where it is; resolves when the reader has room for that, or has gone. */
  async cut(index: number): Promise<void> {
    await this.#queue.push({ type: "end", index, finishReason: "length" }).catch(() => {});
  }

  /** Ends the output after what is in it. */
  close(): void {
    this.#queue.close();
  }

  /** Ends the output, after what is in it, with an error. */
  fail(error: unknown): void {
    this.#queue.fail(error);
  }

  [Symbol.asyncIterator](): AsyncIterator<RunEvent> {
    return {
      next: () => this.#queue.next(),
      return: async () => {
        const left = this.#onLeave();
        this.#queue.cancel();
        await left;
        return { done: true, value: undefined };
      },
    };
  }
}
