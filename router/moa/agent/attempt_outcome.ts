import { EngineError } from "../../worker/engine_error.ts";
import type { Placement, PlacementOutcome } from "../../worker/placement.ts";

/** The error of a generation that ended without its last event. */
export function unfinishedError(placement: Placement): EngineError {
  return new EngineError(`Worker ${placement.workerId} ended its stream without a finish reason`, {
    code: "stream_truncated",
    status: 502,
    workerUrl: placement.url,
    retryable: true,
  });
}

/** The outcome of a failed attempt: does it count against the worker, or is it an answer to this request alone? */
export function attemptOutcome(error: unknown): PlacementOutcome {
  const status = error instanceof EngineError ? error.workerStatus : undefined;
  return status !== undefined && (status < 500 || status === 503) ? "rejected" : "failed";
}

/** True for a 4xx that may be about a field that the router has added. */
export function isRefused(error: unknown): boolean {
  return error instanceof EngineError && (error.workerStatus === 400 || error.workerStatus === 422);
}
