import type { Io } from "./io.ts";

/** Resolves when the program is asked to stop. */
export function untilStopped(io: Io): Promise<void> {
  return new Promise((resolve) => {
    if (io.stop.aborted) resolve();
    else io.stop.addEventListener("abort", () => resolve(), { once: true });
  });
}
