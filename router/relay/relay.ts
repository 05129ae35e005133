import { joined } from "../../base/bytes.ts";
import type { Clock } from "../../base/clock.ts";
import { CanopyError, messageOf } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import type { Random } from "../../base/random.ts";
import type { Transport } from "../../base/transport.ts";
import type { Arrivals } from "../pool/arrivals.ts";
import type { Lease, LeaseHint } from "../pool/lease.ts";
import { answerStream, errorEventStatus, failureBody } from "./answer_stream.ts";
import { openableCall } from "./attempt_call.ts";
import { brokenAnswer, failureOfAnswer, failureOfError, type RelayFailure } from "./failures.ts";
import { ModelRename } from "./model_rename.ts";
import type { Relay, RelayRequest } from "./relay_types.ts";
import { RequestPlan } from "./request_plan.ts";
import type { RelayCall } from "./upstream_call.ts";
import type { ServedModel } from "../served/served_model.ts";
import { endsWithDone, isEventStream, isWhole } from "../wire/answer_kind.ts";
import { returnedHeaders } from "../wire/headers.ts";
import { isHandOffFailure } from "../worker/hand_off.ts";
import type { PlacementOutcome } from "../worker/placement.ts";

/** Back-off before the second attempt; each further one waits half as long again, all of them ±20 %. */
const BACKOFF_MS = 50;
const BACKOFF_FACTOR = 1.5;
const BACKOFF_JITTER = 0.2;
/** A JSON answer longer than this keeps the engine's own model name. */
const MAX_RENAMED_BYTES = 64 * 1024 * 1024;
/** Clients and load balancers that want one worker for one key say so here (SGLang's bench client sends it). */
const STICKY_HEADER = "x-smg-routing-key";

/** Options of `createRelay`. */
export interface RelayOptions {
  readonly clock: Clock;
  readonly random: Random;
  readonly transport: Transport;
  readonly log: Logger;
  /** Shared with the runs: requests wait in the order in which they reach the router. */
  readonly arrivals: Arrivals;
}

/** One request of a client, over all its attempts. */
interface Job {
  readonly model: ServedModel;
  readonly request: RelayRequest;
  readonly plan: RequestPlan;
  readonly requestId: string;
  readonly signal: AbortSignal;
}

/** One attempt, up to the point where the client could be answered. */
interface Attempt {
  readonly call: RelayCall;
  readonly lease: Lease;
  /** What was read of the body. */
  readonly read: readonly Uint8Array[];
  /** True when `read` is the whole body. */
  readonly whole: boolean;
  readonly failure: RelayFailure | undefined;
}

/** Makes the relay for engine models. */
export function createRelay(options: RelayOptions): Relay {
  return new WorkerRelay(options);
}

class WorkerRelay implements Relay {
  readonly #options: RelayOptions;
  readonly #ids: Random;
  readonly #jitter: Random;

  constructor(options: RelayOptions) {
    this.#options = options;
    this.#ids = options.random.stream("relay/ids");
    this.#jitter = options.random.stream("relay/jitter");
  }

