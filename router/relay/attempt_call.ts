import type { Clock } from "../../base/clock.ts";
import { isJsonObject, type JsonObject } from "../../base/json.ts";
import type { Logger } from "../../base/log.ts";
import type { Random } from "../../base/random.ts";
import type { OutgoingRequest, Transport } from "../../base/transport.ts";
import { olderThan } from "../engines/version.ts";
import { type HandOff, HandOffCall } from "../engines/vllm/hand_off_call.ts";
import { chatTakesIds, type WholeRequest, withIds } from "../engines/vllm/vllm_pd_bodies.ts";
import { MergedCall } from "./merged_call.ts";
import type { RelayRequest } from "./relay_types.ts";
import type { RequestIds } from "./request_ids.ts";
import type { RequestPlan } from "./request_plan.ts";
import type { ServedModel } from "../served/served_model.ts";
import { applyEdits, readTopLevel, setMembers } from "../wire/splice_json.ts";
import { workerName } from "../worker/answer_failure.ts";
import type { CalledWorker, UpstreamCall } from "../worker/upstream_call.ts";
import { EngineError } from "../worker/engine_error.ts";
import { PairCall } from "../worker/pair_call.ts";
import type { Placement } from "../worker/placement.ts";
import { workerUrl } from "../worker/worker_access.ts";
import { type CallErrors, WorkerCall } from "../worker/worker_call.ts";

/** Options of all attempts. */
export interface AttemptOptions {
  readonly clock: Clock;
  readonly transport: Transport;
  readonly log: Logger;
  /** For request ids and rooms. */
  readonly random: Random;
}

/** A request on its way to a worker. */
export interface Sendable {
  readonly model: ServedModel;
  readonly request: RelayRequest;
  readonly plan: RequestPlan;
  readonly requestId: string;
  /** The client's headers that workers get, and the request's id. */
  readonly headers: Readonly<Record<string, string>>;
}

/** A relay says what broke by the worker's id, and looks at the connection's own error to see whether to try again. */
const relayErrors: CallErrors = {
  broken: (_worker, cause) => cause,
  overdue: (worker, limitMs, begun) =>
    new EngineError(
      `${workerName(worker)} ${
        begun ? "fell silent in the middle of its answer" : "sent nothing"
      } for ${limitMs} ms`,
      { code: "worker_timeout", status: 504, workerUrl: worker.url, retryable: false },
    ),
};

/** Target, body and time limit of a call, where they are not the plan's. */
interface Sending {
  readonly phase?: OutgoingRequest["phase"];
  readonly path?: string | undefined;
  readonly body?: OutgoingRequest["body"];
  readonly firstTokenDueMs?: number | undefined;
}

/** What one attempt sends. */
export interface AttemptBody {
  readonly bytes: Uint8Array;
  /** That for the prefill half, where it is another one. */
  readonly prefillBytes: Uint8Array | undefined;
  /** The ids under which SGLang will know it. */
  readonly ids: RequestIds | undefined;
}

/** One attempt at the place it was given: on a server, or on both servers of a pair. Nothing is sent yet. */
export function attemptCall(
  options: AttemptOptions,
  sendable: Sendable,
  placement: Placement,
  { bytes, prefillBytes, ids }: AttemptBody,
): UpstreamCall {
  const { model, request, plan, headers: forwarded } = sendable;
  const { prefill } = placement;
  const { config } = model;
  const rids = ids?.rids ?? [];
  const whole = request.path + (request.query ?? "");
  const callOf = (worker: CalledWorker, sending: Sending = {}): WorkerCall => {
    const { path = whole, body, phase, firstTokenDueMs } = sending;
    const { headers: workerHeaders, clientsKey } = accessTo(worker, sendable);
    return new WorkerCall({
      transport: options.transport,
      clock: options.clock,
      config,
      worker: { workerId: worker.workerId, url: worker.url, clientsKey },
      request: {
        method: request.method,
        url: workerUrl(worker.url, path),
        headers: joinedHeaders(forwarded, workerHeaders),
        body: request.method === "POST" ? body ?? bytes : undefined,
        phase,
        connectTimeoutMs: config.connect_timeout_ms,
      },
      abort: { rids, headers: workerHeaders },
      firstTokenDueMs,
      errors: relayErrors,
    });
  };
  if (prefill === undefined) return callOf(placement);
  if (config.engine === "vllm-pd" && request.method === "POST") {
    return handOffCall(options, sendable, placement, { bytes, callOf });
  }
  if (!plan.paired) {
    placement.release("aborted", "prefill");
    return callOf(placement);
  }
  const { version } = model.engine.capabilities;
  const pair = new PairCall({
    clock: options.clock,
    at: placement,
    prefill: callOf(prefill, { phase: "prefill", body: prefillBytes }),
    decode: callOf(placement, { phase: "decode" }),
    finishPrefill: version !== undefined && olderThan(version, "0.5.10"),
    keepPrefill: plan.needsPrefillLogprobs,
  });
  return plan.needsPrefillLogprobs ? new MergedCall(pair, request.path) : pair;
}

