import { type Clock, deadlineSignal } from "../../base/clock.ts";
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
/** A watch that has not ended so long after its time hangs on a connection that nobody told of its end. */
const WATCH_GRACE_SECONDS = 30;
/** Longest wait for a list. */
const LIST_SECONDS = 60;
/** Objects in one answer of a list. */
const PAGE = 500;
/** Longest event: a pod with all its status is some tens of kilobytes. */
const MAX_EVENT_LENGTH = 8 * 1024 * 1024;
const MAX_LIST_BYTES = 256 * 1024 * 1024;

/** Options of `KubernetesPods`. */
export interface KubernetesPodsOptions {
  readonly access: KubernetesAccess;
  readonly transport: Transport;
  /** Labels of the pods, such as `app=sglang,role=inference`. */
  readonly selector: string;
  readonly clock: Clock;
}

/** The pods of a Kubernetes API server by label, now and as they change. */
export class KubernetesPods {
  readonly #access: KubernetesAccess;
  readonly #transport: Transport;
  readonly #selector: string;
  readonly #clock: Clock;

  constructor(options: KubernetesPodsOptions) {
    this.#access = options.access;
    this.#transport = options.transport;
    this.#selector = options.selector;
    this.#clock = options.clock;
  }

  /** All pods, page by page. Throws `CanopyError` when the API server refuses, `ResourceExpired` when it took too long. */
  async list(signal: AbortSignal): Promise<ObjectList> {
    const late = new Error(`Kubernetes gave no list of pods within ${LIST_SECONDS} s`);
    const deadline = deadlineSignal(this.#clock, LIST_SECONDS * 1_000, late, signal);
    try {
      return await this.#list(deadline.signal);
    } finally {
      deadline.release();
    }
  }

  async #list(signal: AbortSignal): Promise<ObjectList> {
    const items: JsonObject[] = [];
    let next = "";
    while (true) {
      const response = await this.#get(
        "list",
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
    const late = new Error("the watch has hung: its connection is dead");
    const limitMs = (WATCH_SECONDS + WATCH_GRACE_SECONDS) * 1_000;
    const deadline = deadlineSignal(this.#clock, limitMs, late, signal);
    try {
      const response = await this.#get("watch", query, deadline.signal);
      for await (const line of linesOf(response)) {
        const event: unknown = JSON.parse(line);
        if (!isJsonObject(event) || !isJsonObject(event.object)) continue;
        const { type, object } = event;
        if (type === "ERROR") {
          throw this.#failure("watch", Number(object.code), String(object.message ?? "unknown"));
        }
        if (type === "ADDED" || type === "MODIFIED" || type === "DELETED" || type === "BOOKMARK") {
          yield { type, object };
        }
      }
    } finally {
      deadline.release();
    }
  }

  async #get(
    verb: Verb,
    query: Readonly<Record<string, string>>,
    signal: AbortSignal,
  ): Promise<IncomingResponse> {
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
    throw this.#failure(verb, response.status, messageIn(await textOf(response)));
  }

  #failure(verb: Verb, status: number, message: string): Error {
    if (status === 410) return new ResourceExpired(message);
    return new CanopyError(
      `Kubernetes answered with status ${status}: ${message}${this.#advice(verb, status)}`,
      { code: "kubernetes_error", status: 502 },
    );
  }

  #advice(verb: Verb, status: number): string {
    const { namespace } = this.#access;
    if (status === 401) {
      return ": its token is missing or wrong; mount the pod's service account (automountServiceAccountToken), " +
        "or set KUBERNETES_TOKEN beside --kubernetes-api";
    }
    if (status !== 403) return "";
    const [kind, where] = namespace === undefined
      ? ["ClusterRole", "of all namespaces"]
      : ["Role", `in namespace ${namespace}`];
    return `: the verb "${verb}" on pods ${where} is missing: bind the service account to a ${kind} ` +
      'with the verbs "list" and "watch" on pods';
  }
}

/** Verbs of RBAC that are needed here. */
type Verb = "list" | "watch";

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
  // A last line without its end is an event that was cut off: it comes again.
}
