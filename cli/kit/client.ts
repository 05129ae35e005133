import { CanopyError } from "../../base/errors.ts";
import { parseJsonExactly } from "../../base/int64.ts";
import { isJsonObject, type Json, type JsonObject } from "../../base/json.ts";
import {
  type IncomingResponse,
  type OutgoingRequest,
  type Transport,
  TransportError,
} from "../../base/transport.ts";
import { oneLine } from "./terminal.ts";
import { DONE, SseParser } from "../../router/wire/sse.ts";

/** A server to talk to. */
export interface Server {
  /** Without `/v1` and without a slash at the end. */
  readonly url: string;
  readonly apiKey: string | undefined;
}

/** Pieces of an answer, as they stream in. */
export type ChatEvent =
  /** The answer has begun; the id of its run, where the server tells. */
  | { readonly type: "head"; readonly runId: string | undefined }
  | { readonly type: "text"; readonly text: string }
  /** Log-probabilities of the tokens of a piece, where they were asked for. */
  | { readonly type: "logprobs"; readonly values: readonly number[] }
  /** Why the answer has ended, such as `stop` or `length`. */
  | { readonly type: "finish"; readonly reason: string }
  | { readonly type: "usage"; readonly usage: JsonObject }
  /** The answer's `canopy` object. */
  | { readonly type: "canopy"; readonly canopy: JsonObject };

/** Longest error body that is read. */
const MAX_ERROR_BYTES = 64 * 1024;
/** Longest JSON answer that is read: the record of a large run. */
const MAX_JSON_BYTES = 64 * 1024 * 1024;

/** `http://host:8000/v1/` → `http://host:8000`. */
export function serverUrl(text: string): string {
  const withScheme = text.includes("://") ? text : `http://${text}`;
  if (!URL.canParse(withScheme) || !/^https?:/.test(withScheme)) {
    throw new CanopyError(`Cannot use the URL "${text}": write it like http://127.0.0.1:8000`, {
      code: "invalid_url",
      status: 400,
    });
  }
  return withScheme.replace(/\/+$/, "").replace(/\/v1$/, "");
}

/**
 * Asks a question and gives the answer as it streams in. Throws `CanopyError` with the server's own words. `requestId`:
 * by which the question's run can be found.
 */
export async function* streamChat(
  transport: Transport,
  server: Server,
  body: JsonObject,
  signal: AbortSignal,
  requestId?: string,
): AsyncGenerator<ChatEvent, void, undefined> {
  const response = await send(transport, server, {
    method: "POST",
    url: `${server.url}/v1/chat/completions`,
    headers: headersOf(server, requestId),
    body: JSON.stringify({ ...body, stream: true, stream_options: { include_usage: true } }),
  }, signal);
  if (response.status !== 200) throw await refusal(server, response);
  yield { type: "head", runId: response.headers["x-canopy-run-id"] };
  const parser = new SseParser();
  let done = false;
  for await (const bytes of response.body) {
    for (const data of parser.push(bytes)) {
      if (data === DONE) done = true;
      else yield* eventsOf(server, chunkOf(server, data));
    }
  }
  if (!done) throw failure(server, "its answer broke off before the end");
}

function chunkOf(server: Server, data: string): unknown {
  try {
    return JSON.parse(data);
  } catch (cause) {
    throw failure(server, `its stream has no JSON: ${oneLine(data.slice(0, 300))}`, { cause });
  }
}

function* eventsOf(server: Server, chunk: unknown): Generator<ChatEvent, void, undefined> {
  if (!isJsonObject(chunk)) return;
  if (chunk.error !== undefined && chunk.error !== null) throw failure(server, errorText(chunk));
  const choice: Json | undefined = Array.isArray(chunk.choices) ? chunk.choices[0] : undefined;
  const delta = isJsonObject(choice) ? choice.delta : undefined;
  const text = isJsonObject(delta) ? delta.content : undefined;
  if (typeof text === "string" && text !== "") yield { type: "text", text };
  const values = isJsonObject(choice) ? logprobsOf(choice.logprobs) : [];
  if (values.length > 0) yield { type: "logprobs", values };
  const reason = isJsonObject(choice) ? choice.finish_reason : undefined;
  if (typeof reason === "string") yield { type: "finish", reason };
  if (isJsonObject(chunk.usage)) yield { type: "usage", usage: chunk.usage };
  if (isJsonObject(chunk.canopy)) yield { type: "canopy", canopy: chunk.canopy };
}

function logprobsOf(logprobs: Json | undefined): number[] {
  const content = isJsonObject(logprobs) && Array.isArray(logprobs.content) ? logprobs.content : [];
  return content.flatMap((entry) =>
    isJsonObject(entry) && typeof entry.logprob === "number" ? [entry.logprob] : []
  );
}

/** GETs a JSON document. Throws `CanopyError` with the server's own words. */
export async function getJson(
  transport: Transport,
  server: Server,
  path: string,
  signal: AbortSignal,
): Promise<Json> {
  const request = { method: "GET", url: server.url + path, headers: headersOf(server) } as const;
  return await jsonOf(server, path, await send(transport, server, request, signal));
}

/** GETs a text. Throws `CanopyError` with the server's own words. */
export async function getText(
  transport: Transport,
  server: Server,
  path: string,
  signal: AbortSignal,
): Promise<string> {
  const request = { method: "GET", url: server.url + path, headers: headersOf(server) } as const;
  const response = await send(transport, server, request, signal);
  if (response.status !== 200) throw await refusal(server, response);
  return await readResponseText(response, MAX_JSON_BYTES);
}

