import type { Clock } from "../../base/clock.ts";
import type { Logger } from "../../base/log.ts";
import type { Random } from "../../base/random.ts";
import type { Transport } from "../../base/transport.ts";
import { olderThan } from "../engines/version.ts";
import { MergedCall } from "./merged_call.ts";
import { PairCall } from "./pair_call.ts";
import type { RelayRequest } from "./relay_types.ts";
import type { RequestPlan } from "./request_plan.ts";
import { type RelayCall, UpstreamCall } from "./upstream_call.ts";
import { VllmPairCall } from "./vllm_pair_call.ts";
import type { ServedModel } from "../served/served_model.ts";
import { forwardedHeaders } from "../wire/headers.ts";
import type { Placement } from "../worker/placement.ts";
import { workerUrl } from "../worker/worker_access.ts";

/** What calls are made with. */
export interface CallOptions {
  readonly clock: Clock;
  readonly transport: Transport;
  readonly log: Logger;
  /** For request ids and rooms. */
  readonly random: Random;
}

/** What is sent. */
export interface Sendable {
  readonly model: ServedModel;
  readonly request: RelayRequest;
  readonly plan: RequestPlan;
  readonly requestId: string;
}

/** One attempt at the place it was given: on a server, or on both servers of a pair. Nothing is sent yet. */
export function openableCall(options: CallOptions, sendable: Sendable, placement: Placement): RelayCall {
  const { model, request, plan } = sendable;
  const { prefill } = placement;
  const { bytes, rids } = plan.attempt(options.random, prefill);
  const { first_token_timeout_ms, idle_timeout_ms } = model.config;
  const upstream = (
    at: Pick<Placement, "workerId" | "url">,
    path = request.path,
    body = bytes,
    firstTokenTimeoutMs = first_token_timeout_ms,
  ): UpstreamCall => {
    const workerHeaders = model.pool.headers?.(at.workerId) ?? {};
    return new UpstreamCall({
      ...options,
      placement: at,
      workerHeaders,
      rids,
      request: {
        method: request.method,
        url: workerUrl(at.url, path),
        headers: forwardedHeaders(request.headers, workerHeaders, sendable.requestId),
        ...(request.method === "POST" ? { body } : {}),
      },
      firstTokenTimeoutMs,
      idleTimeoutMs: idle_timeout_ms,
    });
  };
  if (prefill === undefined) return upstream(placement);
  const { version } = model.engine.capabilities;
  if (model.config.engine === "vllm-pd" && request.method === "POST") {
    return new VllmPairCall({
      ...options,
      placement,
      prefill,
      version,
      requestId: sendable.requestId,
      path: request.path,
      body: bytes,
      firstTokenTimeoutMs: first_token_timeout_ms,
      call: upstream,
    });
  }
  if (!plan.paired) {
    placement.release("aborted", "prefill");
    return upstream(placement);
  }
  const pair = new PairCall({
    clock: options.clock,
    placement,
    path: request.path,
    prefill: upstream(prefill),
    decode: upstream(placement),
    finishPrefill: version !== undefined && olderThan(version, "0.5.10"),
    keepPrefill: plan.needsPrefillLogprobs,
  });
  return plan.needsPrefillLogprobs ? new MergedCall(pair, request.path) : pair;
}
