import type { Engine, GenerateEvent, GenerateRequest, Prompt, Sampling, WarmResult } from "../engine.ts";
import { workerCall } from "../protocol/engine_options.ts";
import { GenerateStream } from "../protocol/generate_stream.ts";
import { readOpenAi } from "../openai/openai_stream.ts";
import { PooledEngine } from "../protocol/pooled_engine.ts";
import { vllmBody, warmVllm } from "./vllm_body.ts";
import type { Placement } from "../../worker/placement.ts";

/** vLLM's OpenAI server: `/v1/completions` with token ids in and out, its chat endpoint for conversations. */
export class VllmEngine extends PooledEngine implements Engine {
  async warm(prefix: Prompt, at: Placement, signal: AbortSignal, like?: Sampling): Promise<WarmResult> {
    return await warmVllm(this.options, { prefix, at, signal, like });
  }

  generate(request: GenerateRequest, at: Placement, signal: AbortSignal): AsyncIterable<GenerateEvent> {
    const { path, body } = vllmBody(this.options, request);
    // Our id beats a client's: it has to be unique among all that run.
    const headers = { ...request.headers, "x-request-id": request.id };
    const call = workerCall(this.options, { at, path, body, headers });
    return new GenerateStream({ call, signal, events: readOpenAi(call, this.options) });
  }
}
