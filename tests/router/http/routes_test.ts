import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { parse } from "yaml";
import { VirtualClock } from "../../../base/clock.ts";
import { isJsonObject } from "../../../base/json.ts";
import { bearerToken } from "../../../router/http/gate/auth.ts";
import { errorSchema, modelListSchema } from "../../../router/http/openai/response_schema.ts";
import { fakeApp, fakeGraph, parseEvents, pushed, settle } from "./fakes.ts";

test("the models are listed, virtual ones first, hidden ones not, and found by ids with slashes", async () => {
  const { app } = fakeApp({
    clock: new VirtualClock({ unixEpochMs: 1_800_000_000_000 }),
    graphs: [fakeGraph("moa"), fakeGraph("org/tree-9")],
  });
  const { data } = modelListSchema.parse(await (await app.request("/v1/models")).json());
  assert.deepEqual(data.map((model) => model.id), ["moa", "org/tree-9", "small", "big"]);
  assert.deepEqual(data[2], {
    id: "small",
    object: "model",
    created: 1_800_000_000,
    owned_by: "vllm",
    max_model_len: 8192,
  });
  for (const path of ["org/tree-9", "org%2Ftree-9"]) {
    const one = await app.request(`/v1/models/${path}`);
    assert.deepEqual(await one.json(), data[1]);
  }
  const missing = await app.request("/v1/models/hidden");
  assert.equal(missing.status, 404);
  assert.equal(errorSchema.parse(await missing.json()).error.code, "model_not_found");
});

test("unknown paths are a 404 and wrong methods a 405, with OpenAI's error body", async () => {
  const { app } = fakeApp();
  for (const path of ["/nope", "/v1/completion", "/v1/completions/", "/v1/models/"]) {
    const response = await app.request(path);
    assert.equal(response.status, 404, path);
    assert.ok(errorSchema.parse(await response.json()).error.message.length > 0);
    assert.ok(response.headers.has("x-request-id"));
  }
  for (
    const [method, path, allow] of [
      ["GET", "/v1/chat/completions", "POST"],
      ["OPTIONS", "/v1/completions", "POST"],
      ["PUT", "/v1/models/moa", "GET"],
      ["POST", "/v1/runs/run_1", "GET, DELETE"],
    ] as const
  ) {
    const response = await app.request(path, { method });
    assert.equal(response.status, 405, path);
    assert.equal(response.headers.get("allow"), allow);
    assert.equal(errorSchema.parse(await response.json()).error.code, "method_not_allowed");
  }
});

test("HEAD answers like GET, without a body", async () => {
  const response = await fakeApp().app.request("/metrics", { method: "HEAD" });
  assert.equal(response.status, 200);
  assert.equal(await response.text(), "");
});

test("readiness follows the workers: all models that are served need one, or with readiness any some of them", async () => {
  const states = [
    { small: false, big: false, all: false, any: false },
    { small: true, big: false, all: false, any: true },
    { small: false, big: true, all: false, any: true },
    { small: true, big: true, all: true, any: true },
  ];
  for (const { small, big, ...expected } of states) {
    for (const readiness of ["all", "any"] as const) {
      const { app } = fakeApp({
        config: { server: { readiness } },
        // Nobody asks for the hidden one.
        models: { small: { ready: small }, big: { ready: big }, hidden: { ready: false } },
      });
      assert.equal((await app.request("/readiness")).status, expected[readiness] ? 200 : 503);
      for (const path of ["/health", "/liveness"]) assert.equal((await app.request(path)).status, 200);
    }
  }
  const models = {
    small: { model: "s", engine: "vllm", served: false },
    big: { model: "b", engine: "vllm", served: false },
  };
  for (const readiness of ["all", "any"]) {
    const half = fakeApp({ config: { server: { readiness }, models }, models: { big: { ready: false } } });
    const response = await half.app.request("/readiness");
    assert.equal(response.status, 503);
    assert.equal((await response.json()).reason, "model big: big-1 is out of service");
  }
});

