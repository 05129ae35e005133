import { CanopyError, messageOf } from "../../base/errors.ts";
import { type IncomingResponse, TransportError } from "../../base/transport.ts";
import type { CalledWorker } from "./upstream_call.ts";
import { EngineError } from "./engine_error.ts";
import type { PlacementOutcome } from "./placement.ts";
import { endsWithDone, isEventStream } from "../wire/answer_kind.ts";
import { isEmptyTextEvent, isErrorEvent } from "../wire/event_frames.ts";

/** An answer longer than this is no mere error. */
const MAX_ABORT_BYTES = 4096;

/** The beginning of a worker's answer. */
export interface Answer {
  readonly worker: CalledWorker;
  readonly response: IncomingResponse;
  /** Undefined for an empty body. */
  readonly first: Uint8Array | undefined;
  /** The name under which the worker should know the model; absent where nobody has configured it. */
  readonly model?: string | undefined;
}

/** An attempt that counts as failed. */
export interface AttemptFailure {
  /** The sentence for the client. */
  readonly error: CanopyError;
  readonly outcome: PlacementOutcome;
  /** True when another worker may do better. */
  readonly retryable: boolean;
  /** True when the worker's own answer is there and the client should see it (429, 503). */
  readonly deliverable: boolean;
  /** True when the worker cannot have seen the request: an idle close crossed it on a reused connection. */
  readonly unseen: boolean;
  /** True when the worker itself may do better in a moment; it is asked again only where there is no other. */
  readonly passing: boolean;
  /** True when no connection could be made: nothing was sent, and the request is not to blame. */
  readonly unsent?: boolean | undefined;
}

/** The failure of an attempt that gave no answer: the worker's time limit (504), all else 502. */
export function callFailure(worker: CalledWorker, error: unknown): AttemptFailure {
  const broken = error instanceof TransportError;
  return {
    error: workerError(worker, "did not answer", "worker_unreachable", error),
    outcome: "failed",
    retryable: broken || isLost(error),
    passing: true,
    deliverable: false,
    unseen: broken && error.code === "reset_before_head" && error.reusedSocket,
    unsent: broken && error.code === "connect_failed",
  };
}

/**
 * The failure in an answer; undefined for one that the client should have: 2xx, and 4xx that blames the request.
 * The credentials that a worker refuses are ours, unless they are the client's, and where it redirects to is no address for a client. Without a
 * `path` the answer is a generation's.
 */
export function answerFailure(answer: Answer, path = "/generate"): AttemptFailure | undefined {
  const { response: { status, headers }, first } = answer;
  if ((status === 401 || status === 403) && answer.worker.clientsKey !== true) {
    const what = `refused our credentials (status ${status}): check the api_key of its model`;
    return badAnswer(answer, what, status, "worker_unauthorized");
  }
  if (status >= 300 && status < 400) {
    return badAnswer(answer, `redirected ${path} (status ${status}): configure the URL it leads to`, status);
  }
  if (lacksModel(answer)) {
    return badAnswer(answer, `does not serve "${answer.model}": it was started with another model`, status);
  }
  if (status === 429 || status === 503) {
    const failure = badAnswer(answer, `answered ${path} with status ${status}`, status);
    return { ...failure, outcome: "rejected", deliverable: true };
  }
  if (status >= 500) {
    if (isOwnAbort(first)) return undefined;
    return badAnswer(answer, `answered ${path} with status ${status}`, status);
  }
  if (!isEventStream(headers) || !endsWithDone(status, path)) return undefined;
  if (first === undefined) return badAnswer(answer, "ended its stream without a single event", status);
  const inner = errorEventStatus(first);
  if (inner === undefined || inner < 500 || isOwnAbort(first)) return undefined;
  return badAnswer(answer, `began its stream with an error of status ${inner}`, inner);
}

/** The error for an answer that broke after its first chunk. */
export function brokenAnswer(worker: CalledWorker, error: unknown): CanopyError {
  return workerError(worker, "broke off in the middle of its answer", "worker_broke_off", error);
}

/**
 * The status inside a first event that is an error. SGLang and vLLM send such events under HTTP 200; SGLang's
 * `/generate` also says that it gave a request up by an event of the ordinary form, whose status is then not 0.
 */
export function errorEventStatus(events: Uint8Array | undefined): number | undefined {
  if (events === undefined) return undefined;
  const isError = isErrorEvent(events);
  if (!isError && !isEmptyTextEvent(events)) return undefined;
  const end = events.indexOf(0x0a);
  let event: unknown;
  try {
    event = JSON.parse(new TextDecoder().decode(events.subarray(5, end < 0 ? undefined : end)));
  } catch {
    return undefined;
  }
  if (isError) {
    const code = member(member(event, "error"), "code");
    return typeof code === "number" ? code : 500;
  }
  const finish = member(member(event, "meta_info"), "finish_reason");
  const status = member(finish, "status_code");
  return member(finish, "type") === "abort" && typeof status === "number" ? status : undefined;
}

/** True for a worker that was taken out of service: it says nothing about the request. */
function isLost(error: unknown): boolean {
  return error instanceof EngineError && error.code === "worker_lost";
}

/** True for a 404 that says that there is no such model, of a worker that is there for it: another process serves there. */
function lacksModel({ response: { status }, first, model }: Answer): boolean {
  if (status !== 404 || first === undefined || model === undefined || first.length > MAX_ABORT_BYTES) {
    return false;
  }
  const text = new TextDecoder().decode(first);
  const named = ["`", "'", '\\"'].some((quote) => text.includes(quote + model + quote));
  return named && /does not exist|not found/i.test(text);
}

/** SGLang's word for a request that a client has called off by its id: nobody wants it again. */
function isOwnAbort(first: Uint8Array | undefined): boolean {
  return first !== undefined && first.length < MAX_ABORT_BYTES &&
    new TextDecoder().decode(first).includes("Aborted by AbortReq");
}

function badAnswer(
  { worker }: Answer,
  what: string,
  workerStatus: number,
  code = "worker_failed",
): AttemptFailure {
  const error = new EngineError(`${workerName(worker)} ${what}`, {
    code,
    status: 502,
    workerUrl: worker.url,
    workerStatus,
    retryable: true,
  });
  // It refuses our key, redirects, or has another model: somebody has to mend that.
  const passing = workerStatus >= 500 || workerStatus === 429;
  return { error, outcome: "failed", retryable: true, passing, deliverable: false, unseen: false };
}

function workerError(worker: CalledWorker, what: string, code: string, error: unknown): CanopyError {
  if (CanopyError.is(error)) return error;
  const reason = error instanceof TransportError ? error.code.replaceAll("_", " ") : messageOf(error);
  return new EngineError(`${workerName(worker)} ${what}: ${reason}`, {
    code,
    status: 502,
    workerUrl: worker.url,
    retryable: code === "worker_unreachable",
    cause: error,
  });
}

/** The name of a worker in the relay's errors. */
export function workerName({ workerId }: CalledWorker): string {
  return `Worker ${workerId}`;
}

function member(value: unknown, name: string): unknown {
  return typeof value === "object" && value !== null ? Reflect.get(value, name) : undefined;
}
