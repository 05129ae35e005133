import { isJsonObject } from "../../base/json.ts";
import type {
  Engine,
  EngineCapabilities,
  GenerateEvent,
  GenerateRequest,
  Placement,
  PlacementHint,
  Prompt,
  WarmResult,
} from "./engine.ts";
import { callOptions, type EngineOptions } from "./engine_options.ts";
import { GenerateStream } from "./generate_stream.ts";
import { COMMON_DIALECT, openAiBody } from "./openai_body.ts";
import { readOpenAi } from "./openai_stream.ts";
import { roomFor } from "./sglang_body.ts";
import { warmed } from "./warm_answer.ts";

/** vLLM's OpenAI server: `/v1/completions` with token ids in and out, its chat endpoint for conversations. */
export class VllmEngine implements Engine {
  readonly #options: EngineOptions;

  constructor(options: EngineOptions) {
    this.#options = options;
  }

  get capabilities(): EngineCapabilities {
    return this.#options.capabilities;
  }

  place(hint: PlacementHint): Placement {
    return this.#options.pool.place(hint);
  }

  async warm(prefix: Prompt, at: Placement, signal: AbortSignal): Promise<WarmResult> {
    const request = {
      id: `warm-${this.#options.random.hex(24)}`,
      prompt: prefix,
      sampling: { max_tokens: 1 },
    };
    const { path, body } = this.#body(request);
    delete body.stream_options;
    delete body.return_token_ids;
    const warm = { ...body, stream: false };
    return await warmed(callOptions(this.#options, at, path, warm, signal, { "x-request-id": request.id }));
  }

  generate(request: GenerateRequest, at: Placement, signal: AbortSignal): AsyncIterable<GenerateEvent> {
    const { path, body } = this.#body(request);
    // Our id beats a client's: it has to be unique among all that run.
    const headers = { ...request.headers, "x-request-id": request.id };
    return new GenerateStream(
      callOptions(this.#options, at, path, body, signal, headers),
      (call) => readOpenAi(call, at.url),
    );
  }

  #body(request: GenerateRequest): ReturnType<typeof openAiBody> {
    const { config, capabilities } = this.#options;
    const { returnsTokenIds } = capabilities;
    // Ids count the tokens of a request that is broken off, too; without them its events have to.
    const dialect = { ...COMMON_DIALECT, continuousUsage: !returnsTokenIds };
    const { path, body } = openAiBody(config.model, request, dialect);
    if (returnsTokenIds) body.return_token_ids = true;
    // vLLM's completions stop after 16 tokens unless told otherwise, which no agent can want.
    const room = roomFor(request.prompt, capabilities.contextTokens);
    if (request.sampling.max_tokens === undefined && room !== undefined) body.max_tokens = room;
    if (request.prompt.kind === "chat" && Object.keys(config.chat_template_arguments).length > 0) {
      const given = isJsonObject(body.chat_template_kwargs) ? body.chat_template_kwargs : {};
      body.chat_template_kwargs = { ...config.chat_template_arguments, ...given };
    }
    return { path, body };
  }
}
