import assert from "node:assert/strict";
import { test } from "node:test";
import { CanopyError } from "../../../../base/errors.ts";
import { ENGINE_ROUTES } from "../../../../router/http/openai/engine_routes.ts";
import { errorSchema } from "../../../../router/http/openai/response_schema.ts";
import { fakeApp, settle } from "../fakes.ts";

test("a request for an engine model reaches the relay with the client's bytes and headers", async () => {
  const { app, relay, moa } = fakeApp();
  const body = '{ "model": "small",  "seed": 9223372036854775807, "zz": 1.10, "messages": [] }';
  const response = await app.request("/v1/chat/completions?x=1", {
    method: "POST",
    body,
    headers: { "X-Request-ID": "abc", "X-Custom": "1" },
  });
  assert.equal(response.status, 200);
  assert.equal(await response.text(), '{"relayed":true}');
  assert.equal(response.headers.get("content-type"), "application/json");
  assert.equal(response.headers.get("x-request-id"), "abc");
  const { model, request } = relay.requests[0]!;
  assert.equal(model, "small");
  assert.equal(request.method, "POST");
  assert.deepEqual([request.path, request.query], ["/v1/chat/completions", "?x=1"]);
  assert.equal(new TextDecoder().decode(request.body), body);
  assert.equal(request.headers["x-custom"], "1");
  assert.equal(request.headers["x-request-id"], "abc");
  assert.equal(moa.runs.length, 0);
});

test("an engine model also answers to the engine's own name, a hidden one to none", async () => {
  const { post, relay } = fakeApp();
  assert.equal((await post("/v1/completions", { model: "org/small" })).status, 200);
  assert.equal(relay.requests[0]?.model, "small");
  for (const model of ["hidden", "org/hidden", "nope", "__proto__", ""]) {
    const response = await post("/v1/completions", { model });
    assert.equal(response.status, 404, model);
    const { error } = errorSchema.parse(await response.json());
    assert.deepEqual([error.param, error.code], ["model", "model_not_found"]);
  }
});

test("a request without a model is a 400 that names the field, even with a single graph", async () => {
  const { post } = fakeApp();
  for (const model of [undefined, null, 5, ["moa"]]) {
    for (const path of ["/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/generate"]) {
      const response = await post(path, { model, prompt: "x" });
      assert.equal(response.status, 400);
      assert.equal(errorSchema.parse(await response.json()).error.param, "model");
    }
  }
});

test("/generate without a model goes to the only engine model there is", async () => {
  const { post, relay } = fakeApp({ config: { models: { only: { model: "o", engine: "sglang" } } } });
  assert.equal((await post("/generate", { text: "x" })).status, 200);
  assert.equal(relay.requests[0]?.model, "only");
  assert.equal(relay.requests[0]?.request.path, "/generate");
});

test("tokenizer probes get a quick 404 from virtual models and without a model", async () => {
  const { app, post, relay } = fakeApp();
  assert.equal((await post("/tokenize", { prompt: "test", add_special_tokens: false })).status, 404);
  assert.equal((await post("/tokenize", { model: "moa", prompt: "test" })).status, 404);
  assert.equal((await post("/detokenize", { tokens: [1] })).status, 404);
  assert.equal((await app.request("/tokenizer_info")).status, 404);
  assert.equal((await post("/v1/embeddings", { model: "moa", input: "x" })).status, 404);
  assert.equal((await post("/generate", { model: "moa", text: "x" })).status, 404);
  assert.equal(relay.requests.length, 0);
  assert.equal((await post("/tokenize", { model: "small", prompt: "test" })).status, 200);
  assert.equal(relay.requests[0]?.request.path, "/tokenize");
});

test("what engines serve beside chat is relayed on the engine's own path; pairs say that they have none of it", async () => {
  const models = {
    whole: { model: "w", engine: "sglang" },
    pair: { model: "p", engine: "sglang-pd", workers: [{ prefill: "http://p", decode: "http://d" }] },
  };
  const { post, relay } = fakeApp({ config: { models } });
  for (const { path, workerPath, pairs, form } of ENGINE_ROUTES) {
    if (form) continue;
    assert.equal((await post(path, { model: "whole" })).status, 200, path);
    assert.equal(relay.requests.at(-1)?.request.path, workerPath ?? path);
    const refused = await post(path, { model: "pair" });
    assert.equal(refused.status, pairs ? 200 : 501, path);
    const text = await refused.text();
    if (!pairs) assert.match(JSON.parse(text).error.message, /on whole servers$/);
  }
});

test("a form goes to the model that it names, with the name that the engine knows", async () => {
  const { app, relay } = fakeApp();
  const send = async (model: string | undefined, path = "/v1/audio/transcriptions") => {
    const form = new FormData();
    if (model !== undefined) form.set("model", model);
    form.set("file", new Blob([new Uint8Array([0, 255, 7])]), "a.wav");
    return await app.request(path, { method: "POST", body: form });
  };
  for (const name of ["small", "org/small"]) {
    assert.equal((await send(name)).status, 200);
    const { request, model } = relay.requests.at(-1)!;
    assert.equal(model, "small");
    assert.equal(request.path, "/v1/audio/transcriptions");
    const body = new Uint8Array(request.body);
    const type = request.headers["content-type"] ?? "";
    const form = await new Response(body, { headers: { "content-type": type } }).formData();
    assert.equal(form.get("model"), "org/small");
    const file = form.get("file");
    assert.ok(file instanceof Blob);
    assert.deepEqual([...new Uint8Array(await file.arrayBuffer())], [0, 255, 7]);
  }
  assert.equal((await send("moa")).status, 404);
  assert.equal((await send(undefined)).status, 400);
  const json = await app.request("/v1/audio/translations", { method: "POST", body: '{"model":"small"}' });
  assert.equal(json.status, 400);
  assert.match(errorSchema.parse(await json.json()).error.message, /multipart\/form-data/);
  assert.equal(relay.requests.length, 2);
});

