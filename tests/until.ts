import { SystemClock } from "../base/clock.ts";

const clock = new SystemClock();

/** Longest wait of a test for what comes from other processes and sockets: no machine is so slow, so it hangs. */
export const HANG_MS = 300_000;

/** Looks again and again until this holds; fails after `HANG_MS`, so that no test passes or fails by its pace. */
export async function until(what: string, holds: () => boolean | Promise<boolean>): Promise<void> {
  const startMs = clock.now();
  while (!await holds()) {
    if (clock.now() - startMs > HANG_MS) {
      throw new Error(`It did not come to pass within ${HANG_MS / 1000} s: ${what}`);
    }
    await clock.sleep(10);
  }
}