  async relay(model: ServedModel, request: RelayRequest, signal: AbortSignal): Promise<Response> {
    signal.throwIfAborted();
    const plan = new RequestPlan(model, request);
    const requestId = request.headers["x-request-id"] ?? `req-${this.#ids.hex(24)}`;
    const job: Job = { model, request, plan, requestId, signal };
    const hint: LeaseHint = {
      arrival: this.#options.arrivals.next(),
      stickyKey: request.headers[STICKY_HEADER],
    };
    const exclude = new Set<string>();
    let lease = await model.pool.gate.lease(hint, signal);
    let mayResend = true;
    for (let retry = 0;; retry++) {
      let attempt = await this.#try(job, lease);
      if (attempt.failure?.unseen === true && mayResend) {
        mayResend = false;
        attempt = await this.#try(job, lease);
      }
      const { call, failure } = attempt;
      if (failure === undefined) return this.#answer(job, attempt, {});
      exclude.add(lease.workerId);
      if (lease.prefill !== undefined) exclude.add(lease.prefill.workerId);
      const next = failure.retryable && retry < model.config.retries
        ? await this.#placeAgain(job, attempt, failure, { ...hint, exclude })
        : undefined;
      if (next === undefined) return this.#fail(job, attempt, failure, retry > 0);
      this.#options.log.info("Request {request} goes to {worker}: {error}", {
        request: requestId,
        worker: next.workerId,
        error: failure.error.message,
      });
      call.close();
      lease = next;
      await this.#backOff(job, retry, lease);
    }
  }

  /** Gives the place of a failed attempt back and takes another; undefined when there is none but the ones that failed. */
  async #placeAgain(
    job: Job,
    attempt: Attempt,
    failure: RelayFailure,
    hint: LeaseHint,
  ): Promise<Lease | undefined> {
    release(attempt, failure.outcome);
    try {
      return await job.model.pool.gate.lease(hint, job.signal);
    } catch (error) {
      if (!job.signal.aborted && CanopyError.is(error) && error.code === "no_worker") return undefined;
      attempt.call.close();
      throw error;
    }
  }

  /** Sends one attempt. Rejects with the client's reason, all released and the worker told, when the client goes. */
  async #try(job: Job, lease: Lease): Promise<Attempt> {
    const call = openableCall({ ...this.#options, random: this.#ids }, job, lease);
    const onGone = () => void call.stop(job.signal.reason);
    job.signal.addEventListener("abort", onGone, { once: true });
    try {
      if (job.signal.aborted) throw job.signal.reason;
      await call.open();
      const failure = failureOfAnswer(call, job.request.path);
      const read = call.first === undefined ? [] : [call.first];
      const whole = read.length === 0 || (failure === undefined && await readWhole(job, call, read));
      lease.promptRead();
      return { call, lease, read, whole, failure };
    } catch (error) {
      if (!job.signal.aborted) {
        return { call, lease, read: [], whole: false, failure: failureOfError(call, error) };
      }
      await call.stop(job.signal.reason);
      lease.release("aborted");
      throw job.signal.reason;
    } finally {
      job.signal.removeEventListener("abort", onGone);
    }
  }

  /** The worker's answer as the client gets it. */
  #answer(job: Job, attempt: Attempt, extraHeaders: Readonly<Record<string, string>>): Response {
    const { call, read, whole } = attempt;
    const { status, headers: workerHeaders } = call.response;
    const headers = returnedHeaders(workerHeaders, job.requestId);
    for (const [name, value] of Object.entries(extraHeaders)) headers.set(name, value);
    const wellEnded: PlacementOutcome = status < 400 ? "ok" : "rejected";
    const { askedModel } = job.plan;
    const rename = askedModel === undefined ? undefined : new ModelRename(askedModel);
    if (whole) {
      release(attempt, wellEnded);
      if (read.length === 0) return new Response(null, { status, headers });
      const body = joined(read);
      return new Response(unshared(rename?.answer(body) ?? body), { status, headers });
    }
    const events = isEventStream(workerHeaders);
    const refused = events && (errorEventStatus(read[0]) ?? 500) < 500;
    const stream = answerStream({
      call,
      read,
      ...(events ? { events: { endsWithDone: endsWithDone(status, job.request.path), rename } } : {}),
      signal: job.signal,
      describe: (error) => this.#describe(job, call, error),
      onEnd: (outcome) => release(attempt, endOutcome(outcome, wellEnded, refused)),
    });
    return new Response(stream, { status, headers });
  }

  /** The end of a request that no worker could serve. */
  #fail(job: Job, attempt: Attempt, failure: RelayFailure, retried: boolean): Response {
    const { call } = attempt;
    // A client that retries, too, would multiply our attempts.
    const extra: Record<string, string> = retried ? { "x-should-retry": "false" } : {};
    if (failure.deliverable) {
      return this.#answer(job, attempt, {
        "retry-after": call.response.headers["retry-after"] ?? "1",
        ...extra,
      });
    }
    call.close();
    release(attempt, failure.outcome);
    this.#logFailure(job, failure.error);
    return new Response(failureBody(failure.error), {
      status: failure.error.status,
      headers: { "content-type": "application/json", "x-request-id": job.requestId, ...extra },
    });
  }

  #describe(job: Job, call: RelayCall, error: unknown): CanopyError {
    const described = brokenAnswer(call, error);
    this.#logFailure(job, described);
    return described;
  }

  #logFailure(job: Job, error: CanopyError): void {
    this.#options.log.warning("Request {request} failed: {error}", {
      request: job.requestId,
      error: error.message,
      ...(error.cause === undefined ? {} : { cause: messageOf(error.cause) }),
    });
  }

  async #backOff({ signal }: Job, retry: number, lease: Lease): Promise<void> {
    const jitter = 1 + BACKOFF_JITTER * (2 * this.#jitter.next() - 1);
    try {
      await this.#options.clock.sleep(BACKOFF_MS * BACKOFF_FACTOR ** retry * jitter, signal);
    } catch (error) {
      lease.release("aborted");
      throw error;
    }
  }
}

/** Gives a place back; of a pair, a failure counts against the half it came from, or both if they failed to meet. */
function release({ call, lease }: Attempt, outcome: PlacementOutcome): void {
  const { half } = call;
  if (outcome === "failed" && half !== undefined) {
    const both = call.first !== undefined && isHandOffFailure(new TextDecoder().decode(call.first));
    if (both || half === "prefill") lease.release("failed", "prefill");
    if (both || half === "decode") lease.release("failed", "decode");
  }
  lease.release(outcome);
}

/**
 * Reads the rest of a body that is needed whole (to rename its model), or is there whole; false when the body is
 * to be passed on while it arrives. Rejects when it breaks: nothing has reached the client by then.
 */
async function readWhole(job: Job, call: RelayCall, read: Uint8Array[]): Promise<boolean> {
  const { headers } = call.response;
  if (isEventStream(headers)) return false;
  if (read[0] !== undefined && isWhole(headers, read[0])) {
    // Let the connection end well; should it break now, the answer is there all the same.
    await call.read().catch(() => undefined);
    job.signal.throwIfAborted();
    return true;
  }
  if (job.plan.askedModel === undefined) return false;
  for (let length = read[0]?.length ?? 0; length <= MAX_RENAMED_BYTES;) {
    const chunk = await call.read();
    if (chunk === undefined) return true;
    read.push(chunk);
    length += chunk.length;
  }
  return false;
}

function endOutcome(
  outcome: PlacementOutcome,
  wellEnded: PlacementOutcome,
  refused: boolean,
): PlacementOutcome {
  if (outcome === "aborted") return "aborted";
  if (refused) return "rejected";
  return outcome === "ok" ? wellEnded : outcome;
}

/** Bytes whose buffer is not shared, as `Response` wants them; copied only if it is. */
function unshared(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  return bytes.buffer instanceof ArrayBuffer
    ? new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength)
    : new Uint8Array(bytes);
}
