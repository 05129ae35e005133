import assert from "node:assert/strict";
import { test } from "node:test";
import { SystemClock } from "../../../../base/clock.ts";
import { Random } from "../../../../base/random.ts";
import type { OutgoingRequest } from "../../../../base/transport.ts";
import { configSchema } from "../../../../cfgs/schema/config.ts";
import { createRouter, type Router } from "../../../../router/router.ts";

/** A router whose workers answer everything with 200 and nothing else; what they were asked. */
async function withRouter(
  config: Record<string, unknown>,
  use: (router: Router, asked: readonly OutgoingRequest[]) => Promise<void>,
): Promise<void> {
  const asked: OutgoingRequest[] = [];
  const router = createRouter({
    config: configSchema.parse(config),
    clock: new SystemClock(),
    random: new Random("workers"),
    transport: {
      send: (request) => {
        asked.push(request);
        return Promise.resolve({ status: 200, headers: {}, body: (async function* () {})() });
      },
      close: () => Promise.resolve(),
    },
  });
  try {
    await use(router, asked);
  } finally {
    await router.close();
  }
}

const one = { models: { m: { model: "org/m", engine: "vllm", tokenizer: false } } };

function send(router: Router, method: string, path: string, body?: unknown, key?: string) {
  return router.app.request(path, {
    method,
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    headers: {
      ...(body === undefined ? {} : { "content-type": "application/json" }),
      ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
    },
  });
}

test("workers are added, looked at, drained and removed while the router runs", async () => {
  await withRouter(one, async (router, asked) => {
    const added = await send(router, "POST", "/workers", {
      url: "http://late:30000/",
      api_key: "k",
      priority: 50,
    });
    assert.equal(added.status, 202);
    assert.equal(added.headers.get("location"), "/workers/m.w1");
    assert.deepEqual(await added.json(), {
      status: "accepted",
      worker_id: "m.w1",
      model: "m",
      url: "http://late:30000",
      location: "/workers/m.w1",
    });
    assert.ok(
      asked.some(({ url, headers }) =>
        url === "http://late:30000/health" && headers.authorization === "Bearer k"
      ),
    );
    assert.equal(router.services.models.get("m")?.pool.ready, true);

    const byUrl = await send(router, "GET", `/workers/${encodeURIComponent("http://late:30000")}`);
    const { id, health, worker_type } = await byUrl.json();
    assert.deepEqual([id, worker_type], ["m.w1", "regular"]);
    assert.ok(["unknown", "healthy"].includes(health));

    const drained = await send(router, "PUT", "/workers/m.w1", { draining: true });
    assert.equal((await drained.json()).health, "draining");
    assert.equal(router.services.models.get("m")?.pool.ready, false);
    await send(router, "PUT", "/workers/m.w1", { draining: false });
    assert.equal(router.services.models.get("m")?.pool.ready, true);

    assert.equal((await send(router, "DELETE", "/workers/m.w1")).status, 202);
    assert.equal((await send(router, "DELETE", "/workers/m.w1")).status, 404);
    assert.deepEqual(await (await send(router, "GET", "/workers")).json(), {
      workers: [],
      total: 0,
      stats: { prefill_count: 0, decode_count: 0, regular_count: 0 },
    });
  });
});

test("a worker that cannot be added is refused with the field at fault", async () => {
  const two = { models: { ...one.models, n: { model: "org/n", engine: "sglang-pd", tokenizer: false } } };
  await withRouter(two, async (router) => {
    const refused = async (body: unknown): Promise<[number, string, string]> => {
      const response = await send(router, "POST", "/workers", body);
      const { error } = await response.json();
      return [response.status, error.param, error.code];
    };
    assert.deepEqual(await refused({}), [400, "url", "missing_field"]);
    assert.deepEqual(await refused({ url: "ftp://a" }), [400, "url", "invalid_value"]);
    assert.deepEqual(await refused({ url: "http://a" }), [400, "model", "missing_field"]);
    assert.deepEqual(await refused({ url: "http://a", model_id: "x" }), [404, "model", "model_not_found"]);
    assert.deepEqual(await refused({ url: "http://a", model: "n" }), [
      400,
      "worker_type",
      "unsupported_worker",
    ]);
    assert.deepEqual(await refused({ url: "http://a", model: "m", worker_type: "prefill" }), [
      400,
      "worker_type",
      "unsupported_worker",
    ]);
    const prefill = { url: "http://p:1", model_id: "org/n", worker_type: "prefill", bootstrap_port: 8998 };
    assert.equal((await send(router, "POST", "/workers", prefill)).status, 202);
    assert.deepEqual(await refused(prefill), [409, "url", "worker_exists"]);
    const changed = await send(router, "PUT", "/workers/n.p1", { drain: true });
    assert.equal(changed.status, 400);
  });
});

test("only the holder of the admin key changes workers, and without any key only this host", async () => {
  const body = { url: "http://127.0.0.1:30000" };
  await withRouter({ ...one, server: { api_keys: ["user"], admin_key: "boss" } }, async (router) => {
    assert.equal((await send(router, "POST", "/workers", body)).status, 401);
    assert.equal((await send(router, "POST", "/workers", body, "user")).status, 403);
    assert.equal((await send(router, "POST", "/workers", body, "boss")).status, 202);
  });
  for (const server of [{ api_keys: ["user"] }, { host: "0.0.0.0" }]) {
    await withRouter({ ...one, server }, async (router) => {
      const response = await send(router, "DELETE", "/workers/m.w1", undefined, "user");
      assert.equal(response.status, 403);
      assert.match((await response.json()).error.message, /set server\.admin_key\b/);
    });
  }
});