test("routes of other routers that are not here say so in one sentence, and what to do", async () => {
  const { app } = fakeApp();
  const paths = [
    "/v1/conversations",
    "/v1/conversations/c1/items",
    "/v1/tokenizers",
    "/wasm",
    "/ha/status",
    "/v1/realtime",
  ];
  for (const path of paths) {
    for (const method of ["GET", "POST"]) {
      const response = await app.request(path, { method });
      assert.equal(response.status, 501, `${method} ${path}`);
      assert.equal(errorSchema.parse(await response.json()).error.code, "not_implemented");
    }
  }
});

test("a request that is known to kill the engine never reaches the relay", async () => {
  const { post, relay } = fakeApp({ config: { models: { s: { model: "s", engine: "sglang" } } } });
  const response = await post("/generate", { model: "s", input_ids: [1, -5] });
  assert.equal(response.status, 400);
  assert.equal(errorSchema.parse(await response.json()).error.param, "input_ids[1]");
  assert.equal(relay.requests.length, 0);
});

test("the worker's own status, headers and bytes come back", async () => {
  const { post, relay } = fakeApp();
  relay.answer = () => new Response('{"detail":"no"}', { status: 422, headers: { "x-worker": "w1" } });
  const response = await post("/v1/completions", { model: "small" });
  assert.equal(response.status, 422);
  assert.equal(response.headers.get("x-worker"), "w1");
  assert.equal(await response.text(), '{"detail":"no"}');
  relay.answer = () => new Response(null, { status: 204 });
  assert.equal((await post("/v1/completions", { model: "small" })).status, 204);
});

test("a broken worker is the relay's 502, and not to be retried", async () => {
  const { post, relay } = fakeApp();
  relay.answer = () => {
    throw new CanopyError("Worker http://w broke", { code: "worker_failed", status: 502 });
  };
  const response = await post("/v1/completions", { model: "small" });
  assert.equal(response.status, 502);
  assert.equal(response.headers.get("x-should-retry"), "false");
});

test("a relayed stream is pulled only as fast as the client reads, and holds its place until the end", async () => {
  const { post, relay, app, services } = fakeApp({
    config: { models: { m: { model: "m", engine: "vllm" } } },
  });
  let pulled = 0;
  relay.answer = () =>
    new Response(
      new ReadableStream<Uint8Array>({
        pull(controller) {
          pulled++;
          if (pulled > 100) controller.close();
          else controller.enqueue(new TextEncoder().encode(`data: ${pulled}\n\n`));
        },
      }, { highWaterMark: 0 }),
    );
  const response = await post("/v1/completions", { model: "m" });
  await settle();
  assert.equal(pulled, 0);
  const inUse = async () =>
    /canopy_places_in_use (\d+)/.exec(await (await app.request("/metrics")).text())?.[1];
  assert.equal(await inUse(), "1");
  const reader = response.body!.getReader();
  await reader.read();
  await reader.read();
  await settle();
  assert.ok(pulled <= 3, String(pulled));
  while (!(await reader.read()).done);
  assert.equal(pulled, 101);
  assert.equal(await inUse(), "0");
  assert.equal(services.models.size, 1);
});

test("a client that leaves a relayed stream aborts the relay's signal and closes its body", async () => {
  for (const how of ["cancel", "signal"] as const) {
    const { post, relay, app } = fakeApp();
    let cancelled = false;
    relay.answer = () =>
      new Response(
        new ReadableStream<Uint8Array>({
          pull: (controller) => controller.enqueue(new Uint8Array([1])),
          cancel: () => void (cancelled = true),
        }, { highWaterMark: 0 }),
      );
    const client = new AbortController();
    const response = await post("/v1/completions", { model: "small" }, { signal: client.signal });
    const reader = response.body!.getReader();
    await reader.read();
    assert.equal(relay.requests[0]?.signal.aborted, false);
    if (how === "cancel") await reader.cancel();
    else client.abort();
    await settle();
    assert.equal(relay.requests[0]?.signal.aborted, true);
    if (how === "cancel") assert.equal(cancelled, true);
    const metrics = await (await app.request("/metrics")).text();
    assert.match(metrics, /canopy_places_in_use 0/);
    assert.match(metrics, /canopy_requests_total\{model="small",outcome="cancelled"\} 1/);
  }
});

test("a body that was read as JSON is JSON to the worker, whatever curl called it", async () => {
  const { relay, complete } = fakeApp();
  for (const type of ["application/x-www-form-urlencoded", "text/plain", "application/json; charset=utf-8"]) {
    assert.equal((await complete({ model: "small" }, { headers: { "content-type": type } })).status, 200);
  }
  assert.deepEqual(relay.requests.map(({ request }) => request.headers["content-type"]), [
    "application/json",
    "application/json",
    "application/json; charset=utf-8",
  ]);
});