test("runs are listed without texts, shown whole, traced as events, and cancelled", async () => {
  const { script } = pushed();
  const { app, chat, moa } = fakeApp({ script });
  const client = chat();
  await settle();
  const { id } = moa.run;
  const list = await (await app.request("/v1/runs?limit=5")).text();
  assert.ok(list.includes(id) && !list.includes("prompt of"));
  const record = await (await app.request(`/v1/runs/${id}`)).json();
  assert.equal(record.state, "running");
  assert.equal(record.agents[2].id, "l2.c1.a1");
  assert.deepEqual(record.agents[2].prompt, { kind: "text", text: "prompt of l2.c1.a1" });
  assert.equal(record.events.length, 3);
  const events = await app.request(`/v1/runs/${id}/events`);
  assert.equal(events.headers.get("content-type"), "text/event-stream");
  const lines = parseEvents(await events.text());
  assert.deepEqual(lines[1], { at_ms: 5, type: "agent_done", agent: "l1.c1.a1", data: { tokens: 8 } });
  assert.equal(lines.at(-1), "[DONE]");
  const cancelled = await app.request(`/v1/runs/${id}`, { method: "DELETE" });
  assert.deepEqual(await cancelled.json(), { id, object: "run", state: "cancelled" });
  const answer = await client;
  assert.equal(answer.status, 499);
  assert.equal(errorSchema.parse(await answer.json()).error.code, "run_cancelled");
  assert.equal((await app.request(`/v1/runs/${id}/cancel`, { method: "POST" })).status, 200);
  for (const path of ["/v1/runs/none", "/v1/runs/none/events"]) {
    assert.equal((await app.request(path)).status, 404);
  }
  assert.equal((await app.request("/v1/runs?limit=x")).status, 400);
});

