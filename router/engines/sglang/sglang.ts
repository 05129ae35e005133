import type { Engine, GenerateEvent, GenerateRequest, Prompt, Sampling, WarmResult } from "../engine.ts";
import { warmed } from "../openai/warm_answer.ts";
import { PooledEngine } from "../protocol/pooled_engine.ts";
import { readShown, sglangCall, sglangRequest, sglangWarm } from "./sglang_request.ts";
import { GenerateStream } from "../protocol/generate_stream.ts";
import { NOTHING_WARMED } from "../protocol/warm_request.ts";
import type { Placement } from "../../worker/placement.ts";

/**
 * SGLang without a prefill/decode split: `/generate` for text and token ids, its chat endpoint for conversations.
 * Every request has an id of its own, by which it is aborted before its stream is closed: 0.5.18 decodes an abandoned
 * stream to its end otherwise, and forgets the id as soon as the stream is closed.
 */
export class SglangEngine extends PooledEngine implements Engine {
  async warm(prefix: Prompt, at: Placement, signal: AbortSignal, like?: Sampling): Promise<WarmResult> {
    const request = sglangWarm(this.options, prefix, { max_tokens: 0 }, like);
    if (request === undefined) return NOTHING_WARMED;
    return await warmed(sglangCall(this.options, at, request), signal);
  }

  generate(request: GenerateRequest, at: Placement, signal: AbortSignal): AsyncIterable<GenerateEvent> {
    const sent = sglangRequest(this.options, request);
    const call = sglangCall(this.options, at, sent, request.headers);
    return new GenerateStream({
      call,
      signal,
      events: readShown(this.options, sent, request.sampling.stop, call),
    });
  }
}
