import { isJsonObject, type JsonObject } from "../../../base/json.ts";
import type { Random } from "../../../base/random.ts";
import type { GenerateEvent, GenerateRequest, Prompt, Sampling } from "../engine.ts";
import { type EngineOptions, workerCall } from "../protocol/engine_options.ts";
import { heldStops } from "../protocol/held_stops.ts";
import { COMMON_DIALECT, openAiBody } from "../openai/openai_body.ts";
import { readOpenAi } from "../openai/openai_stream.ts";
import { rankFields } from "./ranks.ts";
import { sglangBody } from "./sglang_body.ts";
import { readSglang } from "./sglang_stream.ts";
import { sharedFields, wholeBlocks } from "../protocol/warm_request.ts";
import type { CalledWorker, UpstreamCall } from "../../worker/upstream_call.ts";
import type { WorkerCall } from "../../worker/worker_call.ts";

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
  at: CalledWorker,
  { path, body, rid }: SglangRequest,
  headers?: GenerateRequest["headers"],
): WorkerCall {
  return workerCall(options, { at, path, body: { ...body, ...rankFields(at) }, rid, headers });
}

/**
 * Opens the call of a streamed request and reads its answer, without the beginnings of stop strings, which SGLang's
 * streams may show before the rest of them comes.
 */
export function readShown(
  options: EngineOptions,
  { path }: SglangRequest,
  stop: readonly string[] | undefined,
  call: UpstreamCall,
): AsyncGenerator<GenerateEvent, void, void> {
  const events = path === "/generate" ? readSglang(call, options) : readOpenAi(call, options);
  return stop === undefined || stop.length === 0 ? events : heldStops(events, stop);
}
