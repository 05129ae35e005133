import type { Clock } from "../../../base/clock.ts";
import type { PromptReads } from "../../pool/gate.ts";

/** New tokens that a step of a GPU reads in about the time that it needs for one: loading the weights takes as long. */
const STEP_TOKENS = 256;

interface WorkerTurns {
  readonly id: string;
  /** New tokens of the warms that are under way. */
  warmingTokens: number;
  pausedUntilMs: number;
  /** Whoever wants to warm there next, in the order in which they came. */
  readonly line: Set<() => void>;
}

/**
 * Turns of warms on each worker of a model, over all runs: as many at a time as fill a step, and only while the gate
 * knows of no real prompt that waits there to be read. Without turns every prompt that was held back would be warmed in the moment in
 * which a worker becomes free, and the next real prompt would wait for them all.
 */
export class WarmTurns {
  readonly #clock: Clock;
  readonly #prompts: PromptReads;
  readonly #workers = new Map<string, WorkerTurns>();

  constructor(clock: Clock, prompts: PromptReads) {
    this.#clock = clock;
    this.#prompts = prompts;
    prompts.onPromptRead((workerId) => {
      const worker = this.#workers.get(workerId);
      if (worker !== undefined) this.#next(worker);
    });
  }

  /**
   * The work that a worker has to do first: real prompts to read, or so many `streams` or warms that a step is full;
   * undefined for one that has room.
   */
  busyWith(workerId: string, streams = 0): "prompts" | "streams" | "warms" | undefined {
    const { warmingTokens = 0 } = this.#workers.get(workerId) ?? {};
    if (this.#prompts.reading(workerId) > 0) return "prompts";
    if (streams >= STEP_TOKENS) return "streams";
    return warmingTokens > 0 && warmingTokens + streams >= STEP_TOKENS ? "warms" : undefined;
  }

  /** Takes a turn at a free worker; the result is to be called when the warm has ended. */
  take(workerId: string, newTokens: number): () => void {
    const worker = this.#worker(workerId);
    worker.warmingTokens += newTokens;
    let warming = true;
    return () => {
      if (!warming) return;
      warming = false;
      worker.warmingTokens -= newTokens;
      this.#next(worker);
    };
  }

  /**
   * Stands in line for a worker that is not free: `turn` is called once, when it is, and takes the turn or leaves it to
   * the next in line. The result leaves the line.
   */
  wait(workerId: string, turn: () => void): () => void {
    const { line } = this.#worker(workerId);
    line.add(turn);
    return () => line.delete(turn);
  }

  /** No warm on a worker for a while. */
  pause(workerId: string, ms: number): void {
    const worker = this.#worker(workerId);
    worker.pausedUntilMs = Math.max(worker.pausedUntilMs, this.#clock.now() + ms);
  }

  /** Ms for which no warm is to be sent to a worker. */
  pausedMs(workerId: string): number {
    return Math.max(0, (this.#workers.get(workerId)?.pausedUntilMs ?? 0) - this.#clock.now());
  }

  /** Calls those in line until the worker is busy. */
  #next(worker: WorkerTurns): void {
    for (const turn of [...worker.line]) {
      if (!this.#isFree(worker)) return;
      if (worker.line.delete(turn)) turn();
    }
  }

  #worker(workerId: string): WorkerTurns {
    let worker = this.#workers.get(workerId);
    if (worker === undefined) {
      this.#forgetIdle();
      worker = { id: workerId, warmingTokens: 0, pausedUntilMs: 0, line: new Set() };
      this.#workers.set(workerId, worker);
    }
    return worker;
  }

  /** Workers come and go. */
  #forgetIdle(): void {
    if (this.#workers.size < 1024) return;
    for (const [id, worker] of this.#workers) {
      if (this.#isFree(worker) && worker.line.size === 0) this.#workers.delete(id);
    }
  }

  #isFree({ id, warmingTokens }: WorkerTurns): boolean {
    return this.#prompts.reading(id) === 0 && warmingTokens < STEP_TOKENS;
  }
}