/** Those of a worker go before the client's; without any, both halves of a pair share the very same headers. */
function joinedHeaders(
  forwarded: Readonly<Record<string, string>>,
  own: Readonly<Record<string, string>>,
): Readonly<Record<string, string>> {
  for (const _name in own) return { ...forwarded, ...own };
  return forwarded;
}

/** The headers of a worker's own, or the client's credentials where the router has none for it. */
function accessTo(
  { workerId }: CalledWorker,
  { model, request: { credentials } }: Sendable,
): { headers: Readonly<Record<string, string>>; clientsKey: boolean } {
  const headers = model.pool.headers?.(workerId) ?? {};
  if (credentials === undefined || headers["authorization"] !== undefined) {
    return { headers, clientsKey: false };
  }
  const { authorization } = credentials;
  return { headers: authorization === undefined ? headers : { ...headers, authorization }, clientsKey: true };
}

/** A request to a pair of vLLM servers: decode gets the client's own bytes, with what it has to know spliced in. */
function handOffCall(
  { clock, log }: AttemptOptions,
  { model, request, requestId }: Sendable,
  at: Placement,
  { bytes, callOf }: { bytes: Uint8Array; callOf: (worker: CalledWorker, sending: Sending) => WorkerCall },
): HandOffCall {
  // One limit over all calls of the request.
  const firstTokenDueMs = clock.now() + model.config.first_token_timeout_ms;
  const { path } = request;
  return new HandOffCall({
    at,
    request: sharedRequest(path, bytes, model.engine.capabilities.version),
    call: (worker, path, body, sent = body) =>
      callOf(worker, { path, body: JSON.stringify(sent), phase: "prefill", firstTokenDueMs }),
    decode: (handOff) =>
      callOf(at, { body: decodeBytes(path, bytes, handOff), phase: "decode", firstTokenDueMs }),
    onAlone: (reason, failed) =>
      log[failed ? "warning" : "debug"]("{worker} reads the prompt of {request} by itself: {reason}", {
        worker: at.workerId,
        request: requestId,
        reason,
      }),
  });
}

/** The request, if both servers of a pair can share in it, or why not; its numbers are only looked at, never sent on. */
function sharedRequest(path: string, bytes: Uint8Array, version: string | undefined): WholeRequest | string {
  if (path !== "/v1/completions" && path !== "/v1/chat/completions") return "it is no generation";
  if (path === "/v1/chat/completions" && !chatTakesIds(version)) {
    return "chats need vLLM 0.28 or newer for a hand-off";
  }
  const body = parsed(bytes);
  return body === undefined ? "it is no JSON object" : { path, body };
}

/** Undefined for what the decode server will say what is wrong with. */
function parsed(bytes: Uint8Array): JsonObject | undefined {
  try {
    const body: unknown = JSON.parse(new TextDecoder().decode(bytes));
    return isJsonObject(body) ? body : undefined;
  } catch {
    return undefined;
  }
}

function decodeBytes(path: string, bytes: Uint8Array, handOff: HandOff): Uint8Array {
  if (handOff.kind === "alone") return bytes;
  const { ids, transfer } = handOff;
  const json = transfer.take();
  const top = readTopLevel(bytes, ["prompt", "kv_transfer_params"]);
  const members = path === "/v1/completions"
    ? { prompt: JSON.stringify(ids), kv_transfer_params: json }
    : { kv_transfer_params: withIds(json, ids) };
  return applyEdits(bytes, setMembers(top, members));
}
