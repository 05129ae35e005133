import type { Io } from "./io.ts";
import type { Progress } from "./progress.ts";
import { sizeText } from "./units.ts";
import type { PullProgress } from "../../ml/hub/pull.ts";

/** Shortest time between two changes of the line, in ms. */
const CHANGE_MS = 100;
/** Lines per file where there is no terminal: one at each tenth. */
const SHARES = 10;

/** Shows how far a model is fetched. */
export function progressOf(progress: Progress, io: Io): (state: PullProgress) => void {
  let shownAtMs = -Infinity;
  let shown = "";
  return ({ file, index, files, bytes, size }) => {
    const nowMs = io.clock.now();
    const share = size === undefined || size === 0 ? 1 : Math.floor(SHARES * bytes / size) / SHARES;
    const mark = `${file} ${share}`;
    if (io.err.isTerminal ? bytes !== size && nowMs - shownAtMs < CHANGE_MS : mark === shown) return;
    shownAtMs = nowMs;
    shown = mark;
    const of = size === undefined
      ? ""
      : ` of ${sizeText(size)}, ${Math.floor(100 * bytes / Math.max(1, size))} %`;
    progress.show(`${index}/${files} ${file}: ${sizeText(bytes)}${of}`);
  };
}
