import { joined } from "../../base/bytes.ts";
import type { Clock } from "../../base/clock.ts";
import { CanopyError, messageOf } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import type { Random } from "../../base/random.ts";
import type { Transport } from "../../base/transport.ts";
import { PlaceQueue } from "../pool/place_queue.ts";
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
import type { Placement, PlacementHint, PlacementOutcome } from "../worker/placement.ts";

/** Back-off before the second attempt; each further one waits half as long again, all of them ±20 %. */
const BACKOFF_MS = 50;
const BACKOFF_FACTOR = 1.5;
const BACKOFF_JITTER = 0.2;
/** A JSON answer longer than this keeps the engine's own model name. */
const MAX_RENAMED_BYTES = 64 * 1024 * 1024;
/** Clients and load balancers that want one worker for one key say so here (SGLang's bench client sends it). */
const STICKY_HEADER = "x-smg-routing-key";

/** What `createRelay` needs. */
export interface RelayOptions {
  readonly clock: Clock;
  readonly random: Random;
  readonly transport: Transport;
  readonly log: Logger;
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
  readonly placement: Placement;
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
  readonly #queues = new WeakMap<ServedModel, PlaceQueue>();

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
    const stickyKey = request.headers[STICKY_HEADER];
    const sticky = stickyKey === undefined ? {} : { stickyKey };
    const exclude = new Set<string>();
    let placement = await this.#queue(model).place(sticky, 0, signal);
    let mayResend = true;
    for (let retry = 0;; retry++) {
      let attempt = await this.#try(job, placement);
      if (attempt.failure?.unseen === true && mayResend) {
        mayResend = false;
        attempt = await this.#try(job, placement);
      }
      const { call, failure } = attempt;
      if (failure === undefined) return this.#answer(job, attempt, {});
      exclude.add(placement.workerId);
      if (placement.prefill !== undefined) exclude.add(placement.prefill.workerId);
      const next = failure.retryable && retry < model.config.retries
        ? await this.#placeAgain(job, attempt, failure, { ...sticky, exclude })
        : undefined;
      if (next === undefined) return this.#fail(job, attempt, failure, retry > 0);
      this.#options.log.info("Request {request} goes to {worker}: {error}", {
        request: requestId,
        worker: next.workerId,
        error: failure.error.message,
      });
      call.close();
      placement = next;
      await this.#backOff(job, retry, placement);
    }
  }

  /** Gives the place of a failed attempt back and takes another; undefined when there is none but the ones that failed. */
  async #placeAgain(
    job: Job,
    attempt: Attempt,
    failure: RelayFailure,
    hint: PlacementHint,
  ): Promise<Placement | undefined> {
    this.#release(job, attempt, failure.outcome);
    try {
      return await this.#queue(job.model).place(hint, 0, job.signal);
    } catch (error) {
      if (!job.signal.aborted && CanopyError.is(error) && error.code === "no_worker") return undefined;
      attempt.call.close();
      throw error;
    }
  }

  /** Sends one attempt. Rejects with the client's reason, all released and the worker told, when the client goes. */
  async #try(job: Job, placement: Placement): Promise<Attempt> {
    const call = openableCall({ ...this.#options, random: this.#ids }, job, placement);
    const onGone = () => void call.stop(job.signal.reason);
    job.signal.addEventListener("abort", onGone, { once: true });
    try {
      if (job.signal.aborted) throw job.signal.reason;
      await call.open();
      const failure = failureOfAnswer(call, job.request.path);
      const read = call.first === undefined ? [] : [call.first];
      const whole = read.length === 0 || (failure === undefined && await readWhole(job, call, read));
      return { call, placement, read, whole, failure };
    } catch (error) {
      if (!job.signal.aborted) {
        return { call, placement, read: [], whole: false, failure: failureOfError(call, error) };
      }
      await call.stop(job.signal.reason);
      this.#queue(job.model).release(placement, "aborted");
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
      this.#release(job, attempt, wellEnded);
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
      onEnd: (outcome) => this.#release(job, attempt, endOutcome(outcome, wellEnded, refused)),
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
    this.#release(job, attempt, failure.outcome);
    this.#logFailure(job, failure.error);
    return new Response(failureBody(failure.error), {
      status: failure.error.status,
      headers: { "content-type": "application/json", "x-request-id": job.requestId, ...extra },
    });
  }

  /** Gives a place back; of a pair, a failure counts against the half it came from, or both if they failed to meet. */
  #release({ model }: Job, { call, placement }: Attempt, outcome: PlacementOutcome): void {
    const { half } = call;
    if (outcome === "failed" && half !== undefined) {
      const both = call.first !== undefined && isHandOffFailure(new TextDecoder().decode(call.first));
      if (both || half === "prefill") placement.release("failed", "prefill");
      if (both || half === "decode") placement.release("failed", "decode");
    }
    this.#queue(model).release(placement, outcome);
  }

  /** Requests for which all workers are full wait in line; how many may, is the HTTP server's to bound. */
  #queue(model: ServedModel): PlaceQueue {
    let queue = this.#queues.get(model);
    if (queue === undefined) {
      queue = new PlaceQueue(model.pool, this.#options.clock);
      this.#queues.set(model, queue);
    }
    return queue;
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

  async #backOff({ model, signal }: Job, retry: number, placement: Placement): Promise<void> {
    const jitter = 1 + BACKOFF_JITTER * (2 * this.#jitter.next() - 1);
    try {
      await this.#options.clock.sleep(BACKOFF_MS * BACKOFF_FACTOR ** retry * jitter, signal);
    } catch (error) {
      this.#queue(model).release(placement, "aborted");
      throw error;
    }
  }
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
