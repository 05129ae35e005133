import type { Clock } from "../../../base/clock.ts";
import { logger } from "../../../base/log.ts";
import type { Engine, GenerateEvent, GenerateRequest, Prompt, Sampling, WarmResult } from "../engine.ts";
import { workerCall, type WorkerPost } from "../protocol/engine_options.ts";
import { GenerateStream } from "../protocol/generate_stream.ts";
import { readOpenAi } from "../openai/openai_stream.ts";
import { PooledEngine } from "../protocol/pooled_engine.ts";
import { type HandOff, HandOffCall } from "./hand_off_call.ts";
import { vllmBody, warmVllm } from "./vllm_body.ts";
import { chatTakesIds, type WholeRequest, withIds, withTransfer } from "./vllm_pd_bodies.ts";
import type { Placement } from "../../worker/placement.ts";

const log = logger("engines");

/**
 * vLLM with prefill and decode on separate servers (NixlConnector): the prompt is prefilled first, then the decode
 * server fetches its cache and answers. Where the prefill fails, the decode server reads the prompt by itself.
 */
export class VllmPdEngine extends PooledEngine implements Engine {
  /** Without a hand-off: nothing is pinned on the prefill server, and the decode server has no part in it. */
  async warm(prefix: Prompt, at: Placement, signal: AbortSignal, like?: Sampling): Promise<WarmResult> {
    if (at.prefill !== undefined) at.release("aborted", "decode");
    return await warmVllm(this.options, { prefix, at: at.prefill ?? at, signal, like });
  }

  generate(request: GenerateRequest, at: Placement, signal: AbortSignal): AsyncIterable<GenerateEvent> {
    const { clock, config } = this.options;
    // One limit over all calls of the request.
    const firstTokenDueMs = clock.now() + config.first_token_timeout_ms;
    const headers = headersOf(request);
    const call = new HandOffCall({
      at,
      request: this.#shared(request),
      call: (worker, path, body, sent) =>
        workerCall(this.options, {
          at: worker,
          path,
          body,
          sent,
          headers,
          firstTokenDueMs,
          phase: "prefill",
        }),
      decode: (handOff) =>
        workerCall(this.options, {
          at,
          ...this.#decodeBody(request, handOff),
          headers,
          firstTokenDueMs,
          phase: "decode",
        }),
      onAlone: (reason, failed) =>
        log[failed ? "warning" : "debug"](
          "{model}: {worker} reads the prompt of {request} by itself: {reason}",
          {
            model: config.model,
            worker: at.url,
            request: request.id,
            reason,
          },
        ),
    });
    return new GenerateStream({ call, signal, events: handedOff(call, this.options.clock) });
  }

  #shared(request: GenerateRequest): WholeRequest | string {
    const whole = vllmBody(this.options, request);
    return whole.path === "/v1/chat/completions" && Array.isArray(whole.body.tools) && !this.#chatTakesIds
      ? "its tools need vLLM 0.28 or newer for a hand-off"
      : whole;
  }

  /** The request for the decode server: in the tokens that were prefilled, whatever the prompt was. */
  #decodeBody(request: GenerateRequest, handOff: HandOff): Pick<WorkerPost, "path" | "body" | "sent"> {
    const { ids } = handOff;
    const asChat = request.prompt.kind === "chat" && (this.#chatTakesIds || ids === undefined);
    const exact = asChat || ids === undefined
      ? request
      : { ...request, prompt: { kind: "tokens", ids } as const };
    const { path, body } = vllmBody(this.options, exact);
    if (handOff.kind === "alone") return { path, body };
    const transfer = handOff.transfer.take();
    return { path, body, sent: withTransfer(body, asChat ? withIds(transfer, handOff.ids) : transfer) };
  }

  get #chatTakesIds(): boolean {
    return chatTakesIds(this.options.capabilities.version);
  }
}

async function* handedOff(call: HandOffCall, clock: Clock): AsyncGenerator<GenerateEvent, void, void> {
  for await (const event of readOpenAi(call, { clock })) {
    const { alone, cachedTokens } = call;
    if (alone === undefined) yield withCached(event, cachedTokens);
    else yield event.type === "end" ? { ...event, decodedAlone: alone } : event;
  }
}

/** Both halves carry the id: ours beats a client's, because it has to be unique among all that run. */
function headersOf(request: GenerateRequest): Record<string, string> {
  return { ...request.headers, "x-request-id": request.id };
}

/** The decode server's own count may hold all that it fetched; what was cached is what the prefill server had. */
function withCached(event: GenerateEvent, cachedTokens: number | undefined): GenerateEvent {
  return event.usage === undefined ? event : { ...event, usage: { ...event.usage, cachedTokens } };
}
