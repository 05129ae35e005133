import { AsyncQueue } from "../../../base/queue.ts";
import type { EventSink } from "../agent/agent_call.ts";
import type { RunEvent } from "./run.ts";

/** Events that wait for the reader before the engines' streams are paused. */
const CAPACITY = 64;

/** The root's output on its way to one reader, at the reader's pace. */
export class RunOutput implements AsyncIterable<RunEvent> {
  readonly #queue = new AsyncQueue<RunEvent>(CAPACITY);
  readonly #onLeave: () => Promise<void>;

  /** `onLeave`: the reader stops before the end. */
  constructor(onLeave: () => Promise<void>) {
    this.#onLeave = onLeave;
  }

  /** The way in for the call of choice `index`: it waits for the reader, and rejects when the reader leaves. */
  choice(index: number): EventSink {
    return {
      push: (event, signal) => {
        if (event.type === "delta") return this.#queue.push({ type: "delta", index, delta: event }, signal);
        const { finishReason, stopReason } = event;
        return this.#queue.push({ type: "end", index, finishReason, stopReason }, signal);
      },
    };
  }

  /** Says the whole of choice `index` at once: nothing else has been said. */
  say(index: number, text: string): void {
    // There is room: nobody has pushed anything.
    void this.#queue.push({ type: "delta", index, delta: { type: "delta", text } });
    void this.#queue.push({ type: "end", index, finishReason: "stop" });
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
