import { type CanopyError, messageOf } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import type { Lease } from "../pool/lease.ts";
import { EngineError } from "../worker/engine_error.ts";
import { isHandOffFailure } from "../worker/pair_call.ts";
import type { PlacementOutcome } from "../worker/placement.ts";
import type { UpstreamCall } from "../worker/upstream_call.ts";
import { cacheReportIn } from "./cache_report.ts";
import type { RequestIds } from "./request_ids.ts";

/** An attempt under way. */
export interface Tried {
  readonly call: UpstreamCall;
  readonly lease: Lease;
  readonly ids: RequestIds | undefined;
  /** What came first of its answer. */
  readonly first?: Uint8Array | undefined;
  /** Its ids are nobody's any more. */
  readonly forget: () => void;
}

/** Gives a place back; of a pair, a failure counts against the half it came from, or both if they failed to meet. */
export function release({ call, lease, first, forget }: Tried, outcome: PlacementOutcome): void {
  forget();
  const { half } = call;
  if (outcome === "failed" && half !== undefined) {
    const both = first !== undefined && isHandOffFailure(new TextDecoder().decode(first));
    if (both || half === "prefill") lease.release("failed", "prefill");
    if (both || half === "decode") lease.release("failed", "decode");
  }
  lease.release(outcome);
}

/** Tells the policy what the engine says at the end of an answer. */
export function noteCached({ lease }: Tried, last: Uint8Array): void {
  const found = cacheReportIn(last);
  if (found !== undefined) lease.promptRead(found);
}

/** Logs a failure that the client is told of. */
export function logFailure(log: Logger, requestId: string, error: CanopyError): void {
  log.warning("Request {request} failed: {error}{where}", {
    request: requestId,
    error: error.message,
    where: error instanceof EngineError ? ` (${error.workerUrl})` : "",
    ...(error.cause === undefined ? {} : { cause: messageOf(error.cause) }),
  });
}
