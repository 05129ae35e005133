import { isJsonObject } from "../../../base/json.ts";
import {
  type GenerateRequest,
  type Prompt,
  type Sampling,
  statedPriority,
  type WarmResult,
} from "../engine.ts";
import { COMMON_DIALECT, openAiBody, roomFor } from "../openai/openai_body.ts";
import { warmed } from "../openai/warm_answer.ts";
import { type EngineOptions, workerCall } from "../protocol/engine_options.ts";
import { NOTHING_WARMED, sharedFields, wholeBlocks } from "../protocol/warm_request.ts";
import type { CalledWorker } from "../../worker/upstream_call.ts";

/** Priority that a warm has behind the request to come, where the server orders its queue by priority. */
const WARM_PRIORITY = 10;

/** Path and body of a streamed request to a vLLM server. */
export function vllmBody(
  { config, capabilities }: Pick<EngineOptions, "config" | "capabilities">,
  request: GenerateRequest,
): ReturnType<typeof openAiBody> {
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

/** A warm of a vLLM server. */
export interface VllmWarm {
  readonly prefix: Prompt;
  readonly at: CalledWorker;
  readonly signal: AbortSignal;
  /** As in `Engine.warm`. */
  readonly like: Sampling | undefined;
}

/**
 * Warms a vLLM server by an ordinary request for one token, which its prefill step samples by itself: vLLM refuses
 * `max_tokens: 0`. Throws `EngineError`, or the signal's reason.
 */
export async function warmVllm(
  options: EngineOptions,
  { prefix, at, signal, like }: VllmWarm,
): Promise<WarmResult> {
  const { capabilities, random } = options;
  const prompt = wholeBlocks(prefix, capabilities.blockTokens);
  if (prompt === undefined) return NOTHING_WARMED;
  const id = `warm-${random.hex(24)}`;
  const extra = { ...sharedFields(prompt.kind, like), ignore_eos: true };
  const { path, body } = vllmBody(options, {
    id,
    prompt,
    sampling: { max_tokens: 1, temperature: 0, extra },
  });
  delete body.stream_options;
  delete body.return_token_ids;
  body.stream = false;
  if (capabilities.priority === "lower_first") {
    body.priority = (like === undefined ? 0 : statedPriority(like) ?? 0) + WARM_PRIORITY;
  }
  return await warmed(workerCall(options, { at, path, body, headers: { "x-request-id": id } }), signal);
}
