import type { StopSignal } from "../../base/stop_signal.ts";
import { joined } from "../../base/bytes.ts";
import { allRewrites } from "./answer_rewrite.ts";
import type { Clock } from "../../base/clock.ts";
import { CanopyError } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import type { Random } from "../../base/random.ts";
import { turnByTurn } from "../../base/turns.ts";
import type { IncomingResponse, Transport } from "../../base/transport.ts";
import type { Arrivals } from "../pool/arrivals.ts";
import { AttemptBudget } from "../pool/attempt_budget.ts";
import type { Lease, LeaseHint } from "../pool/lease.ts";
import type { PromptPrefix } from "../pool/prompt_prefix.ts";
import { AnswerBody } from "./answer_body.ts";
import { attemptCall, type AttemptOptions } from "./attempt_call.ts";
import { hedged } from "./hedge.ts";
import { type LiveRid, LiveRids } from "./live_rids.ts";
import { PassedAnswer } from "./passed_answer.ts";
import { isRefusalStatus, MAX_REFUSAL_BYTES, refusalBody } from "./refusal_body.ts";
import type { Relay, RelayAnswer, RelayRequest, RelayRetries, RetriedRequest } from "./relay_types.ts";
import { LONG_BODY, RequestPlan } from "./request_plan.ts";
import type { ServedModel } from "../served/served_model.ts";
import { logFailure, noteCached, release, type Tried } from "./tried.ts";
import { errorBodyAt } from "../wire/error_form.ts";
import { endsWithDone, isEventStream, isWhole } from "../wire/answer_kind.ts";
import { forwardedHeaders, returnedHeaders } from "../wire/headers.ts";
import { applyEdits, applyEditsInTurns, type Edit } from "../wire/splice_json.ts";
import {
  answerFailure,
  type AttemptFailure,
  callFailure,
  errorEventStatus,
} from "../worker/answer_failure.ts";
import type { PlacementOutcome } from "../worker/placement.ts";
import type { UpstreamCall } from "../worker/upstream_call.ts";

/** A JSON answer longer than this keeps the engine's own model name. */
const MAX_RENAMED_BYTES = 64 * 1024 * 1024;
/** Clients and load balancers that want one worker for one key say so here (SGLang's bench client sends it). */
const STICKY_HEADER = "x-smg-routing-key";

/** A pair whose last hand-off is so long ago may have lost what its servers share. */
const IDLE_PAIR_MS = 60_000;

/** Options of `createRelay`. */
export interface RelayOptions {
  readonly clock: Clock;
  readonly random: Random;
  readonly transport: Transport;
  readonly log: Logger;
  readonly retries?: RelayRetries | undefined;
  /** Shared with the runs: requests wait in the order in which they reach the router. */
  readonly arrivals: Arrivals;
}

const encoder = new TextEncoder();

/** One request of a client, over all its attempts. */
interface Job {
  readonly model: ServedModel;
  readonly request: RelayRequest;
  readonly plan: RequestPlan;
  readonly prompt: PromptPrefix | undefined;
  readonly requestId: string;
  /** The headers that all attempts carry. */
  readonly headers: Readonly<Record<string, string>>;
  readonly signal: StopSignal;
}

/** An attempt whose answer the client should have. */
interface Answered extends Tried {
  readonly response: IncomingResponse;
  /** Chunks that were taken from the call. */
  readonly read: readonly Uint8Array[];
  /** True when `read` is the whole body. */
  readonly whole: boolean;
  readonly failure?: undefined;
}

/** An attempt that another one should follow. */
interface Failed extends Tried {
  /** Undefined when nothing came. */
  readonly response?: IncomingResponse;
  readonly failure: AttemptFailure;
}

/** What another attempt is to be like. */
interface Again {
  /** Attempts after the first one, from 0. */
  readonly retry: number;
  readonly hint: LeaseHint;
  readonly budget: AttemptBudget;
}

/** Makes the relay for engine models. */
export function createRelay(options: RelayOptions): Relay {
  return new WorkerRelay(options);
}

class WorkerRelay implements Relay {
  readonly #options: RelayOptions;
  readonly #ids: Random;
  readonly #jitter: Random;
  readonly #attempts: AttemptOptions;
  readonly #live = new LiveRids();