test("metrics count requests, runs, calls and tokens in Prometheus' format", async () => {
  const { app, chat, post } = fakeApp();
  await (await chat()).text();
  await (await chat({ stream: true })).text();
  await chat({ n: 0 });
  await post("/v1/completions", { model: "nope" });
  await (await post("/v1/completions", { model: "small" })).text();
  await settle();
  const response = await app.request("/metrics");
  assert.match(response.headers.get("content-type") ?? "", /^text\/plain; version=0\.0\.4/);
  const text = await response.text();
  for (
    const line of [
      'canopy_requests_total{model="moa",outcome="ok"} 2',
      'canopy_requests_total{model="moa",outcome="client_error"} 1',
      'canopy_requests_total{model="unknown",outcome="client_error"} 1',
      'canopy_requests_total{model="small",outcome="ok"} 1',
      'canopy_agent_calls_total{model="small"} 4',
      'canopy_tokens_total{model="small",kind="prompt"} 120',
      'canopy_tokens_total{model="big",kind="reasoning"} 10',
      'canopy_tokens_total{model="big",kind="warm"} 48',
      'canopy_run_duration_seconds_count{graph="moa"} 2',
      'canopy_run_duration_seconds_bucket{graph="moa",le="+Inf"} 2',
      "canopy_requests_in_flight 0",
      'canopy_worker_in_flight{model="small",worker="small-1"} 2',
      'canopy_worker_up{model="big",worker="big-1"} 1',
      'smg_http_requests_total{method="POST",path="/v1/chat/completions"} 3',
      'smg_http_responses_total{path="/v1/chat/completions",status_code="400",error_code="invalid_value"} 1',
      'smg_http_responses_total{path="/v1/completions",status_code="404",error_code="model_not_found"} 1',
      "smg_http_connections_active 1",
      'smg_router_requests_total{router_type="http",backend_type="graph",connection_mode="http",model="moa",' +
      'endpoint="chat",streaming="true"} 1',
      'smg_router_requests_total{router_type="http",backend_type="regular",connection_mode="http",' +
      'model="small",endpoint="completions",streaming="false"} 1',
      'smg_router_ttft_seconds_count{router_type="http",backend_type="graph",connection_mode="http",' +
      'model="moa",endpoint="chat"} 1',
      'smg_worker_health{worker="http://worker",model="small"} 1',
      'smg_worker_cb_state{worker="http://worker",model="small"} 0',
      'smg_worker_cb_outcomes_total{worker="http://worker",model="small",outcome="success"} 7',
      'smg_worker_pool_size{worker_type="regular",connection_mode="http",model="small"} 1',
    ]
  ) assert.ok(text.split("\n").includes(line), `${line}\nis not in\n${text}`);
  const series = text.split("\n").filter((line) => !line.startsWith("#")).map((line) =>
    line.replace(/ \S+$/, "")
  );
  assert.equal(new Set(series).size, series.length, "no series stands there twice");
  for (const line of text.trimEnd().split("\n")) {
    assert.match(line, /^(# (HELP|TYPE) \w+ .+|\w+(\{(\w+="[^"]*",?)+\})? -?\d+(\.\d+)?(e-?\d+)?)$/);
  }
});

/** The page of metrics after some requests. */
async function writtenMetrics(): Promise<string> {
  const { app, chat, post } = fakeApp();
  await (await chat({ stream: true })).text();
  await chat({ n: 0 });
  await (await post("/v1/completions", { model: "small" })).text();
  await settle();
  return await (await app.request("/metrics")).text();
}

test("every series of the dashboard is one that is written", async () => {
  const written = await writtenMetrics();
  const dashboard = readFileSync(new URL("../../../docs/grafana-dashboard.json", import.meta.url), "utf8");
  const names = new Set(dashboard.match(/\b(?:canopy|smg)_[a-z_]+(?=[\[{)"])/g));
  assert.ok(names.size > 12);
  for (const name of names) {
    assert.match(written, new RegExp(`^# TYPE ${name.replace(/_bucket$/, "")} `, "m"), name);
  }
});

test("every alert rule is on series that are written, and groups by labels that they have", async () => {
  const written = await writtenMetrics();
  const text = readFileSync(new URL("../../../docs/alert-rules.yaml", import.meta.url), "utf8");
  const rules: { alert: string; expr: string; annotations: Record<string, string> }[] = parse(text).groups
    .flatMap((group: { rules: unknown }) => group.rules);
  assert.ok(rules.length > 8);
  assert.equal(new Set(rules.map(({ alert }) => alert)).size, rules.length);
  for (const { alert, expr, annotations } of rules) {
    const names = expr.match(/\b(?:canopy|smg)_[a-z_]+/g) ?? [];
    assert.ok(names.length > 0, alert);
    for (const name of names) {
      assert.match(written, new RegExp(`^# TYPE ${name} `, "m"), `${alert}: ${name}`);
      const series = written.split("\n").filter((line) => line.startsWith(`${name}{`));
      const wanted = [
        ...expr.matchAll(/by \((\w+)\)/g),
        ...expr.matchAll(new RegExp(`${name}\\{(\\w+)`, "g")),
      ];
      for (const [, label] of wanted) {
        assert.ok(
          series.length === 0 || series.some((line) => line.includes(`${label}="`)),
          `${alert}: ${label}`,
        );
      }
    }
    assert.deepEqual(Object.keys(annotations).sort(), ["description", "summary"], alert);
    for (const [, label] of annotations["summary"]!.matchAll(/\$labels\.(\w+)/g)) {
      assert.ok(new RegExp(`by \\(${label}\\)`).test(expr) || !expr.includes(" by "), `${alert}: ${label}`);
    }
  }
});

test("promtool finds no fault with the page of metrics and the alert rules", async (t) => {
  if (spawnSync("promtool", ["--version"]).status !== 0) {
    return t.skip("promtool is not installed (Debian: prometheus)");
  }
  const rules = fileURLToPath(new URL("../../../docs/alert-rules.yaml", import.meta.url));
  const checks = [[["check", "metrics"], await writtenMetrics()], [["check", "rules", rules], ""]] as const;
  for (const [args, input] of checks) {
    const { status, stdout, stderr } = spawnSync("promtool", args, { input, encoding: "utf8" });
    assert.equal(status, 0, `${stdout}${stderr}`);
  }
});

test("workers are shown with their state", async () => {
  const { workers, total, stats } = await (await fakeApp().app.request("/workers")).json();
  assert.equal(total, workers.length);
  assert.deepEqual(stats, { prefill_count: 0, decode_count: 0, regular_count: total });
  assert.deepEqual(workers[0], {
    id: "small-1",
    url: "http://worker",
    model_id: "org/small",
    worker_type: "regular",
    is_healthy: true,
    load: 2,
    connection_mode: "HTTP",
    bootstrap_port: null,
    model: "small",
    engine: "vllm",
    health: "healthy",
    breaker: "closed",
    in_flight: 2,
    served: 7,
    failures: 1,
    last_error: null,
  });
});

test("keys: without any, all is open, an empty bearer included; with some, each route wants the right one", async () => {
  const bearer = (key: string) => ({ headers: { authorization: `Bearer ${key}` } });
  const open = fakeApp();
  assert.equal((await open.app.request("/v1/models", bearer(""))).status, 200);
  assert.equal((await open.app.request("/v1/runs", bearer("whatever"))).status, 200);

  const keyed = fakeApp({ config: { models: {}, server: { api_keys: ["k1", "k2"] } } });
  for (const path of ["/v1/models", "/v1/runs", "/workers", "/metrics"]) {
    for (const authorization of [undefined, "Bearer ", "Bearer k3", "Basic azE="]) {
      const headers = new Headers(authorization === undefined ? {} : { authorization });
      const response = await keyed.app.request(path, { headers });
      assert.equal(response.status, 401, path);
      assert.equal(response.headers.get("www-authenticate"), "Bearer");
      assert.equal(errorSchema.parse(await response.json()).error.code, "invalid_api_key");
    }
    const status = path === "/workers" ? 403 : 200;
    for (const key of ["k1", "k2"]) {
      assert.equal((await keyed.app.request(path, bearer(key))).status, status, path);
    }
  }
  for (const path of ["/health", "/liveness", "/openapi.json"]) {
    assert.equal((await keyed.app.request(path)).status, 200);
  }
  assert.equal((await keyed.chat()).status, 401);
  assert.equal((await keyed.chat({}, bearer("k1"))).status, 200);

  const both = fakeApp({ config: { models: {}, server: { api_keys: ["k1"], admin_key: "boss" } } });
  assert.equal((await both.app.request("/v1/runs", bearer("k1"))).status, 200);
  assert.equal((await both.app.request("/v1/runs", bearer("boss"))).status, 200);
  assert.equal((await both.app.request("/workers", bearer("k1"))).status, 403);
  assert.equal((await both.app.request("/v1/models", bearer("boss"))).status, 200);

  const admin = fakeApp({ config: { models: {}, server: { admin_key: "boss" } } });
  assert.equal((await admin.app.request("/v1/models")).status, 200);
  assert.equal((await admin.app.request("/v1/runs")).status, 401);
});

test("bearer tokens are read with or without a token, in any case of the scheme", () => {
  assert.equal(bearerToken("Bearer abc"), "abc");
  assert.equal(bearerToken("bearer  abc "), "abc");
  assert.equal(bearerToken("Bearer"), "");
  assert.equal(bearerToken("Bearer "), "");
  assert.equal(bearerToken("Basic abc"), "");
  assert.equal(bearerToken(undefined), "");
});

test("openapi.json is a valid OpenAPI 3.1 document of every route", async () => {
  const { app } = fakeApp({ app: { version: "1.2.3" } });
  const document: unknown = await (await app.request("/openapi.json")).json();
  assert.ok(isJsonObject(document));
  assert.equal(document["openapi"], "3.1.0");
  assert.ok(isJsonObject(document["info"]) && document["info"]["version"] === "1.2.3");
  const { paths, components } = document;
  assert.ok(isJsonObject(paths) && isJsonObject(components) && isJsonObject(components["schemas"]));
  const schemas = components["schemas"];
  const ids = new Set<unknown>();
  for (const [path, item] of Object.entries(paths)) {
    assert.ok(path.startsWith("/") && !path.includes(":") && isJsonObject(item));
    for (const [method, operation] of Object.entries(item)) {
      assert.ok(["get", "post", "put", "delete"].includes(method) && isJsonObject(operation));
      assert.ok(!ids.has(operation["operationId"]));
      ids.add(operation["operationId"]);
      assert.ok(isJsonObject(operation["responses"]) && "200" in operation["responses"]);
      const parameters = Array.isArray(operation["parameters"]) ? operation["parameters"] : [];
      const names = parameters.flatMap((one) =>
        isJsonObject(one) && one["in"] === "path" ? [one["name"]] : []
      );
      assert.deepEqual(names, [...path.matchAll(/\{(\w+)\}/g)].map((match) => match[1]));
    }
  }
  for (const path of ["/v1/chat/completions", "/v1/models/{id}", "/v1/runs/{id}/events", "/openapi.json"]) {
    assert.ok(path in paths, path);
  }
  const references = [...JSON.stringify(document).matchAll(/"\$ref":"([^"]*)"/g)].map((match) => match[1]!);
  assert.ok(references.length > 10);
  for (const reference of references) {
    const name = /^#\/components\/schemas\/(\w+)$/.exec(reference)?.[1];
    assert.ok(name !== undefined && name in schemas, reference);
  }
  const chat = schemas["ChatCompletionRequest"];
  assert.ok(isJsonObject(chat) && Array.isArray(chat["required"]));
  assert.deepEqual([...chat["required"]].sort(), ["messages", "model"]);
});

test("a path that comes percent-encoded is the route that it names, on the worker, too", async () => {
  const { app, relay } = fakeApp();
  const response = await app.request("/v1/%63hat/completions?a=%2Fb", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ model: "small", messages: [{ role: "user", content: "Hi" }] }),
  });
  assert.equal(response.status, 200);
  await response.text();
  const { path, query } = relay.requests[0]!.request;
  assert.deepEqual([path, query], ["/v1/chat/completions", "?a=%2Fb"]);
});
