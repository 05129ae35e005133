import { type Clock, deadlineSignal } from "../../base/clock.ts";
import { isJsonObject, type JsonObject } from "../../base/json.ts";
import { readText } from "../../base/read_body.ts";
import type { Transport } from "../../base/transport.ts";
import type { ModelConfig } from "../../cfgs/schema/config.ts";
import type { ChatMessage } from "../../ml/tokenizers/chat_message.ts";
import { workerUrl } from "../worker/worker_access.ts";

/** Options of `askTokens`. */
export interface AskTokensOptions {
  readonly config: ModelConfig;
  readonly worker: { readonly url: string; readonly headers: Readonly<Record<string, string>> };
  readonly clock: Clock;
  readonly transport: Transport;
  readonly signal: AbortSignal;
}

/** Longest answer: eight bytes for each of a million tokens. */
const MAX_ANSWER_BYTES = 8 * 1024 * 1024;

/**
 * The ids that a worker's `/tokenize` makes of a text without special tokens, or of a conversation in its chat template;
 * undefined where it does not tell. Throws the signal's reason alone.
 */
export async function askTokens(
  asked: string | readonly ChatMessage[],
  { config, worker, clock, transport, signal }: AskTokensOptions,
): Promise<readonly number[] | undefined> {
  const { model, chat_template_arguments } = config;
  const body: JsonObject = typeof asked === "string"
    ? { model, prompt: asked, add_special_tokens: false }
    : { model, messages: [...asked], add_generation_prompt: true };
  if (typeof asked !== "string" && Object.keys(chat_template_arguments).length > 0) {
    body.chat_template_kwargs = chat_template_arguments;
  }
  const late = new Error(`No answer to /tokenize within ${config.health.timeout_ms} ms`);
  const deadline = deadlineSignal(clock, config.health.timeout_ms, late, signal);
  try {
    const response = await transport.send({
      method: "POST",
      url: workerUrl(worker.url, "/tokenize"),
      headers: { ...worker.headers, "content-type": "application/json" },
      body: JSON.stringify(body),
      lane: "control",
      connectTimeoutMs: config.connect_timeout_ms,
    }, deadline.signal);
    const text = await readText(response.body, MAX_ANSWER_BYTES, "its answer");
    const answer: unknown = response.status === 200 ? JSON.parse(text) : undefined;
    const tokens = isJsonObject(answer) ? answer["tokens"] : undefined;
    return Array.isArray(tokens) ? tokens.filter((id) => typeof id === "number") : undefined;
  } catch {
    signal.throwIfAborted();
    return undefined;
  } finally {
    deadline.release();
  }
}
