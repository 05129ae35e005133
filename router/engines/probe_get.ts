import { type Clock, deadlineSignal } from "../../base/clock.ts";
import { isJsonObject, type JsonObject } from "../../base/json.ts";
import type { Transport } from "../../base/transport.ts";
import type { ModelConfig } from "../../cfgs/schema/config.ts";
import { workerUrl } from "../worker/worker_access.ts";
import { connectionError, workerRefusal } from "../worker/worker_errors.ts";

/** Longest answer to a probe; SGLang's server info is some 32 kB. */
const MAX_ANSWER_BYTES = 4 * 1024 * 1024;

/** Options of `probe`. */
export interface ProbeOptions {
  readonly config: ModelConfig;
  readonly transport: Transport;
  readonly clock: Clock;
  /** The worker's base URL; the decode side of a pair. */
  readonly url: string;
  /** As `workerHeaders` gives them. */
  readonly headers: Readonly<Record<string, string>>;
  readonly signal: AbortSignal;
}

/** A GET's JSON object; undefined for 404 and the like, and for anything that is not an object. */
export async function askedJson(options: ProbeOptions, path: string): Promise<JsonObject | undefined> {
  const text = await askedText(options, path);
  return text === undefined ? undefined : asObject(text);
}

/** The body of a GET's 200; undefined for 404 and the like. */
export async function askedText(options: ProbeOptions, path: string): Promise<string | undefined> {
  const { transport, clock, url, headers, config } = options;
  const late = new Error(`No answer to ${path} within ${config.health.timeout_ms} ms`);
  const { signal, release } = deadlineSignal(clock, config.health.timeout_ms, late, options.signal);
  try {
    const response = await transport.send({
      method: "GET",
      url: workerUrl(url, path),
      lane: "control",
      headers,
      connectTimeoutMs: config.connect_timeout_ms,
    }, signal);
    const decoder = new TextDecoder();
    let text = "";
    for await (const chunk of response.body) {
      text += decoder.decode(chunk, { stream: true });
      if (text.length > MAX_ANSWER_BYTES) return undefined;
    }
    const { status } = response;
    if (status === 401 || status === 403 || status === 429 || status >= 500) {
      throw workerRefusal({ workerId: url, url }, status, text);
    }
    return status === 200 ? text : undefined;
  } catch (error) {
    options.signal.throwIfAborted();
    throw connectionError({ workerId: url, url }, error);
  } finally {
    release();
  }
}

/** A text's JSON object; undefined for anything else. */
export function asObject(text: string): JsonObject | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isJsonObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}
