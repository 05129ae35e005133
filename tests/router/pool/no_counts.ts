import type { WorkerStatus } from "../../../router/pool/worker.ts";

/** Counts of a worker that was never asked. */
export const NO_COUNTS: WorkerStatus["counts"] = {
  taken: 0,
  goodChecks: 0,
  badChecks: 0,
  goodInRow: 0,
  failedInRow: 0,
  transitions: new Map(),
};
