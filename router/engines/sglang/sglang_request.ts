import { isJsonObject, type JsonObject } from "../../../base/json.ts";
import type { Random } from "../../../base/random.ts";
import type { GenerateEvent, GenerateRequest, Prompt, Sampling } from "../engine.ts";
import { callOptions, type EngineOptions, headersFor } from "../engine_options.ts";
import { heldStops } from "../held_stops.ts";
import { COMMON_DIALECT, openAiBody } from "../openai/openai_body.ts";
import { readOpenAi } from "../openai/openai_stream.ts";
import { sglangBody } from "./sglang_body.ts";
import { readSglang } from "./sglang_stream.ts";
import { sharedFields, wholeBlocks } from "../warm_request.ts";
import type { Placement } from "../../worker/placement.ts";
import { workerUrl } from "../../worker/worker_access.ts";
import type { WorkerCall, WorkerCallOptions } from "../../worker/worker_call.ts";

/** A request as SGLang's servers take it: `/generate` for text and token ids, the chat endpoint for conversations. */
export interface SglangRequest {
  readonly path: string;
  readonly body: JsonObject;
  /** SGLang's own id of it, by which it is aborted. */
  readonly rid: string;
}

/** SGLang aborts every request whose id begins with the one given: ids of one length are never prefixes. */
export function newRid(random: Random): string {
  return `canopy-${random.hex(32)}`;
}

/** The streamed request of one attempt, under an id of its own. */
export function sglangRequest(options: EngineOptions, request: GenerateRequest): SglangRequest {
  const { config, capabilities, random } = options;
  const { prompt } = request;
  const rid = newRid(random);
  if (prompt.kind !== "chat") {
    const body = sglangBody({ ...request, prompt }, rid, capabilities.contextTokens);
    return { path: "/generate", body, rid };
  }
  // What a chat that is broken off has cost is known only from the events before.
  const { path, body } = openAiBody(config.model, request, { ...COMMON_DIALECT, continuousUsage: true });
  body.rid = rid;
  if (Object.keys(config.chat_template_arguments).length > 0) {
    const given = isJsonObject(body.chat_template_kwargs) ? body.chat_template_kwargs : {};
    body.chat_template_kwargs = { ...config.chat_template_arguments, ...given };
  }
  return { path, body, rid };
}

/**
 * A request whose only purpose is its prefix, with its answer in one piece; undefined when the prefix is too short to
 * be cached. `like`: as in `Engine.warm`.
 */
export function sglangWarm(
  options: EngineOptions,
  prefix: Prompt,
  sampling: Sampling,
  like: Sampling | undefined,
): SglangRequest | undefined {
  const prompt = wholeBlocks(prefix, options.capabilities.blockTokens);
  if (prompt === undefined) return undefined;
  const extra = { ...sampling.extra, ...sharedFields(prompt.kind, like) };
  const request = { id: "warm", prompt, sampling: { ...sampling, extra } };
  const { path, body: { stream_options: _, ...body }, rid } = sglangRequest(options, request);
  return { path, rid, body: { ...body, stream: false } };
}

/** The call of a request to one server, which is told to stop before its connection is closed. */
export function sglangCall(
  options: EngineOptions,
  at: Pick<Placement, "url">,
  request: SglangRequest,
  signal: AbortSignal,
  headers?: GenerateRequest["headers"],
): WorkerCallOptions {
  return {
    ...callOptions(options, at, request.path, request.body, signal, headers),
    abortOnEngine: (limit) => abortRequest(options, at.url, request.rid, limit),
  };
}

/** Reads the answer to a streamed request. */
export function readAnswer(
  options: EngineOptions,
  { path }: SglangRequest,
  call: WorkerCall,
  url: string,
): AsyncGenerator<GenerateEvent, void, void> {
  return path === "/generate"
    ? readSglang(call, url, options.capabilities.incrementalStream)
    : readOpenAi(call, url);
}

/** The same without the beginnings of stop strings, which SGLang's streams may show before the rest of them comes. */
export function readShown(
  options: EngineOptions,
  request: SglangRequest,
  stop: readonly string[] | undefined,
  call: WorkerCall,
  url: string,
): AsyncGenerator<GenerateEvent, void, void> {
  const events = readAnswer(options, request, call, url);
  return stop === undefined || stop.length === 0 ? events : heldStops(events, stop);
}

async function abortRequest(
  options: EngineOptions,
  url: string,
  rid: string,
  signal: AbortSignal,
): Promise<void> {
  const { transport, config } = options;
  const response = await transport.send({
    method: "POST",
    url: workerUrl(url, "/abort_request"),
    headers: { ...headersFor(options, url), "content-type": "application/json" },
    body: JSON.stringify({ rid }),
    connectTimeoutMs: config.connect_timeout_ms,
  }, signal);
  for await (const _chunk of response.body);
}
