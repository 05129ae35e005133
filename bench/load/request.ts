import type { Clock } from "../../base/clock.ts";
import { messageOf } from "../../base/errors.ts";
import { isJsonObject, type Json, type JsonObject } from "../../base/json.ts";
import type { IncomingResponse, Transport } from "../../base/transport.ts";
import { DONE, SseParser } from "../../router/wire/sse.ts";

/** An OpenAI-compatible server. */
export interface LoadTarget {
  readonly transport: Transport;
  readonly clock: Clock;
  /** Without `/v1` and without a slash at the end. */
  readonly url: string;
  readonly apiKey: string | undefined;
}

/** Result of one request; times in ms. */
export interface LoadSample {
  /** Undefined when it was answered. */
  readonly error: string | undefined;
  /** From the sending to the first text; undefined when none came. */
  readonly ttftMs: number | undefined;
  /** From the sending to the end of the answer. */
  readonly e2eMs: number;
  /** The answer's, as the server counts them; of an answer without usage, the number of its pieces. */
  readonly outputTokens: number;
  /** Those that a graph's other agents wrote, too. */
  readonly allOutputTokens: number;
  /** As the server counts them, or 0. */
  readonly inputTokens: number;
  /** Of these, the ones that it had in its cache; 0 where it does not say. */
  readonly cachedTokens: number;
}

/** Longest error text that is kept. */
const MAX_ERROR_LENGTH = 200;

/**
 * Sends one chat request and reads its stream; `onGap` gets the time between two pieces of text, in ms.
 * A failure is part of the sample; rejects only when `signal` aborts for a reason of the caller's.
 */
export async function sendOne(
  target: LoadTarget,
  body: JsonObject,
  signal: AbortSignal,
  onGap: (ms: number) => void,
): Promise<LoadSample> {
  const { clock, transport, url } = target;
  const startMs = clock.now();
  const reader = new AnswerReader(clock, onGap);
  let error: string | undefined;
  try {
    const response = await transport.send({
      method: "POST",
      url: `${url}/v1/chat/completions`,
      headers: loadHeaders(target),
      body: JSON.stringify({ ...body, stream: true, stream_options: { include_usage: true } }),
    }, signal);
    if (response.status === 200) error = await reader.read(response);
    else error = `status ${response.status}: ${await beginningOf(response)}`;
  } catch (thrown) {
    error = messageOf(thrown);
  }
  return {
    error: error?.slice(0, MAX_ERROR_LENGTH),
    ttftMs: reader.firstAtMs === undefined ? undefined : reader.firstAtMs - startMs,
    e2eMs: clock.now() - startMs,
    outputTokens: reader.answerTokens ?? reader.outputTokens ?? reader.pieces,
    allOutputTokens: reader.outputTokens ?? reader.pieces,
    inputTokens: reader.inputTokens ?? 0,
    cachedTokens: reader.cachedTokens,
  };
}

/** Headers of every request to the server. */
export function loadHeaders({ apiKey }: LoadTarget): Record<string, string> {
  const authorization = apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` };
  return { "content-type": "application/json", accept: "text/event-stream", ...authorization };
}

class AnswerReader {
  readonly #clock: Clock;
  readonly #onGap: (ms: number) => void;
  #lastAtMs: number | undefined;
  firstAtMs: number | undefined;
  pieces = 0;
  outputTokens: number | undefined;
  answerTokens: number | undefined;
  inputTokens: number | undefined;
  cachedTokens = 0;

  constructor(clock: Clock, onGap: (ms: number) => void) {
    this.#clock = clock;
    this.#onGap = onGap;
  }

  /** Gives what was wrong with the answer, if anything. */
  async read(response: IncomingResponse): Promise<string | undefined> {
    const parser = new SseParser();
    // Read to its very end: leaving before would close the connection, and the next request would open one.
    let done = false;
    for await (const bytes of response.body) {
      for (const data of parser.push(bytes)) {
        if (data === DONE) done = true;
        if (done) continue;
        const chunk: Json = JSON.parse(data);
        if (!isJsonObject(chunk)) continue;
        if (chunk["error"] !== undefined && chunk["error"] !== null) return JSON.stringify(chunk["error"]);
        this.#take(chunk);
      }
    }
    return done ? undefined : "the answer broke off before its end";
  }

  #take(chunk: JsonObject): void {
    const choice = Array.isArray(chunk["choices"]) ? chunk["choices"][0] : undefined;
    const delta = isJsonObject(choice) ? choice["delta"] : undefined;
    if (isJsonObject(delta) && TEXT_FIELDS.some((field) => isText(delta[field]))) {
      const nowMs = this.#clock.now();
      if (this.#lastAtMs !== undefined) this.#onGap(nowMs - this.#lastAtMs);
      this.firstAtMs ??= nowMs;
      this.#lastAtMs = nowMs;
      this.pieces++;
    }
    const usage = chunk["usage"];
    if (!isJsonObject(usage)) return;
    if (typeof usage["completion_tokens"] === "number") this.outputTokens = usage["completion_tokens"];
    const details = usage["completion_tokens_details"];
    if (isJsonObject(details) && typeof details["answer_tokens"] === "number") {
      this.answerTokens = details["answer_tokens"];
    }
    if (typeof usage["prompt_tokens"] === "number") this.inputTokens = usage["prompt_tokens"];
    const read = usage["prompt_tokens_details"];
    if (isJsonObject(read) && typeof read["cached_tokens"] === "number") {
      this.cachedTokens = read["cached_tokens"];
    }
  }
}

/** Fields in which servers put the text of an answer and of the thoughts before it. */
const TEXT_FIELDS = ["content", "reasoning_content", "reasoning"];

function isText(value: Json | undefined): boolean {
  return typeof value === "string" && value !== "";
}

async function beginningOf(response: IncomingResponse): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  for await (const bytes of response.body) {
    text += decoder.decode(bytes, { stream: true });
    if (text.length > MAX_ERROR_LENGTH) break;
  }
  return text.replace(/\s+/g, " ").trim();
}
