import { CanopyError, messageOf } from "../../base/errors.ts";
import { isJsonObject, type JsonObject } from "../../base/json.ts";
import { readText } from "../../base/read_body.ts";
import type { IncomingResponse, Transport } from "../../base/transport.ts";

/** Access to an API server. */
export interface KubernetesAccess {
  /** Such as `https://10.96.0.1:443`. */
  readonly url: string;
  /** All namespaces when undefined. */
  readonly namespace: string | undefined;
  /** The bearer token, read anew for each request: the cluster replaces it every hour. */
  readonly token: () => string | undefined;
}

/** The watch can go on no longer from where it was: everything is to be listed anew. */
export class ResourceExpired extends Error {
  override readonly name = "ResourceExpired";
}

/** A list of objects, and the version from which a watch sees all that comes after it. */
export interface ObjectList {
  readonly items: readonly JsonObject[];
  readonly resourceVersion: string;
}

/** One event of a watch. */
export interface WatchEvent {
  readonly type: "ADDED" | "MODIFIED" | "DELETED" | "BOOKMARK";
  readonly object: JsonObject;
}

/** The API server ends a watch after this long; the next one goes on from where it was. */
const WATCH_SECONDS = 290;
/** Objects in one answer of a list. */
const PAGE = 500;
/** Longest event: a pod with all its status is some tens of kilobytes. */
const MAX_EVENT_LENGTH = 8 * 1024 * 1024;
const MAX_LIST_BYTES = 256 * 1024 * 1024;

/** The pods of a Kubernetes API server by label, now and as they change. */
export class KubernetesPods {
  readonly #access: KubernetesAccess;
  readonly #transport: Transport;
  readonly #selector: string;

  constructor(access: KubernetesAccess, transport: Transport, selector: string) {
    this.#access = access;
    this.#transport = transport;
    this.#selector = selector;
  }

  /** All pods, page by page. Throws `CanopyError` when the API server refuses, `ResourceExpired` when it took too long. */
  async list(signal: AbortSignal): Promise<ObjectList> {
    const items: JsonObject[] = [];
    let next = "";
    while (true) {
      const response = await this.#get(
        { limit: String(PAGE), ...(next === "" ? {} : { continue: next }) },
        signal,
      );
      const body: unknown = JSON.parse(await textOf(response));
      const metadata = isJsonObject(body) && isJsonObject(body.metadata) ? body.metadata : {};
      if (isJsonObject(body) && Array.isArray(body.items)) items.push(...body.items.filter(isJsonObject));
      next = typeof metadata.continue === "string" ? metadata.continue : "";
      if (next !== "") continue;
      return { items, resourceVersion: String(metadata.resourceVersion ?? "") };
    }
  }

  /** Changes after a version, until the API server ends the answer. Throws `ResourceExpired` when it is too old (410). */
  async *watch(resourceVersion: string, signal: AbortSignal): AsyncGenerator<WatchEvent, void, undefined> {
    const query = {
      watch: "1",
      allowWatchBookmarks: "true",
      timeoutSeconds: String(WATCH_SECONDS),
      resourceVersion,
    };
    const response = await this.#get(query, signal);
    for await (const line of linesOf(response)) {
      const event: unknown = JSON.parse(line);
      if (!isJsonObject(event) || !isJsonObject(event.object)) continue;
      const { type, object } = event;
      if (type === "ERROR") throw failure(Number(object.code), String(object.message ?? "unknown"));
      if (type === "ADDED" || type === "MODIFIED" || type === "DELETED" || type === "BOOKMARK") {
        yield { type, object };
      }
    }
  }

  async #get(query: Readonly<Record<string, string>>, signal: AbortSignal): Promise<IncomingResponse> {
    const { url, namespace, token } = this.#access;
    const parameters = new URLSearchParams({ labelSelector: this.#selector, ...query });
    const bearer = token();
    const response = await this.#transport.send({
      method: "GET",
      url: namespace === undefined
        ? `${url}/api/v1/pods?${parameters}`
        : `${url}/api/v1/namespaces/${encodeURIComponent(namespace)}/pods?${parameters}`,
      headers: {
        accept: "application/json",
        "accept-encoding": "identity",
        ...(bearer === undefined ? {} : { authorization: `Bearer ${bearer}` }),
      },
    }, signal);
    if (response.status === 200) return response;
    throw failure(response.status, messageIn(await textOf(response)));
  }
}

function failure(status: number, message: string): Error {
  if (status === 410) return new ResourceExpired(message);
  const advice = status === 401 || status === 403
    ? ": give the pod's service account leave to get, list and watch pods"
    : "";
  return new CanopyError(`Kubernetes answered with status ${status}: ${message}${advice}`, {
    code: "kubernetes_error",
    status: 502,
  });
}

function messageIn(text: string): string {
  try {
    const body: unknown = JSON.parse(text);
    return isJsonObject(body) && typeof body.message === "string" ? body.message : text.slice(0, 300);
  } catch (error) {
    return text === "" ? messageOf(error) : text.slice(0, 300);
  }
}

function textOf({ body }: IncomingResponse): Promise<string> {
  return readText(body, MAX_LIST_BYTES, "Kubernetes' answer");
}

async function* linesOf({ body }: IncomingResponse): AsyncGenerator<string, void, undefined> {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const chunk of body) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split("\n");
    rest = lines.pop() ?? "";
    if (rest.length > MAX_EVENT_LENGTH) throw new Error("Kubernetes' event is too long");
    for (const line of lines) if (line.trim() !== "") yield line;
  }
  if (rest.trim() !== "") yield rest;
}
