import assert from "node:assert/strict";
import { test } from "node:test";
import { fakeApp } from "../fakes.ts";

/** Asks as the holder of a key; the status, the ids of listed runs and the message of an error. */
function asking({ app }: ReturnType<typeof fakeApp>) {
  return async (key: string, path: string, method = "GET") => {
    const response = await app.request(path, { method, headers: { authorization: `Bearer ${key}` } });
    const text = await response.text();
    const body = text.startsWith("{") ? JSON.parse(text) : {};
    const ids = body.object === "list" ? body.data.map((run: { id: string }) => run.id) : undefined;
    return { status: response.status, ids, message: body.error?.message };
  };
}

test("a run belongs to the key that started it: others neither see nor cancel it", async () => {
  for (const admin of [undefined, "boss"]) {
    const server = { api_keys: ["alice", "bob"], admin_key: admin };
    const fake = fakeApp({ config: { server } });
    const ask = asking(fake);
    for (const key of ["alice", "bob"]) {
      await (await fake.chat({}, { headers: { authorization: `Bearer ${key}` } })).text();
    }
    const agents = { a: { model: "small", prompt: "Hi" } };
    const graph = await fake.post("/v1/graph", { agents }, { headers: { authorization: "Bearer alice" } });
    assert.equal(graph.status, 200, await graph.text());
    assert.deepEqual((await ask("alice", "/v1/runs")).ids, ["run_1", "run_3"]);
    assert.deepEqual((await ask("bob", "/v1/runs")).ids, ["run_2"]);
    for (
      const [method, path] of [["GET", ""], ["GET", "/events"], ["DELETE", ""], ["POST", "/cancel"]] as const
    ) {
      const refused = await ask("bob", `/v1/runs/run_1${path}`, method);
      assert.equal(refused.status, 403, path);
      assert.match(refused.message, admin === undefined ? /set server\.admin_key/ : /the admin key/);
      assert.equal((await ask("alice", `/v1/runs/run_1${path}`, method)).status, 200, path);
      if (admin !== undefined) assert.equal((await ask("boss", `/v1/runs/run_1${path}`, method)).status, 200);
      assert.equal((await ask("nobody", `/v1/runs/run_1${path}`, method)).status, 401);
    }
    assert.equal((await ask("bob", "/v1/runs/run_9")).status, 404);
    if (admin !== undefined) {
      assert.deepEqual((await ask("boss", "/v1/runs")).ids, ["run_1", "run_2", "run_3"]);
    }
  }
});

test("a limit counts one's own runs, and no record shows whose it is", async () => {
  const fake = fakeApp({ config: { models: {}, server: { api_keys: ["alice", "bob"] } } });
  for (const key of ["alice", "bob", "bob"]) {
    await (await fake.chat({}, { headers: { authorization: `Bearer ${key}` } })).text();
  }
  assert.deepEqual((await asking(fake)("bob", "/v1/runs?limit=1")).ids, ["run_2"]);
  const headers = { authorization: "Bearer alice" };
  assert.doesNotMatch(await (await fake.app.request("/v1/runs/run_1", { headers })).text(), /owner|alice/);
});

test("keys without an admin key keep what concerns everybody shut, and say which setting opens it", async () => {
  const fake = fakeApp({ config: { models: {}, server: { api_keys: ["alice"] } } });
  const ask = asking(fake);
  for (
    const [method, path] of [["GET", "/workers"], ["POST", "/flush_cache"], ["GET", "/flush_cache"]] as const
  ) {
    assert.equal((await ask("wrong", path, method)).status, 401);
    const { status, message } = await ask("alice", path, method);
    assert.equal(status, 403, path);
    assert.match(message, /set server\.admin_key/);
  }
  const open = asking(fakeApp());
  for (const path of ["/workers", "/v1/runs", "/flush_cache"]) {
    assert.equal((await open("", path)).status, 200);
  }
});

