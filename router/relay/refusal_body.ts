import { isJsonObject } from "../../base/json.ts";
import { errorBody, errorBodyAt } from "../wire/error_form.ts";
import type { CalledWorker } from "../worker/upstream_call.ts";
import { readComplaint, streamedError, workerRefusal } from "../worker/worker_errors.ts";

/** Longest complaint that is looked at; longer ones are no mere errors. */
export const MAX_REFUSAL_BYTES = 1024 * 1024;

/** Signs of a server's own source, or of the request that it repeats. */
const INSIDE = /\n[ \t]*File "|'input': |"input":|'ctx': /;

/** True for statuses with which an engine blames the request, or has no room for it. */
export function isRefusalStatus(status: number): boolean {
  return status === 503 || (status >= 400 && status < 500 && ![401, 403, 408].includes(status));
}

/**
 * The body of an engine's 4xx or 503 for the client: as it is, but for plain text, for SGLang's and FastAPI's own forms, and
 * for what tells of the engine's inside. Of these the sentence is passed on, in our own form.
 */
export function refusalBody(
  worker: CalledWorker,
  { status, path }: { readonly status: number; readonly path: string },
  bytes: Uint8Array,
): Uint8Array {
  const text = new TextDecoder().decode(bytes);
  if (!tellsInside(text) && isInForm(text)) return bytes;
  return new TextEncoder().encode(JSON.stringify(errorBodyAt(path, workerRefusal(worker, status, text))));
}

/** Whole events, the first of which is an error: without what tells of the engine's inside. */
export function refusalEvents(worker: CalledWorker, events: Uint8Array): Uint8Array {
  const text = new TextDecoder().decode(events);
  if (!tellsInside(text)) return events;
  const clean = text.replace(/^data: (\{"error".*)$/gm, (line, json: string) => {
    try {
      return `data: ${JSON.stringify(errorBody(streamedError(worker, readComplaint(JSON.parse(json)))))}`;
    } catch {
      return line;
    }
  });
  return new TextEncoder().encode(clean);
}

function tellsInside(text: string): boolean {
  return INSIDE.test(text.replaceAll("\\n", "\n").replaceAll('\\"', '"'));
}

function isInForm(text: string): boolean {
  try {
    const body: unknown = JSON.parse(text);
    return isJsonObject(body) && body.object !== "error" && body.detail === undefined;
  } catch {
    return false;
  }
}
