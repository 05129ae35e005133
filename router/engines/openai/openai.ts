import type { IncomingResponse } from "../../../base/transport.ts";
import type { Engine, GenerateEvent, GenerateRequest, WarmResult } from "../engine.ts";
import { workerCall } from "../protocol/engine_options.ts";
import { GenerateStream } from "../protocol/generate_stream.ts";
import { COMMON_DIALECT, type Dialect, openAiBody } from "./openai_body.ts";
import { readOpenAi } from "./openai_stream.ts";
import { PooledEngine } from "../protocol/pooled_engine.ts";
import { EngineError } from "../../worker/engine_error.ts";
import type { Placement } from "../../worker/placement.ts";
import { accepted, type CalledWorker, type UpstreamCall } from "../../worker/upstream_call.ts";

/** Any OpenAI-compatible endpoint: Ollama, llama.cpp, OpenRouter, OpenAI itself. */
export class OpenAiEngine extends PooledEngine implements Engine {
  /** Learnt from the endpoint's own complaints. */
  #dialect: Dialect = COMMON_DIALECT;

  warm(_prefix: unknown, at: Placement): Promise<WarmResult> {
    return Promise.reject(cannotWarm(at));
  }

  generate(request: GenerateRequest, at: Placement, signal: AbortSignal): AsyncIterable<GenerateEvent> {
    const { model } = this.options.config;
    const { path, body } = openAiBody(model, request, this.#dialect);
    const call = workerCall(this.options, { at, path, body, headers: request.headers });
    return new GenerateStream({
      call,
      signal,
      events: readOpenAi(call, { clock: this.options.clock, open: () => this.#open(call, request) }),
    });
  }

  /** Opens the call, and again in other words as long as the endpoint's complaint says which. */
  async #open(call: UpstreamCall, request: GenerateRequest): Promise<IncomingResponse> {
    let dialect = this.#dialect;
    while (true) {
      try {
        const { body } = openAiBody(this.options.config.model, request, dialect);
        return await accepted(call, JSON.stringify(body));
      } catch (error) {
        const better = betterDialect(error, dialect);
        if (better === undefined) throw error;
        this.#dialect = dialect = better;
      }
    }
  }
}

/** Dialect to try after a 400 that names a field; undefined when that is not the trouble. */
function betterDialect(error: unknown, dialect: Dialect): Dialect | undefined {
  if (!(error instanceof EngineError) || (error.workerStatus !== 400 && error.workerStatus !== 422)) {
    return undefined;
  }
  if (dialect.chatMaxTokens === "max_tokens" && error.message.includes("max_completion_tokens")) {
    return { ...dialect, chatMaxTokens: "max_completion_tokens" };
  }
  if (dialect.streamOptions && /stream_options|include_usage/.test(`${error.param} ${error.message}`)) {
    return { ...dialect, streamOptions: false };
  }
  return undefined;
}

function cannotWarm({ workerId, url }: CalledWorker): EngineError {
  return new EngineError(
    `Worker ${workerId} cannot prefill without generating: switch incremental prefill off`,
    {
      code: "warm_unsupported",
      status: 502,
      workerUrl: url,
      retryable: false,
    },
  );
}