test("a body that does not say that it is JSON changes no worker: a page could send it without asking", async () => {
  await withRouter(one, async (router) => {
    for (const type of ["text/plain", "application/x-www-form-urlencoded", "application/jsonp", ""]) {
      const response = await router.app.request("/workers", {
        method: "POST",
        headers: { "content-type": type },
        body: JSON.stringify({ url: "http://a" }),
      });
      assert.equal(response.status, 415, type);
      const { error } = await response.json();
      assert.equal(error.param, "content-type");
      assert.match(error.message, /content-type: application\/json/);
    }
    const headers = { "content-type": "Application/JSON; charset=utf-8" };
    const body = JSON.stringify({ url: "http://a" });
    assert.equal((await router.app.request("/workers", { method: "POST", headers, body })).status, 202);
  });
});

test("a worker that was added while the router runs gets none of the configured keys and headers", async () => {
  const m = {
    ...one.models.m,
    api_key: "SECRET",
    headers: { "X-Secret": "SECRET" },
    workers: ["http://old:1"],
  };
  await withRouter({ models: { m } }, async (router, asked) => {
    assert.equal((await send(router, "POST", "/workers", { url: "http://new:1" })).status, 202);
    assert.equal(
      (await send(router, "POST", "/workers", { url: "http://own:1", api_key: "own" })).status,
      202,
    );
    const completion = { model: "m", prompt: "my secret prompt", max_tokens: 1 };
    for (let i = 0; i < 6; i++) await (await send(router, "POST", "/v1/completions", completion)).text();
    await send(router, "DELETE", "/workers/m.w1");
    // The configuration names this one: it is trusted again.
    assert.equal((await send(router, "POST", "/workers", { url: "http://old:1" })).status, 202);
    const keys = (host: string) =>
      new Set(
        asked.flatMap(({ url, headers }) =>
          url.startsWith(host) ? [`${headers.authorization} ${headers["x-secret"]}`] : []
        ),
      );
    assert.ok(asked.some(({ url }) => url === "http://new:1/v1/completions"));
    assert.deepEqual(keys("http://new:1"), new Set(["undefined undefined"]));
    assert.deepEqual(keys("http://own:1"), new Set(["Bearer own undefined"]));
    assert.deepEqual(keys("http://old:1"), new Set(["Bearer SECRET SECRET"]));
  });
});

test("under an admin key, workers join only from this host, from hosts of the configuration and from listed ones", async () => {
  const m = { ...one.models.m, workers: ["http://gpu1:30000"] };
  const pairs = { model: "org/n", engine: "sglang-pd", tokenizer: false };
  const server = { admin_key: "boss", worker_hosts: ["10.0.0.7", "*.gpus.example"] };
  await withRouter({ models: { m, n: pairs }, server }, async (router) => {
    const add = async (url: string, fields: Record<string, unknown> = {}) => {
      const response = await send(router, "POST", "/workers", { url, model: "m", ...fields }, "boss");
      if (response.status === 202) return 202;
      const { error } = await response.json();
      assert.match(error.message, /server\.worker_hosts/);
      return [response.status, error.param];
    };
    for (
      const url of [
        "http://gpu1:30001",
        "http://localhost:1",
        "http://10.0.0.7:1",
        "https://a.gpus.example",
        "http://[::1]:7",
      ]
    ) assert.equal(await add(url), 202, url);
    for (
      const url of [
        "http://gpu2:30000",
        "http://169.254.169.254/latest",
        "http://gpu1@evil.example",
        "http://gpu1.evil.example",
      ]
    ) assert.deepEqual(await add(url), [403, "url"], url);
    const prefill = { model: "n", worker_type: "prefill" };
    assert.deepEqual(await add("http://gpu1:5", { ...prefill, bootstrap_host: "evil.example" }), [
      403,
      "bootstrap_host",
    ]);
    assert.equal(await add("http://gpu1:5", { ...prefill, bootstrap_host: "10.0.0.7" }), 202);
  });
});

test("the name and password in a worker's URL go to that worker, and to nobody who looks", async () => {
  const url = "http://user:hush%3Ahush@near:1";
  const config = { models: { m: { ...one.models.m, workers: [url], api_key: "the model's" } } };
  await withRouter(config, async (router, asked) => {
    await router.ready();
    const added = await send(router, "POST", "/workers", { url: "http://late:hush:hush@far:2" });
    const said = [
      JSON.stringify(await added.json()),
      await (await send(router, "GET", "/workers")).text(),
      await (await send(router, "GET", "/list_workers")).text(),
      await (await send(router, "GET", "/metrics")).text(),
      await (await send(router, "GET", "/v1/config")).text(),
    ];
    for (const text of said) assert.doesNotMatch(text, /hush/);
    assert.match(said[1]!, /"url":"http:\/\/near:1"/);
    const sent = (host: string) =>
      new Set(asked.filter(({ url }) => url.includes(host)).map(({ headers }) => headers.authorization));
    assert.deepEqual(sent("near"), new Set([`Basic ${btoa("user:hush:hush")}`]));
    assert.deepEqual(sent("far"), new Set([`Basic ${btoa("late:hush:hush")}`]));
    assert.ok(!asked.some(({ url }) => url.includes("hush")));
    // Whoever added it removes it by what was written.
    const removed = await send(
      router,
      "DELETE",
      `/workers/${encodeURIComponent("http://late:hush:hush@far:2")}`,
    );
    assert.deepEqual(await removed.json(), { status: "accepted", worker_id: "m.w2", url: "http://far:2" });
  });
});
