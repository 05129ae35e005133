import { isJsonObject, type JsonObject } from "../../base/json.ts";
import { workerUrl } from "../pool/worker_access.ts";
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
import { callOptions, type EngineOptions, headersFor } from "./engine_options.ts";
import { GenerateStream } from "./generate_stream.ts";
import { heldStops } from "./held_stops.ts";
import { COMMON_DIALECT, openAiBody } from "./openai_body.ts";
import { readOpenAi } from "./openai_stream.ts";
import { sglangBody } from "./sglang_body.ts";
import { readSglang } from "./sglang_stream.ts";
import { warmed } from "./warm_answer.ts";
import type { WorkerCallOptions } from "./worker_call.ts";

/**
 * SGLang without a prefill/decode split: `/generate` for text and token ids, its chat endpoint for conversations.
 * Every request has an id of its own, by which it is aborted before its stream is closed: 0.5.18 decodes an abandoned
 * stream to its end otherwise, and forgets the id as soon as the stream is closed.
 */
export class SglangEngine implements Engine {
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
    const rid = this.#rid();
    const request = { id: rid, prompt: prefix, sampling: { max_tokens: 0 } };
    const { path, body } = this.#body(request, rid);
    delete body.stream_options;
    return await warmed(this.#call(at, path, { ...body, stream: false }, rid, signal));
  }

  generate(request: GenerateRequest, at: Placement, signal: AbortSignal): AsyncIterable<GenerateEvent> {
    const rid = this.#rid();
    const { path, body } = this.#body(request, rid);
    const { incrementalStream } = this.#options.capabilities;
    return new GenerateStream(
      this.#call(at, path, body, rid, signal, request.headers),
      (call) => {
        const events = path === "/generate"
          ? readSglang(call, at.url, incrementalStream)
          : readOpenAi(call, at.url);
        const { stop } = request.sampling;
        // Its streams may show the beginning of a stop string before the rest of it comes.
        return stop === undefined || stop.length === 0 ? events : heldStops(events, stop);
      },
    );
  }

  /** SGLang aborts every request whose id begins with the one given: ids of one length are never prefixes. */
  #rid(): string {
    return `canopy-${this.#options.random.hex(32)}`;
  }

  #body(request: GenerateRequest, rid: string): { path: string; body: JsonObject } {
    const { config, capabilities } = this.#options;
    const { prompt } = request;
    if (prompt.kind !== "chat") {
      return { path: "/generate", body: sglangBody({ ...request, prompt }, rid, capabilities.contextTokens) };
    }
    // What a chat that is broken off has cost is known only from the events before.
    const { path, body } = openAiBody(config.model, request, { ...COMMON_DIALECT, continuousUsage: true });
    body.rid = rid;
    if (Object.keys(config.chat_template_arguments).length > 0) {
      const given = isJsonObject(body.chat_template_kwargs) ? body.chat_template_kwargs : {};
      body.chat_template_kwargs = { ...config.chat_template_arguments, ...given };
    }
    return { path, body };
  }

  #call(
    at: Placement,
    path: string,
    body: JsonObject,
    rid: string,
    signal: AbortSignal,
    headers?: GenerateRequest["headers"],
  ): WorkerCallOptions {
    return {
      ...callOptions(this.#options, at, path, body, signal, headers),
      abortOnEngine: (limit) => this.#abort(at.url, rid, limit),
    };
  }

  async #abort(url: string, rid: string, signal: AbortSignal): Promise<void> {
    const { transport, config } = this.#options;
    const response = await transport.send({
      method: "POST",
      url: workerUrl(url, "/abort_request"),
      headers: { ...headersFor(this.#options, url), "content-type": "application/json" },
      body: JSON.stringify({ rid }),
      connectTimeoutMs: config.connect_timeout_ms,
    }, signal);
    for await (const _chunk of response.body);
  }
}
