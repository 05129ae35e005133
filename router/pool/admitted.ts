import type { Worker } from "./worker.ts";

/**
 * Workers that were checked, as long as there are any; of those the ones that their breakers admit; all of them where no breaker does: a breaker steers work to other workers, and
 * with nowhere to steer to, refusing every request would only make things worse.
 */
export function admitted(inService: readonly Worker[]): readonly Worker[] {
  const proven = those(inService, isProven);
  const known = proven.length > 0 ? proven : inService;
  const closed = those(known, isAdmitting);
  return closed.length > 0 ? closed : known;
}

const isProven = (worker: Worker) => !worker.unproven;
const isAdmitting = (worker: Worker) => worker.breaker.admits;

/** As `workers.filter(isOne)`; the list itself where all are, as they mostly are: there are several for each request. */
export function those(workers: readonly Worker[], isOne: (worker: Worker) => boolean): readonly Worker[] {
  return workers.every(isOne) ? workers : workers.filter(isOne);
}
