import { type Clock, deadlineSignal } from "../../base/clock.ts";
import { messageOf } from "../../base/errors.ts";
import { isJsonObject, type Json } from "../../base/json.ts";
import type { OutgoingRequest, Transport } from "../../base/transport.ts";

/** Longest wait for the answer to a health check or a list of models. */
const HEALTH_MS = 10_000;
/** Longest wait for one token: the first request may compile kernels. */
const TOKEN_MS = 180_000;
/** Longest answer that is read. */
const MAX_BYTES = 1024 * 1024;

/** Options of questions to a server that is starting. */
export interface ReadinessOptions {
  readonly clock: Clock;
  readonly transport: Transport;
  readonly headers?: Readonly<Record<string, string>> | undefined;
}

/** True when the server at this URL answers its health check. */
export async function isHealthy(
  url: string,
  options: ReadinessOptions,
  signal: AbortSignal,
): Promise<boolean> {
  try {
    const { status } = await ask({ method: "GET", url: `${url}/health` }, HEALTH_MS, options, signal);
    return status === 200;
  } catch {
    signal.throwIfAborted();
    return false;
  }
}

/**
 * Lets the server generate one token: engines answer health checks that have not done any work yet. Gives undefined
 * when it did, else a sentence that says what came instead.
 */
export async function generatesToken(
  url: string,
  options: ReadinessOptions,
  signal: AbortSignal,
): Promise<string | undefined> {
  try {
    const models = await ask({ method: "GET", url: `${url}/v1/models` }, HEALTH_MS, options, signal);
    const model = firstModel(models.body);
    if (model === undefined) return `GET /v1/models was answered with ${models.status} and lists no model`;
    const body = JSON.stringify({ model, prompt: "Hello", max_tokens: 1, temperature: 0 });
    const request = { method: "POST", url: `${url}/v1/completions`, body } as const;
    const answer = await ask(request, TOKEN_MS, options, signal);
    if (answer.status === 200 && hasToken(answer.body)) return undefined;
    return `a request for one token was answered with ${answer.status}: ${
      JSON.stringify(answer.body).slice(0, 300)
    }`;
  } catch (error) {
    signal.throwIfAborted();
    return `a request for one token failed: ${messageOf(error)}`;
  }
}

async function ask(
  request: Pick<OutgoingRequest, "method" | "url" | "body">,
  limitMs: number,
  { clock, transport, headers = {} }: ReadinessOptions,
  signal: AbortSignal,
): Promise<{ status: number; body: Json }> {
  const late = new Error(`no answer within ${limitMs / 1000} s`);
  const deadline = deadlineSignal(clock, limitMs, late, signal);
  try {
    const response = await transport.send({
      ...request,
      headers: {
        ...headers,
        "accept-encoding": "identity",
        ...(request.body !== undefined && { "content-type": "application/json" }),
      },
    }, deadline.signal);
    let text = "";
    const decoder = new TextDecoder();
    for await (const chunk of response.body) {
      if (text.length < MAX_BYTES) text += decoder.decode(chunk, { stream: true });
    }
    return { status: response.status, body: parsed(text) };
  } finally {
    deadline.release();
  }
}

function parsed(text: string): Json {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

function firstModel(body: Json): string | undefined {
  const list = isJsonObject(body) && Array.isArray(body.data) ? body.data : [];
  const [first] = list;
  return isJsonObject(first) && typeof first.id === "string" ? first.id : undefined;
}

function hasToken(body: Json): boolean {
  return isJsonObject(body) && Array.isArray(body.choices) && body.choices.length === 1;
}
