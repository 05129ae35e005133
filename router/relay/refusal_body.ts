import { isJsonObject } from "../../base/json.ts";
import { failureBody } from "./answer_body.ts";
import type { CalledWorker } from "../worker/upstream_call.ts";
import { workerRefusal } from "../worker/worker_errors.ts";

/** Longest complaint that is looked at; longer ones are no mere errors. */
export const MAX_REFUSAL_BYTES = 1024 * 1024;

/** Signs of a server's own source, or of the request that it repeats. */
const INSIDE = /\n\s*File "|'input': |"input":|'ctx': /;

/** True for statuses with which an engine blames the request. */
export function isRefusalStatus(status: number): boolean {
  return status >= 400 && status < 500 && ![401, 403, 408, 429].includes(status);
}

/**
 * The body of an engine's 4xx for the client: as it is, but for plain text, for SGLang's and FastAPI's own forms, and
 * for what tells of the engine's inside. Of these the sentence is passed on, in our own form.
 */
export function refusalBody(worker: CalledWorker, status: number, bytes: Uint8Array): Uint8Array {
  const text = new TextDecoder().decode(bytes);
  if (!INSIDE.test(text.replaceAll("\\n", "\n").replaceAll('\\"', '"')) && isInForm(text)) return bytes;
  return new TextEncoder().encode(failureBody(workerRefusal(worker, status, text)));
}

function isInForm(text: string): boolean {
  try {
    const body: unknown = JSON.parse(text);
    return isJsonObject(body) && body.object !== "error" && body.detail === undefined;
  } catch {
    return false;
  }
}
