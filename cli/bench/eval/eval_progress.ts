import type { Io } from "../../kit/io.ts";
import { Progress } from "../../kit/progress.ts";

/** Lines elsewhere than on a terminal. */
const LINES = 10;

/** Progress of an evaluation: answers, how many come in a time, and how long the rest takes at this rate. */
export class EvalProgress {
  readonly #io: Io;
  readonly #progress: Progress;
  readonly #startMs: number;
  #asked = 0;

  constructor(io: Io) {
    this.#io = io;
    this.#progress = new Progress(io);
    this.#startMs = io.clock.now();
  }

  /** `known`: it stood in the records, and took no time. */
  add(done: number, all: number, known: boolean): void {
    if (!known) this.#asked++;
    const { clock, err } = this.#io;
    if (!err.isTerminal && done % Math.ceil(all / LINES) !== 0) return;
    const pace = paceSoFar({ asked: this.#asked, left: all - done, ms: clock.now() - this.#startMs });
    this.#progress.show(`${done} of ${all} answers${pace}`);
  }

  end(): void {
    this.#progress.end();
  }
}

/** `, 12.5 a minute, about 3 min left`; nothing where no time has passed. */
function paceSoFar(
  { asked, left, ms }: { readonly asked: number; readonly left: number; readonly ms: number },
) {
  if (asked === 0 || ms <= 0) return "";
  const rate = rateText(asked / ms);
  return left === 0 ? `, ${rate}` : `, ${rate}, about ${timeText(left * ms / asked)} left`;
}

/** Of answers in a ms: `3.2 a second`, `12.5 a minute`. */
function rateText(perMs: number): string {
  const units = [["a second", 1000], ["a minute", 60_000], ["an hour", 3_600_000]] as const;
  const [unit, ms] = units.find(([, length]) => perMs * length >= 1) ?? units[2];
  return `${(perMs * ms).toFixed(1)} ${unit}`;
}

/** `45 s`, `12 min`, `3 h 20 min`. */
function timeText(ms: number): string {
  const seconds = Math.ceil(ms / 1000);
  if (seconds < 100) return `${seconds} s`;
  const minutes = Math.ceil(seconds / 60);
  return minutes < 100 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}
