import { deadlineSignal } from "../../../base/clock.ts";
import { CanopyError, messageOf } from "../../../base/errors.ts";
import { readText } from "../../../base/read_body.ts";
import type { Call } from "../gate/context.ts";
import type { HttpServices } from "../gate/services.ts";
import type { WorkerStatus } from "../../pool/worker.ts";
import type { ServedModel } from "../../served/served_model.ts";
import { workerUrl } from "../../worker/worker_access.ts";

/** Longest answer that is read. */
const MAX_ANSWER_BYTES = 4 * 1024 * 1024;
/** Requests to workers that run at once. */
const AT_ONCE = 32;

/** One worker of one model. */
export interface FanOutTarget {
  readonly model: ServedModel;
  readonly worker: WorkerStatus;
}

/** One worker's answer; status 0: it did not answer, and `text` says why. */
export interface WorkerAnswer extends FanOutTarget {
  readonly status: number;
  readonly text: string;
}

/** A question to each of several workers. */
export interface WorkerQuery {
  readonly method: "GET" | "POST";
  readonly path: string;
  readonly body?: string;
  readonly limitMs: number;
}

/** The request that a question to workers is asked for. */
export interface Asker {
  readonly call: Call;
  /** Ends the asking; by default when the client leaves. */
  readonly signal?: AbortSignal | undefined;
}

/**
 * Asks all workers, some at a time, with the client's credentials where the router has no key for them; in the order of
 * `targets`. Rejects only with the signal's reason.
 */
export async function askWorkers(
  http: HttpServices,
  targets: readonly FanOutTarget[],
  question: WorkerQuery,
  asker: Asker,
): Promise<WorkerAnswer[]> {
  const answers: WorkerAnswer[] = [];
  for (let from = 0; from < targets.length; from += AT_ONCE) {
    const group = targets.slice(from, from + AT_ONCE);
    answers.push(...await Promise.all(group.map((target) => ask(http, target, question, asker))));
  }
  return answers;
}

async function ask(
  http: HttpServices,
  target: FanOutTarget,
  question: WorkerQuery,
  { call, signal = call.req.raw.signal }: Asker,
): Promise<WorkerAnswer> {
  const { model, worker } = target;
  const { method, path, body, limitMs } = question;
  const { authorization } = http.keys.forWorkers(call.req.header("authorization")) ?? {};
  const late = new Error(`it did not answer ${path} within ${limitMs} ms`);
  const deadline = deadlineSignal(http.clock, limitMs, late, signal);
  try {
    const response = await http.transport.send({
      method,
      url: workerUrl(worker.url, path),
      lane: "control",
      headers: {
        ...(authorization === undefined ? {} : { authorization }),
        ...model.pool.headers?.(worker.id),
        "accept-encoding": "identity",
        ...(body === undefined ? {} : { "content-type": "application/json" }),
      },
      body,
      connectTimeoutMs: model.config.connect_timeout_ms,
    }, deadline.signal);
    const text = await readText(response.body, MAX_ANSWER_BYTES, "its answer");
    return { ...target, status: response.status, text };
  } catch (error) {
    signal.throwIfAborted();
    return { ...target, status: 0, text: messageOf(error) };
  } finally {
    deadline.release();
  }
}

/** All servers, prefill ones first, as SGLang's routers have it. */
export function workersToAsk(models: readonly ServedModel[]): FanOutTarget[] {
  const all = models.flatMap((model) =>
    // Of a server with ranks, one: it answers for all.
    model.pool.workers().filter(({ rank }) => rank === undefined || rank.index === 0)
      .map((worker) => ({ model, worker }))
  );
  return [
    ...all.filter(({ worker }) => worker.role === "prefill"),
    ...all.filter(({ worker }) => worker.role !== "prefill"),
  ];
}

/** True for an answer of a status of success. */
export function isGood({ status }: WorkerAnswer): boolean {
  return status >= 200 && status < 300;
}

/** The 502 when none of the servers has answered. */
export function unanswered(answers: readonly WorkerAnswer[]): CanopyError {
  const whom = answers.length === 0
    ? "there are no workers"
    : answers.map(({ worker, status }) => `${worker.id} (${status === 0 ? "no answer" : `status ${status}`})`)
      .join("; ");
  return new CanopyError(`Cannot ask the servers: ${whom}`, { code: "worker_failed", status: 502 });
}
