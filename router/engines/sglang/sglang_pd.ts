import { CanopyError } from "../../../base/errors.ts";
import type { Engine, GenerateEvent, GenerateRequest, Prompt, Sampling, WarmResult } from "../engine.ts";
import { workerCall } from "../protocol/engine_options.ts";
import { GenerateStream } from "../protocol/generate_stream.ts";
import { warmed } from "../openai/warm_answer.ts";
import { PooledEngine } from "../protocol/pooled_engine.ts";
import { type BootstrapFields, bootstrapFields, fakeBootstrapFields } from "./bootstrap.ts";
import { decodeRankFields, rankFields } from "./ranks.ts";
import { readShown, type SglangRequest, sglangRequest, sglangWarm } from "./sglang_request.ts";
import { olderThan } from "../version.ts";
import { NOTHING_WARMED } from "../protocol/warm_request.ts";
import type { CalledWorker } from "../../worker/upstream_call.ts";
import { EngineError } from "../../worker/engine_error.ts";
import { PairCall } from "../../worker/pair_call.ts";
import type { Placement, PrefillSide } from "../../worker/placement.ts";
import type { WorkerCall } from "../../worker/worker_call.ts";

type PairPlacement = Placement & { readonly prefill: PrefillSide };

/**
 * SGLang with prefill and decode on separate servers: both get the same request at once, meet in its bootstrap room,
 * and the decode server's answer is the answer.
 */
export class SglangPdEngine extends PooledEngine implements Engine {
  async warm(prefix: Prompt, at: Placement, signal: AbortSignal, like?: Sampling): Promise<WarmResult> {
    const sampling = { max_tokens: 1, temperature: 0, extra: { ignore_eos: true } };
    const request = sglangWarm(this.options, prefix, sampling, like);
    if (request === undefined) return NOTHING_WARMED;
    const pair = pairOf(at);
    switch (this.capabilities.warm) {
      case "fake_bootstrap": {
        // The decode server has no part in it.
        at.release("aborted", "decode");
        const fields = fakeBootstrapFields(this.options.random);
        return await warmed(this.#half(pair, "prefill", { request, fields }), signal);
      }
      case "pair_1":
        return await this.#warmPair(this.#pairCall(pair, request), signal);
      default:
        throw new CanopyError(
          `Cannot warm worker ${pair.prefill.workerId}: its version has no safe way to do so`,
          {
            code: "warm_unsupported",
            status: 500,
          },
        );
    }
  }

  generate(request: GenerateRequest, at: Placement, signal: AbortSignal): AsyncIterable<GenerateEvent> {
    const sent = sglangRequest(this.options, request);
    const call = this.#pairCall(pairOf(at), sent, request.headers);
    return new GenerateStream({
      call,
      signal,
      events: readShown(this.options, sent, request.sampling.stop, call),
      onError: (error) => blame(call, error),
    });
  }

  async #warmPair(call: PairCall, signal: AbortSignal): Promise<WarmResult> {
    try {
      return await warmed(call, signal);
    } catch (error) {
      if (!signal.aborted) blame(call, error);
      throw error;
    }
  }

  #pairCall(
    at: PairPlacement,
    request: SglangRequest,
    headers?: GenerateRequest["headers"],
  ): PairCall {
    const { clock, random, capabilities } = this.options;
    const fields = bootstrapFields(at.prefill, random);
    const half = (phase: "prefill" | "decode") => this.#half(at, phase, { request, fields, headers });
    return new PairCall({
      clock,
      at,
      prefill: half("prefill"),
      decode: half("decode"),
      finishPrefill: capabilities.version !== undefined && olderThan(capabilities.version, "0.5.10"),
    });
  }

  #half(
    at: PairPlacement,
    phase: "prefill" | "decode",
    { request, fields, headers }: {
      readonly request: SglangRequest;
      readonly fields: BootstrapFields;
      readonly headers?: GenerateRequest["headers"];
    },
  ): WorkerCall {
    // The guards refuse these fields in a request: they are the router's alone to set.
    const { path, body, rid } = request;
    const ranks = phase === "prefill"
      ? rankFields(at.prefill)
      : decodeRankFields(at, this.capabilities.version);
    const sent = { ...body, ...fields, ...ranks };
    const worker: CalledWorker = phase === "prefill" ? at.prefill : at;
    return workerCall(this.options, { at: worker, path, body, sent, rid, headers, phase });
  }
}

function blame(call: PairCall, error: unknown): void {
  if (error instanceof EngineError && error.status >= 500 && error.status !== 503) call.blame(error.message);
}

function pairOf(at: Placement): PairPlacement {
  if (isPair(at)) return at;
  throw new CanopyError(`Cannot use worker ${at.workerId}: it was placed without its prefill half`, {
    code: "internal_error",
    status: 500,
  });
}

function isPair(at: Placement): at is PairPlacement {
  return at.prefill !== undefined;
}
