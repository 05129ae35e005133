import { CanopyError } from "../../../base/errors.ts";
import type { Engine, GenerateEvent, GenerateRequest, Prompt, Sampling, WarmResult } from "../engine.ts";
import { readWarm, warmed } from "../openai/warm_answer.ts";
import { PooledEngine } from "../pooled_engine.ts";
import { type BootstrapFields, bootstrapFields, fakeBootstrapFields } from "./bootstrap.ts";
import {
  readAnswer,
  readShown,
  sglangCall,
  type SglangRequest,
  sglangRequest,
  sglangWarm,
} from "./sglang_request.ts";
import { olderThan } from "../version.ts";
import { NOTHING_WARMED } from "../warm_request.ts";
import { type HalfReader, PairStream } from "../../worker/pair_stream.ts";
import type { Placement, PrefillSide } from "../../worker/placement.ts";
import type { WorkerCallOptions } from "../../worker/worker_call.ts";

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
        return await warmed(this.#call(pair.prefill.url, request, fields, signal));
      }
      case "pair_1":
        for await (const result of this.#send(pair, request, signal, {}, readWarm, readWarm)) return result;
        throw new CanopyError(`Cannot warm ${at.url}: it ended its answer without one`, {
          code: "worker_invalid_answer",
          status: 502,
        });
      default:
        throw new CanopyError(`Cannot warm ${pair.prefill.url}: its version has no safe way to do so`, {
          code: "warm_unsupported",
          status: 500,
        });
    }
  }

  generate(request: GenerateRequest, at: Placement, signal: AbortSignal): AsyncIterable<GenerateEvent> {
    const sent = sglangRequest(this.options, request);
    return this.#send(
      pairOf(at),
      sent,
      signal,
      request.headers ?? {},
      (call, url) => readAnswer(this.options, sent, call, url),
      (call, url) => readShown(this.options, sent, request.sampling.stop, call, url),
      request.onPrefilled,
    );
  }

  #send<T>(
    at: PairPlacement,
    request: SglangRequest,
    signal: AbortSignal,
    headers: NonNullable<GenerateRequest["headers"]>,
    readPrefill: HalfReader<unknown>,
    readDecode: HalfReader<T>,
    onPrefilled?: () => void,
  ): PairStream<T> {
    const { clock, random, capabilities } = this.options;
    const fields = bootstrapFields(at.prefill, random);
    return new PairStream({
      clock,
      at,
      prefill: this.#call(at.prefill.url, request, fields, signal, headers),
      decode: this.#call(at.url, request, fields, signal, headers),
      readPrefill,
      readDecode,
      finishPrefill: capabilities.version !== undefined && olderThan(capabilities.version, "0.5.10"),
      onPrefilled,
    });
  }

  #call(
    url: string,
    request: SglangRequest,
    fields: BootstrapFields,
    signal: AbortSignal,
    headers?: GenerateRequest["headers"],
  ): WorkerCallOptions {
    // The guards refuse these fields in a request: they are the router's alone to set.
    const call = sglangCall(this.options, { url }, request, signal, headers);
    return { ...call, body: { ...call.body, ...fields } };
  }
}

function pairOf(at: Placement): PairPlacement {
  if (isPair(at)) return at;
  throw new CanopyError(`Cannot use ${at.url}: it was placed without its prefill half`, {
    code: "internal_error",
    status: 500,
  });
}

function isPair(at: Placement): at is PairPlacement {
  return at.prefill !== undefined;
}
