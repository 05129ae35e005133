import type { Io } from "./io.ts";
import { LiveRegion } from "./terminal.ts";

/** Progress of long work: one line that changes on a terminal, a line for each part elsewhere. */
export class Progress {
  readonly #region: LiveRegion;

  constructor(io: Pick<Io, "err">) {
    this.#region = new LiveRegion(io.err);
  }

  show(part: string): void {
    if (this.#region.live) this.#region.draw([part]);
    else this.#region.print(part);
  }

  end(): void {
    this.#region.clear();
  }
}
