import type { PromptReads } from "../../../../router/pool/gate.ts";

/** Prompts that are being read because a test says so. */
export class FakePrompts implements PromptReads {
  readonly #reading = new Map<string, number>();
  readonly #listeners: ((workerId: string) => void)[] = [];

  /** A prompt goes to a worker; the result ends its reading. */
  reads(workerId: string): () => void {
    this.#reading.set(workerId, this.reading(workerId) + 1);
    return () => {
      this.#reading.set(workerId, this.reading(workerId) - 1);
      for (const listener of this.#listeners) listener(workerId);
    };
  }

  reading(workerId: string): number {
    return this.#reading.get(workerId) ?? 0;
  }

  onPromptRead(listener: (workerId: string) => void): void {
    this.#listeners.push(listener);
  }
}