  constructor(options: RelayOptions) {
    this.#options = options;
    const random = options.random.stream("relay");
    this.#ids = random.stream("relay/ids");
    this.#jitter = random.stream("relay/jitter");
    this.#attempts = { ...options, random: this.#ids };
  }

  async relay(model: ServedModel, request: RelayRequest, signal: StopSignal): Promise<RelayAnswer> {
    signal.throwIfAborted();
    const plan = request.body.length > LONG_BODY
      ? await turnByTurn(this.#options.clock, RequestPlan.inTurns(model, request), signal)
      : new RequestPlan(model, request);
    const requestId = request.headers["x-request-id"] ?? `req-${this.#ids.hex(24)}`;
    const headers = forwardedHeaders(request.headers, requestId);
    const { prompt } = plan;
    const job: Job = { model, request, plan, prompt, requestId, headers, signal };
    const hint: LeaseHint = {
      arrival: this.#options.arrivals.next(),
      priority: plan.priority,
      stickyKey: request.headers[STICKY_HEADER],
      prompt,
    };
    // Most requests need no second attempt.
    let budget: AttemptBudget | undefined;
    const { gate } = model.pool;
    let lease = gate.tryLease(hint) ?? await gate.lease(hint, signal);
    let mayResend = true;
    for (let retry = 0;; retry++) {
      let attempt = await this.#tryHedged(job, lease, hint);
      if (attempt.failure?.unseen === true && mayResend) {
        mayResend = false;
        attempt = await this.#try(job, attempt.lease);
      }
      if (attempt.failure === undefined) return this.#answer(job, attempt, {});
      const { failure } = attempt;
      budget ??= new AttemptBudget(model.config.retries);
      const goesOn = failure.retryable && budget.failed(attempt.lease, { unsent: failure.unsent === true });
      const next = goesOn ? await this.#placeAgain(job, attempt, { retry, hint, budget }) : undefined;
      if (next === undefined) {
        if (failure.retryable) this.#options.retries?.exhausted(retriedOf(job, attempt));
        return this.#fail(job, attempt, retry > 0);
      }
      this.#options.log.info("Request {request} goes to {worker}: {error}", {
        request: requestId,
        worker: next.workerId,
        error: failure.error.message,
      });
      await attempt.call.drop();
      lease = next;
    }
  }

  liveRids(rid: string, owned: (owner: string | undefined) => boolean): readonly LiveRid[] {
    return this.#live.find(rid, owned);
  }

  /**
   * Gives the place of a failed attempt back and, after a pause in which it holds none, takes another: of a worker that
   * has not failed, else of any other, else of the same. Undefined when nobody is left to ask.
   */
  async #placeAgain(job: Job, attempt: Failed, { retry, hint, budget }: Again): Promise<Lease | undefined> {
    const { call, failure } = attempt;
    if (!failure.deliverable) await call.drop();
    release(attempt, failure.outcome);
    try {
      const pauseMs = await this.#backOff(job, retry);
      while (true) {
        try {
          const lease = await job.model.pool.gate.lease({ ...hint, exclude: budget.avoided }, job.signal);
          this.#options.retries?.retried(retriedOf(job, attempt), pauseMs);
          return lease;
        } catch (error) {
          const isNobody = !job.signal.aborted && CanopyError.is(error) && error.code === "no_worker";
          if (!isNobody) throw error;
          if (!budget.readmit(failure.passing)) return undefined;
        }
      }
    } catch (error) {
      await call.drop();
      throw error;
    }
  }

  /**
   * Sends one attempt; where it is asked for, and a pair that has been idle for long is slow to answer, another one
   * beside it, with a room of its own and elsewhere if there is another pair. The first answer counts.
   */
  #tryHedged(job: Job, lease: Lease, hint: LeaseHint): Promise<Answered | Failed> {
    const { hedge_idle_pair_ms: afterMs } = job.model.config;
    const { prefill, idleMs = 0 } = lease;
    if (afterMs === undefined || prefill === undefined || !job.plan.paired || idleMs < IDLE_PAIR_MS) {
      return this.#try(job, lease);
    }
    return hedged<Answered | Failed>({
      clock: this.#options.clock,
      afterMs,
      signal: job.signal,
      first: (signal) => this.#try({ ...job, signal }, lease),
      second: (signal) => {
        const exclude = new Set([lease.workerId, prefill.workerId]);
        try {
          return this.#try({ ...job, signal }, job.model.pool.gate.leaseNow({ ...hint, exclude }));
        } catch {
          return undefined;
        }
      },
      isGood: ({ failure }) => failure === undefined,
      discard: (attempt) => {
        void attempt.call.stop(new Error("Another attempt is the answer"));
        release(attempt, attempt.failure?.outcome ?? "aborted");
      },
    });
  }

  /** Sends one attempt. Rejects with the client's reason, all released and the worker told, when the client goes. */
  async #try(job: Job, lease: Lease): Promise<Answered | Failed> {
    const { request: { owner, body }, plan, model } = job;
    const { edits, prefillEdits, ids } = plan.attempt(this.#ids, lease, model.engine.capabilities.version);
    const bytes = body.length > LONG_BODY ? await this.#edited(body, edits) : applyEdits(body, edits);
    const prefillBytes = prefillEdits && await this.#edited(body, prefillEdits);
    const call = attemptCall(this.#attempts, job, lease, { bytes, prefillBytes, ids });
    const known = ids === undefined ? [] : plan.knownRids(ids);
    const forget = this.#live.add({ model: model.name, owner }, known);
    const onGone = () => void call.stop(job.signal.reason);
    job.signal.addEventListener("abort", onGone, { once: true });
    // For as long as the place is held: a stream that has begun ends with this error.
    lease.onLost?.(stopperOf(call));
    try {
      if (job.signal.aborted) throw job.signal.reason;
      const response = await call.open();
      const { first } = call;
      call.gotToken();
      const failure = answerFailure({
        worker: call.worker,
        response,
        first,
        model: model.config.model,
      }, job.request.path);
      if (failure !== undefined) return { call, lease, ids, forget, response, first, failure };
      if (response.status < 400) lease.promptRead();
      const read: Uint8Array[] = [];
      let whole = first === undefined;
      if (first !== undefined && call.whole && !isEventStream(response.headers)) {
        read.push(first);
        whole = true;
      } else if (first !== undefined) whole = await readWhole(job, call, { response, first, read });
      return { call, lease, ids, forget, response, first, read, whole };
    } catch (error) {
      if (!job.signal.aborted) {
        return { call, lease, ids, forget, failure: callFailure(call.worker, error) };
      }
      await call.stop(job.signal.reason);
      forget();
      lease.release("aborted");
      throw job.signal.reason;
    } finally {
      job.signal.removeEventListener("abort", onGone);
    }
  }

  #edited(body: Uint8Array, edits: readonly Edit[]): Promise<Uint8Array> {
    return turnByTurn(this.#options.clock, applyEditsInTurns(body, edits));
  }

  /** The worker's answer as the client gets it. */
  #answer(
    job: Job,
    attempt: Answered,
    extraHeaders: Readonly<Record<string, string>>,
  ): RelayAnswer {
    const { call, read, whole } = attempt;
    const { requestId, signal, plan, request } = job;
    const { status, headers: workerHeaders } = attempt.response;
    const headers = Object.assign(returnedHeaders(workerHeaders, requestId), extraHeaders);
    const wellEnded: PlacementOutcome = status < 400 ? "ok" : "rejected";
    const rewrite = request.rewrite === undefined && !plan.rewrites
      ? undefined
      : allRewrites([request.rewrite, plan.rewrite(attempt.ids)].filter((one) => one !== undefined));
    if (whole) {
      call.complete();
      void call.close();
      release(attempt, wellEnded);
      const body = read.length === 0 ? undefined : joined(read);
      if (body !== undefined) noteCached(attempt, body);
      if (body !== undefined && isRefusalStatus(status)) {
        headers["content-type"] = "application/json";
        const told = refusalBody(call.worker, { status, path: request.path }, body);
        return { status, headers, body: unshared(rewrite?.answer(told) ?? told) };
      }
      return { status, headers, body: body && unshared(rewrite?.answer(body) ?? body) };
    }
    // What follows lasts as long as the answer, and keeps nothing of the prompt.
    job.prompt?.release();
    const isEvents = isEventStream(workerHeaders);
    const owner = new PassedAnswer(attempt, {
      path: request.path,
      requestId,
      wellEnded,
      isRefused: isEvents && (errorEventStatus(attempt.first) ?? 500) < 500,
      log: this.#options.log,
    });
    const events = isEvents ? { endsWithDone: endsWithDone(status, request.path), rewrite } : undefined;
    const body = new AnswerBody({ call, read, events, signal, owner });
    return { status, headers, body };
  }

  /** The end of a request that no worker could serve. */
  async #fail(job: Job, attempt: Failed, retried: boolean): Promise<RelayAnswer> {
    const { call, response, failure } = attempt;
    const gaveUp = failure.retryable ? failure.deliverable ? "full" : "failed" : undefined;
    // A client that retries, too, would multiply our attempts.
    const extra: Record<string, string> = retried ? { "x-should-retry": "false" } : {};
    if (failure.deliverable && response !== undefined) {
      const answered = await this.#readRefusal(job, { ...attempt, response });
      const retryAfter = response.headers["retry-after"] ?? "1";
      if (answered !== undefined) {
        return { ...this.#answer(job, answered, { "retry-after": retryAfter, ...extra }), gaveUp };
      }
    }
    await call.drop();
    release(attempt, failure.outcome);
    logFailure(this.#options.log, job.requestId, failure.error);
    const headers = { "content-type": "application/json", "x-request-id": job.requestId, ...extra };
    const { status } = failure.error;
    const body = JSON.stringify(errorBodyAt(job.request.path, failure.error));
    return { status, headers, body: encoder.encode(body), gaveUp };
  }

  /** Reads the body of a refusal; undefined when it breaks off. Rejects as `#try` does when the client goes. */
  async #readRefusal(
    job: Job,
    attempt: Tried & { readonly response: IncomingResponse },
  ): Promise<Answered | undefined> {
    const { call, response, first } = attempt;
    const onGone = () => void call.stop(job.signal.reason);
    job.signal.addEventListener("abort", onGone, { once: true });
    try {
      const read: Uint8Array[] = [];
      const whole = first === undefined || await readWhole(job, call, { response, first, read });
      return { ...attempt, read, whole, failure: undefined };
    } catch {
      if (!job.signal.aborted) return undefined;
      await call.stop(job.signal.reason);
      release(attempt, "aborted");
      throw job.signal.reason;
    } finally {
      job.signal.removeEventListener("abort", onGone);
    }
  }

  /** Waits before another attempt; gives the pause in ms. */
  async #backOff({ model, signal }: Job, retry: number): Promise<number> {
    const { initial_ms, factor, max_ms, jitter } = model.config.backoff;
    const pauseMs = Math.min(max_ms, initial_ms * factor ** retry) *
      (1 + jitter * (2 * this.#jitter.next() - 1));
    await this.#options.clock.sleep(pauseMs, signal);
    return pauseMs;
  }
}

