import { type Clock, deadlineSignal } from "../../base/clock.ts";
import type { Logger } from "../../base/log.ts";
import type { Thread, ThreadEvents } from "./thread.ts";

/** Waits before a thread is started again, in ms. */
const RESTART_MS = { first: 1_000, most: 60_000 };
/** Longest wait for a thread when it is closed, in ms. */
const CLOSE_MS = 5_000;

/** Asks a thread to end between two steps; its owner calls `hasClosed` when it answers. */
export interface CloseMessage {
  readonly kind: "close";
}

/** Options of a `ModelThread`. */
export interface ModelThreadOptions<To, From> {
  readonly clock: Clock;
  readonly log: Logger;
  /** Name in log lines and errors, such as "the scorer". */
  readonly name: string;
  readonly start: (events: ThreadEvents<From>) => Thread<To | CloseMessage>;
  readonly message: (message: From) => void;
  /** Called after a crash, in which the thread's state is lost. Gives true to have it started again, after a while. */
  readonly crash: (reason: string) => boolean;
}

/** A thread that runs a model: started again when it crashes, after longer waits each time, and closed between two steps. */
export class ModelThread<To, From> {
  readonly #options: ModelThreadOptions<To, From>;
  #thread: Thread<To | CloseMessage> | undefined;
  #crashes = 0;
  readonly #ending = new AbortController();
  #onClosed = () => {};

  constructor(options: ModelThreadOptions<To, From>) {
    this.#options = options;
  }

  /** False between a crash and the next start, and when it was ended. */
  get runs(): boolean {
    return this.#thread !== undefined;
  }

  get isClosing(): boolean {
    return this.#ending.signal.aborted;
  }

  start(): void {
    this.#thread = this.#options.start({
      message: this.#options.message,
      crash: (reason) => void this.#restart(reason),
    });
  }

  /** Nothing happens when it does not run. */
  post(message: To, transfer?: readonly ArrayBuffer[]): void {
    this.#thread?.post(message, transfer);
  }

  keepAlive(on: boolean): void {
    this.#thread?.keepAlive(on);
  }

  /** Called when it has done work: the next crash counts as the first one. */
  works(): void {
    this.#crashes = 0;
  }

  /** Called when it has answered a `CloseMessage`: it is idle, and ended. */
  hasClosed(): void {
    this.terminate();
    this.#onClosed();
  }

  /** Ends it at once and for good. To be called while it is idle: inside a native call it would take Bun down with it. */
  terminate(): void {
    this.#ending.abort();
    this.#thread?.terminate();
    this.#thread = undefined;
  }

  /**
   * Ends it between two steps, since a step cannot be broken off. After 5 s nobody waits for it any more: it ends when it
   * has left its step, or with the process.
   */
  async close(): Promise<void> {
    this.#ending.abort();
    const thread = this.#thread;
    if (thread === undefined) return;
    const deadline = deadlineSignal(this.#options.clock, CLOSE_MS, undefined);
    await new Promise<void>((resolve) => {
      this.#onClosed = resolve;
      deadline.signal.addEventListener("abort", () => resolve());
      thread.post({ kind: "close" });
    });
    deadline.release();
    this.#thread?.keepAlive(false);
  }

  async #restart(why: string): Promise<void> {
    const { log, name, clock, crash } = this.#options;
    log.error("The thread of {name} crashed: {why}", { name, why });
    this.#thread = undefined;
    this.#onClosed();
    if (!crash(`The thread of ${name} crashed: ${why}`)) return;
    const waitMs = Math.min(RESTART_MS.most, RESTART_MS.first * 2 ** this.#crashes++);
    try {
      await clock.sleep(waitMs, this.#ending.signal);
    } catch {
      return;
    }
    this.start();
  }
}
