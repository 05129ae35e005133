import assert from "node:assert/strict";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { test } from "node:test";
import { SystemClock, VirtualClock } from "../../../base/clock.ts";
import type { JsonObject } from "../../../base/json.ts";
import type { Transport } from "../../../base/transport.ts";
import { followPods } from "../../../router/discovery/kubernetes.ts";
import { KubernetesPods } from "../../../router/discovery/kubernetes_api.ts";
import type { Member } from "../../../router/discovery/membership.ts";
import { memberOf } from "../../../router/discovery/pods.ts";
import { systemTransport } from "../../../router/transport/system.ts";

const clock = new SystemClock();

/** A pod as the API server writes it, cut to what a reader of it may look at. */
function pod(name: string, version: number, change: {
  ip?: string;
  ready?: boolean;
  labels?: Record<string, string>;
  annotations?: Record<string, string>;
  leaving?: boolean;
} = {}): JsonObject {
  const { ip = `10.0.0.${name.length}`, ready = true, labels = {}, annotations = {}, leaving = false } =
    change;
  return {
    kind: "Pod",
    apiVersion: "v1",
    metadata: {
      name,
      namespace: "llm",
      uid: `uid-${name}`,
      resourceVersion: String(version),
      creationTimestamp: "2026-11-20T10:00:00Z",
      ...(leaving ? { deletionTimestamp: "2026-11-20T11:00:00Z", deletionGracePeriodSeconds: 30 } : {}),
      labels: { "app.kubernetes.io/part-of": "canopy", ...labels },
      annotations,
    },
    spec: {
      containers: [{
        name: "engine",
        image: "vllm/vllm-openai:v0.32.0",
        ports: [{ name: "http", containerPort: 30_000, protocol: "TCP" }],
      }],
    },
    status: {
      phase: "Running",
      podIP: ip,
      conditions: [
        { type: "Initialized", status: "True" },
        { type: "Ready", status: ready ? "True" : "False" },
      ],
    },
  };
}

type Handler = (url: URL, request: IncomingMessage, response: ServerResponse) => void;

