import type { Io } from "./io.ts";
import { LiveRegion, truncate } from "./terminal.ts";

/** Progress of long work: one line that changes on a terminal, a line for each part elsewhere. */
export class Progress {
  readonly #io: Io;
  readonly #region: LiveRegion;

  constructor(io: Io) {
    this.#io = io;
    this.#region = new LiveRegion(io.err);
  }

  show(part: string): void {
    if (this.#region.live) this.#region.draw([truncate(part, this.#io.err.columns - 1)]);
    else this.#region.print(part);
  }

  end(): void {
    this.#region.clear();
  }
}
