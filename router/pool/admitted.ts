import type { Worker } from "./worker.ts";

/**
 * Workers that their breakers admit; all of them where no breaker does: a breaker steers work to other workers, and
 * with nowhere to steer to, refusing every request would only make things worse.
 */
export function admitted(inService: readonly Worker[]): readonly Worker[] {
  const closed = inService.filter((worker) => worker.breaker.admits);
  return closed.length > 0 ? closed : inService;
}