test("a run is found by the id of its request, and each key finds its own", async () => {
  const fake = fakeApp({ config: { server: { api_keys: ["alice", "bob"] } } });
  for (const key of ["alice", "bob"]) {
    const headers = { authorization: `Bearer ${key}`, "x-request-id": "mine" };
    await (await fake.chat({}, { headers })).text();
  }
  const ask = asking(fake);
  assert.deepEqual((await ask("alice", "/v1/runs?request_id=mine")).ids, ["run_1"]);
  assert.deepEqual((await ask("bob", "/v1/runs?request_id=mine")).ids, ["run_2"]);
  assert.deepEqual((await ask("bob", "/v1/runs?request_id=other")).ids, []);
});

test("with ?texts=true the events of a run hold what its agents write, each event of the trace once", async () => {
  const fake = fakeApp();
  await (await fake.chat()).text();
  const events = async (path: string) => {
    const lines = (await (await fake.app.request(path)).text()).split("\n\n").filter((line) => line !== "");
    assert.equal(lines.at(-1), "data: [DONE]");
    return lines.slice(0, -1).map((line) => JSON.parse(line.slice("data: ".length)));
  };
  const traced = await events("/v1/runs/run_1/events");
  const all = await events("/v1/runs/run_1/events?texts=true");
  assert.deepEqual(all.filter(({ type }) => type !== "agent_delta"), traced);
  assert.deepEqual(await events("/v1/runs/run_1/events?texts=false"), traced);
  const texts = new Map<string, string>();
  for (const { type, agent, text } of all) {
    if (type === "agent_delta") texts.set(agent, (texts.get(agent) ?? "") + text);
  }
  assert.deepEqual([...texts], [["l1.c1.a1", "first"], ["l1.c1.a2", "second"], ["l2.c1.a1", "Hello"]]);
  const wrong = await fake.app.request("/v1/runs/run_1/events?texts=yes");
  assert.equal(wrong.status, 400);
  assert.match(await wrong.text(), /texts must be true or false: current value is yes/);
});

test("a record holds what was asked in words that can be sent again, a long seed to its last digit", async () => {
  const fake = fakeApp();
  const requestOf = async (id: string) => {
    const text = await (await fake.app.request(`/v1/runs/${id}`)).text();
    return { text, request: JSON.parse(text).request };
  };
  const seed = 2n ** 60n + 1n;
  const canopy = '{"include":["usage"],"root":"wait"}';
  const options =
    `"stream":true,"stream_options":{"include_usage":true},"user":"me","n":null,"canopy":${canopy}`;
  const sent =
    `{"model":"moa","messages":[{"role":"user","content":"Hi"}],"top_k":5,"seed":${seed},${options}}`;
  const headers = { "content-type": "application/json" };
  await (await fake.app.request("/v1/chat/completions", { method: "POST", headers, body: sent })).text();
  const { text, request } = await requestOf("run_1");
  assert.ok(text.includes(`"seed":${seed}`));
  const { seed: _, ...body } = request.body;
  const messages = [{ role: "user", content: "Hi" }];
  assert.deepEqual([request.path, body], [
    "/v1/chat/completions",
    { model: "moa", messages, top_k: 5, canopy: { root: "wait" } },
  ]);
  await (await fake.post("/v1/completions", { model: "moa", prompt: ["One", "Two"], echo: true })).text();
  for (const [id, prompt] of [["run_2", "One"], ["run_3", "Two"]] as const) {
    const { request } = await requestOf(id);
    assert.deepEqual(request, { path: "/v1/completions", body: { model: "moa", prompt, echo: true } });
  }
  await (await fake.post("/api/chat", { model: "moa:latest", messages, options: { num_predict: 9 } })).text();
  assert.deepEqual((await requestOf("run_4")).request, {
    path: "/v1/chat/completions",
    body: { model: "moa", messages, max_tokens: 9 },
  });
  const agents = { a: { model: "small", prompt: "Hi" } };
  await (await fake.post("/v1/graph", { agents })).text();
  assert.equal((await requestOf("run_5")).request, null);
});