/** An API server that answers the n-th request as told, and the last way from then on; what it was asked. */
async function withApi(
  handlers: readonly Handler[],
  use: (
    api: { url: string; asked: { query: URLSearchParams; path: string; token: string | undefined }[] },
  ) => Promise<void>,
): Promise<void> {
  const asked: { query: URLSearchParams; path: string; token: string | undefined }[] = [];
  const server = createServer((request, response) => {
    const url = new URL(request.url ?? "/", "http://api");
    asked.push({ query: url.searchParams, path: url.pathname, token: request.headers.authorization });
    handlers[Math.min(asked.length, handlers.length) - 1]?.(url, request, response);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", () => resolve()));
  const address = server.address();
  const port = typeof address === "object" && address !== null ? address.port : 0;
  try {
    await use({ url: `http://127.0.0.1:${port}`, asked });
  } finally {
    server.closeAllConnections();
    await new Promise<void>((resolve) => server.close(() => resolve()));
  }
}

const list = (version: number, items: JsonObject[], next = ""): Handler => (_, __, response) => {
  response.setHeader("content-type", "application/json");
  const metadata = { resourceVersion: String(version), ...(next === "" ? {} : { continue: next }) };
  response.end(JSON.stringify({ kind: "PodList", apiVersion: "v1", metadata, items }));
};

/** Sends these events, each in two pieces, and ends; or stays open. */
const watch = (events: readonly [string, JsonObject][], end: boolean): Handler => (_, __, response) => {
  response.setHeader("content-type", "application/json");
  const text = events.map(([type, object]) => `${JSON.stringify({ type, object })}\n`).join("");
  response.write(text.slice(0, 40));
  setImmediate(() => {
    response.write(text.slice(40));
    if (end) response.end();
  });
};

const refuse = (status: number, message: string): Handler => (_, __, response) => {
  response.statusCode = status;
  response.end(JSON.stringify({ kind: "Status", status: "Failure", message, code: status }));
};

/** Follows the pods until `enough` says so; the members each time they changed, as text. */
async function follow(url: string, enough: (seen: readonly string[]) => boolean): Promise<string[]> {
  const seen: string[] = [];
  const stop = new AbortController();
  const transport = systemTransport();
  const access = { url, namespace: "llm", token: () => "secret" };
  const selector = "app.kubernetes.io/part-of=canopy,tier=gpu";
  const pods = new KubernetesPods({ access, transport, selector, clock });
  const done = followPods({
    pods,
    rules: { models: ["m"], port: undefined },
    clock,
    onMembers: (members) => {
      const text = members.map(textOf).join(" ");
      if (seen.at(-1) !== text) seen.push(text);
      if (enough(seen)) stop.abort();
    },
  }, stop.signal);
  await done;
  await transport.close();
  return seen;
}

function textOf({ worker, leaving }: Member): string {
  const role = worker.role === undefined ? "" : `${worker.role}=`;
  const registry = worker.bootstrapPort === undefined ? "" : `/${worker.bootstrapPort}`;
  return `${role}${worker.url.replace("http://", "")}${registry}${leaving ? "-leaving" : ""}`;
}

test("pods join when they are ready, drain when they are deleted, and leave when they are gone", async () => {
  await withApi([
    list(5, [pod("a", 3)], "page2"),
    list(5, [pod("bb", 4, { ready: false })]),
    watch([
      ["MODIFIED", pod("bb", 6)],
      ["BOOKMARK", { kind: "Pod", apiVersion: "v1", metadata: { resourceVersion: "9" } }],
    ], true),
    watch([
      ["ADDED", pod("ccc", 10, { ip: "" })],
      ["MODIFIED", pod("a", 11, { leaving: true, ready: false })],
      ["DELETED", pod("a", 12, { leaving: true })],
    ], false),
  ], async ({ url, asked }) => {
    const seen = await follow(url, (all) => all.length === 4);
    assert.deepEqual(seen, [
      "10.0.0.1:30000",
      "10.0.0.1:30000 10.0.0.2:30000",
      "10.0.0.1:30000-leaving 10.0.0.2:30000",
      "10.0.0.2:30000",
    ]);
    assert.ok(
      asked.every(({ path, token }) => path === "/api/v1/namespaces/llm/pods" && token === "Bearer secret"),
    );
    assert.ok(
      asked.every(({ query }) => query.get("labelSelector") === "app.kubernetes.io/part-of=canopy,tier=gpu"),
    );
    assert.deepEqual(asked.map(({ query }) => query.get("continue") ?? query.get("resourceVersion")), [
      null,
      "page2",
      "5",
      "9", // the bookmark's
    ]);
  });
});

test("after a 410 everything is listed anew, be it the answer or an event", async () => {
  const gone = {
    kind: "Status",
    status: "Failure",
    reason: "Expired",
    code: 410,
    message: "too old resource version",
  };
  await withApi([
    list(5, [pod("a", 3)]),
    watch([["ERROR", gone]], true),
    list(50, [pod("bb", 40)]),
    refuse(410, "too old resource version: 50 (99)"),
    list(100, [pod("ccc", 90)]),
    watch([], false),
  ], async ({ url, asked }) => {
    const seen = await follow(url, (all) => all.length === 3);
    assert.deepEqual(seen, ["10.0.0.1:30000", "10.0.0.2:30000", "10.0.0.3:30000"]);
    assert.deepEqual(asked.map(({ query }) => query.get("resourceVersion")).slice(0, 5), [
      null,
      "5",
      null,
      "50",
      null,
    ]);
  });
});

test("while the API server fails the members stay, and what it refuses is told with what to do", async () => {
  await withApi([
    list(5, [pod("a", 3)]),
    watch([], true),
    refuse(500, "etcdserver: leader changed"),
    list(7, [pod("a", 3), pod("bb", 6)]),
    watch([], false),
  ], async ({ url }) => {
    assert.deepEqual(await follow(url, (all) => all.length === 2), [
      "10.0.0.1:30000",
      "10.0.0.1:30000 10.0.0.2:30000",
    ]);
  });
  await withApi(
    [refuse(403, 'pods is forbidden: User "system:serviceaccount:llm:default" cannot list')],
    async ({ url }) => {
      const transport = systemTransport();
      const podsOf = (namespace?: string) =>
        new KubernetesPods({
          access: { url, namespace, token: () => undefined },
          transport,
          selector: "a=b",
          clock,
        });
      const { signal } = new AbortController();
      const told =
        'Kubernetes answered with status 403: pods is forbidden: User "system:serviceaccount:llm:default" cannot list: ';
      await assert.rejects(podsOf("llm").list(signal), {
        message:
          `${told}the verb "list" on pods in namespace llm is missing: bind the service account to a Role with the ` +
          'verbs "list" and "watch" on pods',
      });
      await assert.rejects(podsOf().watch("1", signal).next(), {
        message:
          `${told}the verb "watch" on pods of all namespaces is missing: bind the service account to a ClusterRole ` +
          'with the verbs "list" and "watch" on pods',
      });
      await transport.close();
    },
  );
});

test("a token that is refused is told with what to do", async () => {
  await withApi([refuse(401, "Unauthorized")], async ({ url }) => {
    const transport = systemTransport();
    const access = { url, namespace: "llm", token: () => "old" };
    const pods = new KubernetesPods({ access, transport, selector: "a=b", clock });
    await assert.rejects(pods.list(new AbortController().signal), {
      message: /^Kubernetes answered with status 401: Unauthorized: its token is missing or wrong; mount/,
    });
    await transport.close();
  });
});

test("a watch on a connection that died without a word ends some time after its own", async () => {
  const virtual = new VirtualClock();
  let ended = false;
  const transport: Transport = {
    send: (_, signal) =>
      Promise.resolve({
        status: 200,
        headers: {},
        body: (async function* () {
          await virtual.sleep(Infinity, signal);
          yield new Uint8Array();
        })(),
      }),
    close: () => Promise.resolve(),
  };
  const access = { url: "http://api", namespace: undefined, token: () => undefined };
  const pods = new KubernetesPods({ access, transport, selector: "a=b", clock: virtual });
  const watching = pods.watch("1", new AbortController().signal).next().catch((error: Error) => {
    ended = true;
    return error.message;
  });
  await virtual.advance(300_000);
  assert.equal(ended, false);
  await virtual.advance(321_000);
  assert.equal(await watching, "the watch has hung: its connection is dead");
});

test("labels say which model and which half a pod serves, annotations where its registry is", () => {
  const rules = { models: ["4b", "Qwen/Qwen3-8B"], port: undefined };
  const of = (change: Parameters<typeof pod>[2], port?: number) => {
    const member = memberOf(pod("p", 1, change), { ...rules, port });
    return member === undefined ? undefined : `${member.model} ${textOf(member)}`;
  };
  const model = (name: string, role?: string) => ({
    "canopy.dev/model": name,
    ...(role === undefined ? {} : { "canopy.dev/role": role }),
  });
  assert.equal(of({ labels: model("4b") }), "4b 10.0.0.1:30000");
  assert.equal(of({ labels: model("Qwen-Qwen3-8B", "whole") }, 8000), "Qwen/Qwen3-8B 10.0.0.1:8000");
  const annotations = { "canopy.dev/bootstrap-port": "8998" };
  assert.equal(of({ labels: model("4b", "prefill"), annotations }), "4b prefill=10.0.0.1:30000/8998");
  assert.equal(of({ labels: model("4b", "decode"), annotations }), "4b decode=10.0.0.1:30000");
  const theirs = { "sglang.ai/bootstrap-port": "9001" };
  assert.equal(of({ labels: model("4b", "prefill"), annotations: theirs }), "4b prefill=10.0.0.1:30000/9001");
  assert.equal(of({ labels: model("4b"), ip: "fd00::7" }), "4b [fd00::7]:30000");
  // The further hosts of one engine, the router itself, another model: none of them serves.
  assert.equal(of({ labels: model("4b", "worker") }), undefined);
  assert.equal(of({}), undefined);
  assert.equal(of({ labels: model("70b") }), undefined);
});
