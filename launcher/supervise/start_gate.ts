import type { PlannedEngine } from "../plan/launch_plan.ts";

/**
 * Lets engines start side by side as far as that is safe. An engine measures the free memory of its GPUs while it
 * starts, so those that share a GPU go one after the other, in the plan's order; and the weights that are read at once
 * must fit the host's memory.
 */
export class StartGate {
  readonly #freeHostBytes: () => number;
  readonly #starting = new Set<PlannedEngine>();
  /** Engines that wait, in the plan's order. */
  readonly #waiting: { readonly engine: PlannedEngine; readonly admit: () => void }[] = [];

  constructor(freeHostBytes: () => number) {
    this.#freeHostBytes = freeHostBytes;
  }

  /** Resolves when the engine may start; call `leave` when it is ready or has failed. Rejects with the signal's reason. */
  enter(engine: PlannedEngine, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    return new Promise((resolve, reject) => {
      const entry = {
        engine,
        admit: () => {
          signal.removeEventListener("abort", onAbort);
          resolve();
        },
      };
      const onAbort = () => {
        this.#waiting.splice(this.#waiting.indexOf(entry), 1);
        reject(signal.reason);
        this.#admit();
      };
      signal.addEventListener("abort", onAbort, { once: true });
      this.#waiting.push(entry);
      this.#admit();
    });
  }

  leave(engine: PlannedEngine): void {
    if (this.#starting.delete(engine)) this.#admit();
  }

  #admit(): void {
    const blocked = new Set<string>();
    for (const one of this.#starting) for (const gpu of one.gpus) blocked.add(gpu.id);
    for (const entry of [...this.#waiting]) {
      const { engine } = entry;
      const clear = engine.gpus.every((gpu) => !blocked.has(gpu.id));
      // Also one that waits keeps its GPUs from those behind it: an engine that is large comes to its turn.
      for (const gpu of engine.gpus) blocked.add(gpu.id);
      if (!clear || !this.#fitsHost(engine)) continue;
      this.#waiting.splice(this.#waiting.indexOf(entry), 1);
      this.#starting.add(engine);
      entry.admit();
    }
  }

  /** True when the host has memory for the weights: those of starting engines count whole, though partly read. */
  #fitsHost(engine: PlannedEngine): boolean {
    if (this.#starting.size === 0) return true;
    let bytes = engine.shape?.weightBytes ?? 0;
    for (const other of this.#starting) bytes += other.shape?.weightBytes ?? 0;
    return bytes === 0 || bytes <= this.#freeHostBytes();
  }
}
