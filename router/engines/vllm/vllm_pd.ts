import { messageOf } from "../../../base/errors.ts";
import { logger } from "../../../base/log.ts";
import type { Engine, GenerateEvent, GenerateRequest, Prompt, Sampling, WarmResult } from "../engine.ts";
import { callOptions } from "../engine_options.ts";
import { readOpenAi } from "../openai/openai_stream.ts";
import { PooledEngine } from "../pooled_engine.ts";
import { vllmBody, warmVllm } from "./vllm_body.ts";
import { dueAt, type HandOff, handOff } from "./vllm_hand_off.ts";
import { chatTakesIds, withIds, withTransfer } from "./vllm_pd_bodies.ts";
import { type CallChain, ChainStream } from "../../worker/call_chain.ts";
import { EngineError } from "../../worker/engine_error.ts";
import type { Placement } from "../../worker/placement.ts";

const log = logger("engines");

/** One request on its way over a pair. */
interface Job {
  readonly request: GenerateRequest;
  readonly at: Placement;
  readonly signal: AbortSignal;
  readonly chain: CallChain;
  /** When the first token is due, in clock time. */
  readonly deadlineMs: number;
}

/**
 * vLLM with prefill and decode on separate servers (NixlConnector): the prompt is prefilled first, then the decode
 * server fetches its cache and answers. Where the prefill fails, the decode server reads the prompt by itself.
 */
export class VllmPdEngine extends PooledEngine implements Engine {
  /** Without a hand-off: nothing is pinned on the prefill server, and the decode server has no part in it. */
  async warm(prefix: Prompt, at: Placement, signal: AbortSignal, like?: Sampling): Promise<WarmResult> {
    if (at.prefill !== undefined) at.release("aborted", "decode");
    return await warmVllm(this.options, prefix, at.prefill?.url ?? at.url, signal, like);
  }

  generate(request: GenerateRequest, at: Placement, signal: AbortSignal): AsyncIterable<GenerateEvent> {
    const { clock, config } = this.options;
    const deadlineMs = clock.now() + config.first_token_timeout_ms;
    return new ChainStream((chain) => this.#events({ request, at, signal, chain, deadlineMs }));
  }

  async *#events(job: Job): AsyncGenerator<GenerateEvent, void, void> {
    const { at, signal } = job;
    const prefilled = await this.#prefill(job);
    job.request.onPrefilled?.();
    let alone = prefilled.kind === "alone" ? prefilled.reason : undefined;
    if (prefilled.kind === "prefilled") {
      let begun = false;
      try {
        for await (const event of this.#decode(job, prefilled)) {
          // The cache has been fetched: the prefill server may forget it.
          if (!begun) at.release("ok", "prefill");
          begun = true;
          yield withCached(event, prefilled.cachedTokens);
        }
        return;
      } catch (error) {
        if (begun || signal.aborted || !mayHaveLostTransfer(error)) throw error;
        at.release("aborted", "prefill");
        alone = messageOf(error);
      }
    }
    const failed = prefilled.kind === "prefilled" || prefilled.failed;
    log[failed ? "warning" : "debug"]("{model}: {worker} reads the prompt of {request} by itself: {reason}", {
      model: this.options.config.model,
      worker: at.url,
      request: job.request.id,
      reason: alone,
    });
    for await (const event of this.#decode(job, { kind: "alone", ids: prefilled.ids })) {
      yield event.type === "end" && alone !== undefined ? { ...event, decodedAlone: alone } : event;
    }
  }

  async #prefill({ request, at, signal, chain, deadlineMs }: Job): Promise<HandOff> {
    if (at.prefill === undefined) {
      return { kind: "alone", reason: "there is no prefill server", failed: false };
    }
    const whole = vllmBody(this.options, request);
    if (whole.path === "/v1/chat/completions" && Array.isArray(whole.body.tools) && !this.#chatTakesIds) {
      at.release("aborted", "prefill");
      return { kind: "alone", reason: "its tools need vLLM 0.28 or newer for a hand-off", failed: false };
    }
    try {
      const options = { ...this.options, side: at.prefill, request: whole, signal, deadlineMs, chain };
      const result = await handOff({ ...options, headers: headersOf(request) });
      if (result.kind === "alone") at.release(result.failed ? "failed" : "aborted", "prefill");
      return result;
    } catch (error) {
      const failed = error instanceof EngineError && error.status >= 500 && error.status !== 503;
      if (failed && !signal.aborted) at.release("failed", "prefill");
      throw error;
    }
  }

  #decode(
    { request, at, signal, chain, deadlineMs }: Job,
    prefilled: HandOff | { readonly kind: "alone"; readonly ids: readonly number[] | undefined },
  ): AsyncGenerator<GenerateEvent, void, void> {
    const { ids } = prefilled;
    const asChat = request.prompt.kind === "chat" && (this.#chatTakesIds || ids === undefined);
    // Whatever the prompt was, these are its tokens.
    const exact = asChat || ids === undefined
      ? request
      : { ...request, prompt: { kind: "tokens", ids } as const };
    const { path, body } = vllmBody(this.options, exact);
    const call = callOptions(this.options, at, path, body, signal, headersOf(request));
    return chain.read(dueAt(call, deadlineMs), (worker) =>
      readOpenAi(worker, at.url, () => {
        if (prefilled.kind === "alone") return worker.open();
        const transfer = prefilled.transfer.take();
        return worker.open(withTransfer(body, asChat ? withIds(transfer, prefilled.ids) : transfer));
      }));
  }

  get #chatTakesIds(): boolean {
    return chatTakesIds(this.options.capabilities.version);
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

/** True for the ways in which a decode server says that it could not fetch a cache, which it never says plainly. */
function mayHaveLostTransfer(error: unknown): boolean {
  return error instanceof EngineError && (error.code === "worker_failed" || error.code === "worker_aborted");
}