/** POSTs a JSON document, under the id by which its run can be found, and gives the one that is answered. Throws `CanopyError` with the server's own words. */
export async function postJson(
  transport: Transport,
  server: Server,
  { path, body, requestId }: {
    readonly path: string;
    readonly body: JsonObject;
    readonly requestId?: string | undefined;
  },
  signal: AbortSignal,
): Promise<Json> {
  const request = {
    method: "POST",
    url: server.url + path,
    headers: headersOf(server, requestId),
    body: JSON.stringify(body),
  } as const;
  return await jsonOf(server, path, await send(transport, server, request, signal));
}

async function jsonOf(server: Server, path: string, response: IncomingResponse): Promise<Json> {
  if (response.status !== 200) throw await refusal(server, response);
  const text = await readResponseText(response, MAX_JSON_BYTES);
  try {
    return parseJsonExactly(text, ["seed"]);
  } catch (cause) {
    throw failure(server, `${path} is not JSON`, { cause });
  }
}

/** The names under `/v1/models`. */
export async function listModels(
  transport: Transport,
  server: Server,
  signal: AbortSignal,
): Promise<string[]> {
  return (await listServed(transport, server, signal)).map(({ id }) => id);
}

/** A model or graph as a server lists it. */
export interface ServedName {
  readonly id: string;
  /** True where the server says that it is a simulation, as Canopy's simulated engines, and routers before them, do. */
  readonly simulated: boolean;
  /** Of a graph of Canopy. */
  readonly graph?: true | undefined;
}

/** The entries under `/v1/models`. */
export async function listServed(
  transport: Transport,
  server: Server,
  signal: AbortSignal,
): Promise<ServedName[]> {
  const body = await getJson(transport, server, "/v1/models", signal);
  const list = isJsonObject(body) && Array.isArray(body.data) ? body.data : [];
  return list.flatMap((entry) =>
    isJsonObject(entry) && typeof entry.id === "string"
      ? [{
        id: entry.id,
        simulated: entry.simulated === true,
        ...entry.owned_by === "canopy" ? { graph: true } : {},
      }]
      : []
  );
}

/** The model that is listed first. Throws 404 `no_model` where there is none. */
export function firstModel(server: Server, [first]: readonly ServedName[]): string {
  if (first !== undefined) return first.id;
  throw new CanopyError(`The server at ${server.url} lists no model: name one with --model`, {
    code: "no_model",
    status: 404,
  });
}

/** Whether a Canopy answers at a URL. */
export async function isCanopy(
  transport: Transport,
  url: string,
  signal: AbortSignal,
): Promise<boolean> {
  try {
    const document = await getJson(transport, { url, apiKey: undefined }, "/openapi.json", signal);
    const info = isJsonObject(document) ? document.info : undefined;
    return isJsonObject(info) && info.title === "Canopy";
  } catch {
    return false;
  }
}

/** The beginning of a body as text. */
export async function readResponseText(response: IncomingResponse, maxBytes: number): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  let bytes = 0;
  for await (const piece of response.body) {
    bytes += piece.length;
    text += decoder.decode(piece, { stream: true });
    if (bytes > maxBytes) break;
  }
  return text;
}

async function send(
  transport: Transport,
  server: Server,
  request: OutgoingRequest,
  signal: AbortSignal,
): Promise<IncomingResponse> {
  try {
    return await transport.send(request, signal);
  } catch (cause) {
    if (!(cause instanceof TransportError) || cause.code !== "connect_failed") throw cause;
    throw new CanopyError(
      `Cannot reach a server at ${server.url}: start one with "canopy serve", or name another one with --url`,
      { code: "server_unreachable", status: 502, cause },
    );
  }
}

function headersOf(server: Server, requestId?: string): Record<string, string> {
  const headers = {
    "content-type": "application/json",
    accept: "application/json, text/event-stream",
    ...(requestId === undefined ? {} : { "x-request-id": requestId }),
  };
  return server.apiKey === undefined ? headers : { ...headers, authorization: `Bearer ${server.apiKey}` };
}

async function refusal(server: Server, response: IncomingResponse): Promise<CanopyError> {
  const text = await readResponseText(response, MAX_ERROR_BYTES);
  let said = text.slice(0, 300).trim();
  try {
    said = errorText(JSON.parse(text));
  } catch {
    // Not JSON: its words as they are, unless they are a page.
    if (said.startsWith("<")) said = "a web page, so this is no OpenAI-compatible server";
  }
  const refused = response.status === 401 || response.status === 403;
  const what = `status ${response.status}${said === "" ? "" : `: ${said}`}`;
  if (refused) return failure(server, `${what} (set CANOPY_API_KEY)`, { code: "key_refused" });
  return failure(server, what, { code: response.status === 404 ? "not_found" : undefined });
}

function errorText(body: unknown): string {
  if (!isJsonObject(body)) return JSON.stringify(body);
  const error = body.error ?? body;
  if (typeof error === "string") return error;
  return isJsonObject(error) && typeof error.message === "string" ? error.message : JSON.stringify(error);
}

function failure(
  server: Server,
  what: string,
  { code = "server_failed", cause }: { readonly code?: string | undefined; readonly cause?: unknown } = {},
): CanopyError {
  return new CanopyError(`The server at ${server.url} did not answer: ${oneLine(what)}`, {
    code,
    status: 502,
    cause,
  });
}
