import { CanopyError, messageOf } from "../../base/errors.ts";
import { TransportError } from "../../base/transport.ts";
import { errorEventStatus } from "./answer_stream.ts";
import type { RelayCall } from "./upstream_call.ts";
import { endsWithDone, isEventStream } from "../wire/answer_kind.ts";
import { EngineError } from "../worker/engine_error.ts";
import type { PlacementOutcome } from "../worker/placement.ts";

/** An answer longer than this is no mere error. */
const MAX_ABORT_BYTES = 4096;

/** Why an attempt counts as failed. */
export interface RelayFailure {
  /** The sentence for the client. */
  readonly error: CanopyError;
  readonly outcome: PlacementOutcome;
  /** True when another worker may do better. */
  readonly retryable: boolean;
  /** True when the worker's own answer is there and the client should see it (429, 503). */
  readonly deliverable: boolean;
  /** True when the worker cannot have seen the request: an idle close crossed it on a reused connection. */
  readonly unseen: boolean;
}

/** The failure of an attempt that gave no answer: the worker's time limit (504), all else 502. */
export function failureOfError(call: RelayCall, error: unknown): RelayFailure {
  const broken = error instanceof TransportError;
  return {
    error: workerError(call, "did not answer", "worker_unreachable", error),
    outcome: "failed",
    retryable: broken,
    deliverable: false,
    unseen: broken && error.code === "reset_before_head" && error.reusedSocket,
  };
}

/**
 * The failure in an answer; undefined for one that the client should have: 2xx, and 4xx that blames the request.
 * The credentials that a worker refuses are ours, and where it redirects to is no address for a client.
 */
export function failureOfAnswer(call: RelayCall, path: string): RelayFailure | undefined {
  const { status, headers } = call.response;
  if (status === 401 || status === 403) {
    const what = `refused our credentials (status ${status}): check the api_key of its model`;
    return badAnswer(call, what, status, "worker_unauthorized");
  }
  if (status >= 300 && status < 400) {
    return badAnswer(call, `redirected ${path} (status ${status}): configure the URL it leads to`, status);
  }
  if (status === 429 || status === 503) {
    const failure = badAnswer(call, `answered ${path} with status ${status}`, status);
    return { ...failure, outcome: "rejected", deliverable: true };
  }
  if (status >= 500) {
    if (isOwnAbort(call.first)) return undefined;
    return badAnswer(call, `answered ${path} with status ${status}`, status);
  }
  if (!isEventStream(headers) || !endsWithDone(status, path)) return undefined;
  if (call.first === undefined) return badAnswer(call, "ended its stream without a single event", status);
  const inner = errorEventStatus(call.first);
  if (inner === undefined || inner < 500 || isOwnAbort(call.first)) return undefined;
  return badAnswer(call, `began its stream with an error of status ${inner}`, inner);
}

/** The error for an answer that broke after its first chunk. */
export function brokenAnswer(call: RelayCall, error: unknown): CanopyError {
  return workerError(call, "broke off in the middle of its answer", "worker_broke_off", error);
}

/** SGLang's word for a request that a client has called off by its id: nobody wants it again. */
function isOwnAbort(first: Uint8Array | undefined): boolean {
  return first !== undefined && first.length < MAX_ABORT_BYTES &&
    new TextDecoder().decode(first).includes("Aborted by AbortReq");
}

function badAnswer(
  call: RelayCall,
  what: string,
  workerStatus: number,
  code = "worker_failed",
): RelayFailure {
  const error = new EngineError(`${call.worker} ${what}`, {
    code,
    status: 502,
    workerUrl: call.url,
    workerStatus,
    retryable: true,
  });
  return { error, outcome: "failed", retryable: true, deliverable: false, unseen: false };
}

function workerError(call: RelayCall, what: string, code: string, error: unknown): CanopyError {
  if (CanopyError.is(error)) return error;
  const reason = error instanceof TransportError ? error.code.replaceAll("_", " ") : messageOf(error);
  return new EngineError(`${call.worker} ${what}: ${reason}`, {
    code,
    status: 502,
    workerUrl: call.url,
    retryable: code === "worker_unreachable",
    cause: error,
  });
}