function retriedOf({ request: { path } }: Job, { call, lease }: Failed): RetriedRequest {
  return { path, side: call.half ?? (lease.prefill === undefined ? "regular" : "decode") };
}

/** Stops a call; made here, where nothing is near that it would keep alive as long as the place is held. */
function stopperOf(call: UpstreamCall): (error: unknown) => void {
  return (error) => void call.stop(error);
}

/**
 * Reads the rest of a body that is needed whole (to rename its model), or is there whole; false when the body is
 * to be passed on while it arrives. Rejects when it breaks: nothing has reached the client by then.
 */
async function readWhole(
  job: Job,
  call: UpstreamCall,
  { response: { status, headers }, first, read }: {
    response: IncomingResponse;
    first: Uint8Array;
    read: Uint8Array[];
  },
): Promise<boolean> {
  if (isEventStream(headers)) return false;
  if (isWhole(headers, first)) {
    read.push(first);
    await call.next();
    // Let the connection end well; should it break now, the answer is there all the same.
    await call.next().catch(() => undefined);
    job.signal.throwIfAborted();
    return true;
  }
  const refused = isRefusalStatus(status);
  if (!refused && !job.plan.rewrites && job.request.rewrite === undefined) return false;
  for (let length = 0; length <= (refused ? MAX_REFUSAL_BYTES : MAX_RENAMED_BYTES);) {
    const { done, value } = await call.next();
    if (done === true) return true;
    read.push(value);
    length += value.length;
  }
  return false;
}

/** Bytes as `Response` wants them: no transport gives shared memory, and to ask for their buffer makes one. */
function unshared(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  return bytes as Uint8Array<ArrayBuffer>;
}
