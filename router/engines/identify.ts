import { type Clock, deadlineSignal } from "../../base/clock.ts";
import { CanopyError, messageOf } from "../../base/errors.ts";
import { isJsonObject, type JsonObject } from "../../base/json.ts";
import { readText } from "../../base/read_body.ts";
import type { Transport } from "../../base/transport.ts";
import { workerUrl } from "../worker/worker_access.ts";

/** Longest answer that is read. */
const MAX_ANSWER_BYTES = 16 * 1024 * 1024;

/** A server that nobody knows anything of yet. */
export interface UnknownServer {
  readonly transport: Transport;
  readonly clock: Clock;
  readonly url: string;
  /** Its bearer token among them, where there is one. */
  readonly headers: Readonly<Record<string, string>>;
  /** Longest wait for each answer. */
  readonly timeoutMs: number;
}

/** A server's own word about itself. */
export interface ServerIdentity {
  readonly engine: "openai" | "vllm" | "sglang";
  /** The first model that it lists; undefined when it wants another key than it was sent. */
  readonly model: string | undefined;
  /** 401 or 403 where it wants another key. */
  readonly refusal: number | undefined;
}

/** Asks a server what it is and which model it has. Throws `worker_unreachable` (502) while it cannot say. */
export async function identifyServer(server: UnknownServer, signal: AbortSignal): Promise<ServerIdentity> {
  const { status, body } = await get(server, "/v1/models", signal);
  const first = Array.isArray(body?.data) ? body.data.find(isJsonObject) : undefined;
  if (typeof first?.id === "string" && first.id !== "") {
    const engine = first.owned_by === "sglang" || first.owned_by === "vllm"
      ? first.owned_by
      : await engineOf(server, signal);
    return { engine, model: first.id, refusal: undefined };
  }
  if (status === 401 || status === 403) {
    // vLLM's key guards /v1 alone, SGLang's all but its probes.
    const version = await get(server, "/version", signal);
    const engine = typeof version.body?.version === "string" ? "vllm" : "sglang";
    return { engine, model: undefined, refusal: status };
  }
  throw unnamed(
    server,
    `status ${status} to GET /v1/models${status === 200 ? ", which lists no model" : ""}`,
  );
}

async function engineOf(server: UnknownServer, signal: AbortSignal): Promise<ServerIdentity["engine"]> {
  const [version, info, older] = await Promise.all(
    ["/version", "/server_info", "/get_server_info"].map((path) => get(server, path, signal)),
  );
  if (typeof version?.body?.version === "string") return "vllm";
  return info?.body?.version !== undefined || older?.body?.version !== undefined ? "sglang" : "openai";
}

async function get(
  server: UnknownServer,
  path: string,
  signal: AbortSignal,
): Promise<{ readonly status: number; readonly body: JsonObject | undefined }> {
  const { transport, clock, url, headers, timeoutMs } = server;
  const late = new Error(`no answer to GET ${path} within ${timeoutMs} ms`);
  const deadline = deadlineSignal(clock, timeoutMs, late, signal);
  let status: number;
  let text: string;
  try {
    const response = await transport.send({
      method: "GET",
      url: workerUrl(url, path),
      lane: "control",
      headers: { ...headers, "accept-encoding": "identity" },
      connectTimeoutMs: timeoutMs,
    }, deadline.signal);
    status = response.status;
    text = await readText(response.body, MAX_ANSWER_BYTES, "its answer");
  } catch (error) {
    signal.throwIfAborted();
    throw unnamed(server, messageOf(error));
  } finally {
    deadline.release();
  }
  return { status, body: status === 200 ? objectOf(text) : undefined };
}

function objectOf(text: string): JsonObject | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isJsonObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

function unnamed({ url }: UnknownServer, why: string): CanopyError {
  return new CanopyError(`${url} has not named its model yet: ${why}`, {
    code: "worker_unreachable",
    status: 502,
  });
}
