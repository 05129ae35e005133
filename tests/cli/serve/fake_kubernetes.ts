import { createServer, type ServerResponse } from "node:http";
import type { JsonObject } from "../../../base/json.ts";

/** A pod of a fake cluster. */
export interface FakePod {
  readonly name: string;
  readonly ip: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly namespace?: string;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly ready?: boolean;
  readonly leaving?: boolean;
}

interface Watcher {
  readonly response: ServerResponse;
  readonly matches: (pod: FakePod) => boolean;
  /** Names of the pods that it was told of. */
  readonly known: Set<string>;
}

/**
 * An imitated API server over HTTP, as far as pods go: lists in pages of two, watches by label and namespace from a
 * version on, bookmarks, 410 for versions that it has forgotten, 401 and 403.
 */
export class FakeKubernetes {
  /** The questions, such as `list /api/v1/pods app=a`. */
  readonly asked: string[] = [];
  /** Verbs that the account lacks. */
  readonly forbidden = new Set<"list" | "watch">();
  /** The bearer token that it wants. */
  token: string | undefined;
  url = "";
  readonly #pods = new Map<string, FakePod>();
  readonly #watchers = new Set<Watcher>();
  #version = 100;
  /** Watches from before this version get 410. */
  #oldest = 0;
  readonly #server = createServer((request, response) => {
    const url = new URL(request.url ?? "/", "http://api");
    const verb = url.searchParams.get("watch") === "1" ? "watch" : "list";
    const selector = url.searchParams.get("labelSelector") ?? "";
    this.asked.push(`${verb} ${url.pathname} ${selector}`);
    if (this.token !== undefined && request.headers.authorization !== `Bearer ${this.token}`) {
      return refuse(response, 401, "Unauthorized");
    }
    if (this.forbidden.has(verb)) {
      const who = "system:serviceaccount:llm:default";
      return refuse(response, 403, `pods is forbidden: User "${who}" cannot ${verb} resource "pods"`);
    }
    const matches = matcherOf(url.pathname, selector);
    if (verb === "list") this.#list(url, response, matches);
    else this.#watch(url, response, matches);
  });

  async start(): Promise<void> {
    await new Promise<void>((resolve) => this.#server.listen(0, "127.0.0.1", () => resolve()));
    const address = this.#server.address();
    this.url = `http://127.0.0.1:${typeof address === "object" && address !== null ? address.port : 0}`;
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise<void>((resolve) => this.#server.close(() => resolve()));
  }

  get watching(): number {
    return this.#watchers.size;
  }

  /** Adds a pod or changes it. */
  put(pod: FakePod): void {
    this.#version++;
    this.#pods.set(pod.name, pod);
    this.#tell(pod, this.#version);
  }

  remove(name: string): void {
    const pod = this.#pods.get(name);
    this.#pods.delete(name);
    this.#version++;
    for (const { response, known } of this.#watchers) {
      if (pod !== undefined && known.delete(name)) write(response, "DELETED", manifest(pod, this.#version));
    }
  }

  bookmark(): void {
    for (const { response } of this.#watchers) {
      write(response, "BOOKMARK", { kind: "Pod", metadata: { resourceVersion: String(this.#version) } });
    }
  }

  /** Cuts all watches in the middle of an event. */
  cut(): void {
    for (const { response } of this.#watchers) {
      response.write('{"type":"MODIFIED","object":{"kind":"Pod","metada');
      response.socket?.destroySoon();
    }
    this.#watchers.clear();
  }

  /** Forgets all versions so far, as etcd does when it is compacted; tells those who watch, and those who come with one. */
  compact(): void {
    this.#version += 10;
    this.#oldest = this.#version;
    const object = { kind: "Status", code: 410, reason: "Expired", message: "too old resource version" };
    for (const { response } of this.#watchers) {
      write(response, "ERROR", object);
      response.end();
    }
    this.#watchers.clear();
  }

  #list(url: URL, response: ServerResponse, matches: (pod: FakePod) => boolean): void {
    const from = Number(url.searchParams.get("continue") ?? 0);
    const all = [...this.#pods.values()].filter(matches);
    const items = all.slice(from, from + 2).map((pod) => manifest(pod, this.#version));
    const next = from + 2 < all.length ? { continue: String(from + 2) } : {};
    const metadata = { resourceVersion: String(this.#version), ...next };
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify({ kind: "PodList", apiVersion: "v1", metadata, items }));
  }

  #watch(url: URL, response: ServerResponse, matches: (pod: FakePod) => boolean): void {
    const version = Number(url.searchParams.get("resourceVersion"));
    if (version < this.#oldest) return refuse(response, 410, "too old resource version");
    response.setHeader("content-type", "application/json");
    response.flushHeaders();
    const known = new Set([...this.#pods.values()].filter(matches).map(({ name }) => name));
    const watcher: Watcher = { response, matches, known };
    this.#watchers.add(watcher);
    response.on("close", () => this.#watchers.delete(watcher));
    // What came between a list and its watch.
    if (version < this.#version) { for (const pod of this.#pods.values()) this.#tell(pod, this.#version); }
  }

  #tell(pod: FakePod, version: number): void {
    for (const { response, matches, known } of this.#watchers) {
      if (matches(pod)) {
        write(response, known.has(pod.name) ? "MODIFIED" : "ADDED", manifest(pod, version));
        known.add(pod.name);
      } else if (known.delete(pod.name)) write(response, "DELETED", manifest(pod, version));
    }
  }
}

function matcherOf(path: string, selector: string): (pod: FakePod) => boolean {
  const namespace = /^\/api\/v1\/namespaces\/([^/]+)\/pods$/.exec(path)?.[1];
  const labels = selector.split(",").map((label) => label.split("="));
  return (pod) =>
    (namespace === undefined || (pod.namespace ?? "default") === namespace) &&
    labels.every(([name = "", value]) => pod.labels[name] === value);
}

function manifest(pod: FakePod, version: number): JsonObject {
  const { name, ip, labels, annotations = {}, namespace = "default", ready = true, leaving = false } = pod;
  return {
    kind: "Pod",
    apiVersion: "v1",
    metadata: {
      name,
      namespace,
      resourceVersion: String(version),
      labels: { ...labels },
      annotations: { ...annotations },
      ...(leaving ? { deletionTimestamp: "2026-11-20T11:00:00Z" } : {}),
    },
    spec: { containers: [{ name: "engine", ports: [{ containerPort: 30_000 }] }] },
    status: {
      phase: "Running",
      podIP: ip,
      conditions: [{ type: "Ready", status: ready ? "True" : "False" }],
    },
  };
}

function write(response: ServerResponse, type: string, object: JsonObject): void {
  response.write(`${JSON.stringify({ type, object })}\n`);
}

function refuse(response: ServerResponse, code: number, message: string): void {
  response.statusCode = code;
  response.end(JSON.stringify({ kind: "Status", status: "Failure", message, code }));
}
