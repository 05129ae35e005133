import assert from "node:assert/strict";
import { test } from "node:test";
import type { JsonObject } from "../../../base/json.ts";
import { fc } from "../../properties.ts";
import { CLEAN, event, JSON_HEAD, type RelayBench, relayBench, type Script, SSE } from "./fake_workers.ts";

const PAIR = { prefill: "http://p", bootstrap_port: 8998, decode: "http://d" };

function pairBench(config: Record<string, unknown> = {}): RelayBench {
  const bench = relayBench({ engine: "sglang-pd", workers: [PAIR], ...config });
  bench.workers.scripts.set("p", [prefilled]);
  bench.workers.scripts.set("d", [decoded]);
  bench.workers.scripts.set("p/abort_request", [{}]);
  bench.workers.scripts.set("d/abort_request", [{}]);
  return bench;
}

/** What a pair says to a chat that is not streamed. */
const prefilled: Script = { headers: JSON_HEAD, body: [{ waitMs: 1 }, { send: '{"choices":["prefill"]}' }] };
const decoded: Script = {
  headers: { ...JSON_HEAD, "content-length": "21" },
  body: [{ waitMs: 2 }, { send: '{"choices":["decode"]}'.slice(0, 21) }, { send: "}".slice(1) }],
};
const streamed: Script = {
  headers: SSE,
  body: [{ waitMs: 2 }, event({ text: "A" }), { waitMs: 5 }, event({ text: "AB" }), event("[DONE]")],
};
const handOffFailed: Script = {
  headers: SSE,
  body: [
    event({
      text: "",
      output_ids: [],
      meta_info: {
        finish_reason: { type: "abort", message: "KVTransferError(bootstrap_room=1)", status_code: 500 },
      },
    }),
    event("[DONE]"),
  ],
};

/** Lets the clock run until the promise settles. */
async function settled<T>(bench: RelayBench, promise: Promise<T>): Promise<T> {
  let open = true;
  promise.then(() => open = false, () => open = false);
  while (open) await bench.clock.advance(bench.clock.now() + 20);
  return await promise;
}

async function answered(
  bench: RelayBench,
  body = '{"text":"hi"}',
  path = "/generate",
): Promise<{ status: number; text: string; headers: Headers }> {
  const response = await settled(bench, bench.post(body, { path }));
  return { status: response.status, headers: response.headers, text: await settled(bench, response.text()) };
}

async function clean(bench: RelayBench): Promise<void> {
  await bench.clock.advance(bench.clock.now() + 5_000);
  assert.deepEqual(bench.leaks(), CLEAN);
}

function bodiesOf(bench: RelayBench, host: string): string[] {
  return bench.workers.seen.filter((one) => one.host === host && one.path !== "/abort_request").map((one) =>
    one.body
  );
}

test("both servers get the same bytes at once: the client's, and four members in front", async () => {
  const bench = pairBench();
  const body =
    '{"text":"hi","sampling_params":{"sampling_seed":9223372036854775807,"min_p":0.1},"later":[1.0]}';
  assert.equal((await answered(bench, body)).status, 200);
  const [prefill, ...more] = bodiesOf(bench, "p");
  assert.equal(more.length, 0);
  assert.deepEqual([prefill], bodiesOf(bench, "d"));
  const shape =
    /^\{"rid":"canopy-[0-9a-f]{24}","bootstrap_host":"p","bootstrap_port":8998,"bootstrap_room":([1-9][0-9]{0,15}),/;
  const match = shape.exec(prefill ?? "");
  assert.ok(match !== null, String(prefill));
  assert.ok(Number.isSafeInteger(Number(match[1])));
  assert.equal("{" + prefill?.slice(match[0].length), body);
  assert.equal(bench.workers.journal[0], "POST p /generate");
  assert.equal(bench.workers.journal[1], "POST d /generate");
  await clean(bench);
});

test("a batch gets a list of distinct rooms, one for each prompt; a chat gets one", async () => {
  const cases: [string, string, number | undefined][] = [
    ["/generate", '{"text":["a","b","c"]}', 3],
    ["/generate", '{"input_ids":[[1],[2]]}', 2],
    ["/generate", '{"input_ids":[1,2]}', undefined],
    ["/v1/completions", '{"prompt":["a"]}', 1],
    ["/v1/completions", '{"prompt":[1,2,3]}', undefined],
    ["/v1/chat/completions", '{"messages":[{"role":"user","content":["a","b"]}]}', undefined],
  ];
  for (const [path, body, prompts] of cases) {
    const bench = pairBench();
    await answered(bench, body, path);
    const sent = JSON.parse(bodiesOf(bench, "d")[0]!);
    if (prompts === undefined) {
      assert.ok(Number.isSafeInteger(sent.bootstrap_room), path);
      continue;
    }
    assert.equal(new Set(sent.bootstrap_room).size, prompts);
    assert.deepEqual(sent.bootstrap_host, Array(prompts).fill("p"));
    assert.deepEqual(sent.bootstrap_port, Array(prompts).fill(8998));
  }
});

test("whatever the body is, members in front parse, and nothing else changes", async () => {
  const bench = pairBench();
  const value = fc.jsonValue();
  const bodies = fc.dictionary(fc.string().filter((key) => key !== "__proto__"), value, { maxKeys: 5 });
  await fc.assert(
    fc.asyncProperty(bodies, async (body) => {
      delete body["text"];
      delete body["prompt"];
      delete body["input_ids"];
      delete body["rid"];
      bench.workers.seen.length = 0;
      await answered(bench, JSON.stringify(body));
      const { rid, bootstrap_host, bootstrap_port, bootstrap_room, ...rest } = JSON.parse(
        bodiesOf(bench, "d")[0]!,
      );
      assert.ok(typeof rid === "string" && bootstrap_host === "p" && bootstrap_port === 8998);
      assert.ok(bootstrap_room >= 1);
      assert.deepEqual(rest, JSON.parse(JSON.stringify(body)));
    }),
    { numRuns: 60 },
  );
});

test("a peer or an id that a client names in headers reaches no server", async () => {
  const bench = pairBench();
  const headers = {
    "x-override-bootstrap-host": "2.2.2.2",
    "X-Override-Rid": "r".toLowerCase(),
    traceparent: "t",
  };
  const lower = Object.fromEntries(Object.entries(headers).map(([name, text]) => [name.toLowerCase(), text]));
  await settled(bench, bench.post("{}", { path: "/generate", headers: lower }));
  for (const { headers } of bench.workers.seen) {
    assert.ok(Object.keys(headers).every((name) => !name.startsWith("x-override-")));
    assert.equal(headers["traceparent"], "t");
  }
});

test("decode's answer passes a slow prefill answer, and the prefill server is given back when it is done", async () => {
  const bench = pairBench();
  bench.workers.scripts.set("p", [{
    headers: SSE,
    body: [{ waitMs: 500 }, event({ text: "A" }), event("[DONE]")],
  }]);
  bench.workers.scripts.set("d", [streamed]);
  const response = await settled(bench, bench.post("{}", { path: "/generate" }));
  const text = await settled(bench, response.text());
  assert.match(text, /"AB"[\s\S]*\[DONE\]/);
  assert.ok(bench.clock.now() < 100);
  await clean(bench);
  assert.ok(bench.workers.journal.includes("end p /generate"), "drained, not broken off");
});

test("a prefill server that refuses is the answer, at once, while decode is aborted and dropped", async () => {
  const bench = pairBench();
  const refusal = '{"error":{"message":"The input is longer than the context."}}';
  bench.workers.scripts.set("p", [{ status: 400, headers: JSON_HEAD, body: [{ send: refusal }] }]);
  // An aborted stream ends with an event that says so.
  const aborted = event({ meta_info: { finish_reason: { type: "abort" } } });
  bench.workers.scripts.set("d", [{ headers: SSE, body: [{ waitMs: 20 }, aborted, { hang: true }] }]);
  const { status, text } = await answered(bench);
  assert.equal(status, 400);
  assert.equal(text, refusal);
  assert.ok(bench.clock.now() < 100);
  await clean(bench);
  const { journal } = bench.workers;
  assert.ok(journal.indexOf("POST d /abort_request") < journal.indexOf("close d /generate"));
  assert.equal(bodiesOf(bench, "p").length, 1, "a 4xx is not retried");
});

test("a decode server that refuses is the answer, at once, while prefill is aborted and dropped", async () => {
  const bench = pairBench();
  bench.workers.scripts.set("p", [{ headers: SSE, body: [{ hang: true }] }]);
  bench.workers.scripts.set("d", [{ status: 400, headers: JSON_HEAD, body: [{ send: '{"no":1}' }] }]);
  const { status, text } = await answered(bench);
  assert.deepEqual([status, text], [400, '{"no":1}']);
  await clean(bench);
  const { journal } = bench.workers;
  assert.ok(journal.indexOf("POST p /abort_request") < journal.indexOf("close p /generate"));
});

test("a decode server that breaks off before its head ends the prefill, which could not leave by itself", async () => {
  const bench = pairBench({ retries: 0 });
  bench.workers.scripts.set("p", [{ headers: SSE, body: [{ hang: true }] }]);
  bench.workers.scripts.set("d", [{ before: [{ waitMs: 5 }, { fail: "reset_before_head" }] }]);
  const { status, text } = await answered(bench);
  assert.equal(status, 502);
  assert.match(text, /Worker m\.d2 did not answer/);
  await clean(bench);
  const { journal } = bench.workers;
  assert.ok(journal.indexOf("POST p /abort_request") < journal.indexOf("close p /generate"));
});

test("the first request after a long idle time that fails in its hand-off is answered all the same", async () => {
  const bench = pairBench();
  bench.workers.scripts.set("p", [prefilled]);
  bench.workers.scripts.set("d", [streamed, handOffFailed, streamed]);
  assert.match((await answered(bench)).text, /"AB"/);
  await bench.clock.advance(bench.clock.now() + 3_600_000);
  const { status, text } = await answered(bench);
  assert.equal(status, 200);
  assert.match(text, /"AB"/);
  await clean(bench);
});

test("hedge_idle_pair_ms: an idle pair that is slow gets a second attempt beside it, and is ended when that answers", async () => {
  const workers = [PAIR, { prefill: "http://p2", decode: "http://d2", bootstrap_port: 1 }];
  const slow: Script = { headers: SSE, body: [{ hang: true }] };
  for (const [hedge, asked] of [[undefined, 2], [500, 4]] as const) {
    const bench = pairBench({
      workers,
      hedge_idle_pair_ms: hedge,
      first_token_timeout_ms: 5_000,
      retries: 0,
    });
    for (const host of ["p", "p2"]) bench.workers.scripts.set(host, [slow, prefilled]);
    for (const host of ["d", "d2"]) bench.workers.scripts.set(host, [slow, streamed]);
    for (const host of ["p2", "d2"]) bench.workers.scripts.set(`${host}/abort_request`, [{}]);
    // Whichever pair is chosen first hangs; the other one would, too, but for its second script.
    const first = bench.post('{"text":"hi"}', { path: "/generate" });
    await bench.clock.advance(100);
    const generates = () => bench.workers.seen.filter(({ path }) => path === "/generate");
    const taken = new Set(generates().map(({ host }) => host));
    assert.equal(taken.size, 2);
    for (const host of ["p", "p2", "d", "d2"]) {
      if (!taken.has(host)) bench.workers.scripts.set(host, [host.startsWith("p") ? prefilled : streamed]);
    }
    const response = await settled(bench, first);
    const text = await settled(bench, response.text());
    assert.equal(generates().length, asked);
    assert.equal(new Set(generates().map(({ host }) => host)).size, asked);
    if (hedge === undefined) assert.equal(response.status, 504);
    else {
      assert.match(text, /"AB"/);
      const rooms = generates().map(({ body }) => JSON.parse(body).bootstrap_room);
      assert.equal(new Set(rooms).size, 2);
      assert.ok(bench.workers.journal.some((line) => /^POST (p|p2) \/abort_request/.test(line)));
      // Busy pairs are not hedged.
      const again = generates().length;
      for (const host of ["p", "p2"]) bench.workers.scripts.set(host, [prefilled]);
      for (const host of ["d", "d2"]) bench.workers.scripts.set(host, [streamed]);
      assert.equal((await answered(bench)).status, 200);
      assert.equal(generates().length, again + 2);
    }
    await clean(bench);
  }
});

test("a pair that fails is tried again with a new room and id: elsewhere, or there if there is no other", async () => {
  const failing: Script[] = [
    { status: 500, headers: JSON_HEAD, body: [{ send: '{"message":"boom"}' }] },
    { before: [{ fail: "reset_before_head" }] },
    handOffFailed,
  ];
  for (const [half, other] of [["p", "d"], ["d", "p"]] as const) {
    for (const script of failing) {
      const bench = pairBench();
      const good = half === "p" ? prefilled : streamed;
      bench.workers.scripts.set(half, [script, good]);
      bench.workers.scripts.set(other, [
        { headers: SSE, body: [{ hang: true }] },
        other === "p" ? prefilled : streamed,
      ]);
      const { status, text } = await answered(bench);
      assert.equal(status, 200, JSON.stringify(script));
      assert.match(text, /"AB"/);
      const [first, second] = bodiesOf(bench, "d").map((body) => JSON.parse(body));
      assert.notEqual(first.bootstrap_room, second.bootstrap_room);
      assert.notEqual(first.rid, second.rid);
      await clean(bench);
    }
  }
});

test("with more servers the retry takes halves that have not failed", async () => {
  const workers = [PAIR, { prefill: "http://p2", decode: "http://d2", bootstrap_port: 1 }];
  const bench = pairBench({ workers });
  for (const host of ["p", "p2"]) bench.workers.scripts.set(host, [prefilled]);
  bench.workers.scripts.set("d", [{ status: 500, body: [{ send: "{}" }] }]);
  bench.workers.scripts.set("d2", [{ status: 500, body: [{ send: "{}" }] }]);
  const { status } = await answered(bench);
  assert.equal(status, 502);
  const asked = ["p", "d", "p2", "d2"].map((host) => bodiesOf(bench, host).length);
  assert.deepEqual(asked, [1, 1, 1, 1]);
});

test("a dead prefill server is blamed, and its decode server is not", async () => {
  const bench = pairBench({ retries: 0 });
  bench.workers.scripts.set("p", [{ before: [{ fail: "connect_failed" }] }]);
  bench.workers.scripts.set("d", [{ headers: SSE, body: [{ hang: true }] }]);
  const { status, text } = await answered(bench);
  assert.equal(status, 502);
  assert.match(text, /Worker m\.p1 did not answer: connect failed/);
  assert.deepEqual(bench.pool.workers().map((worker) => worker.failures), [1, 0]);
  const both = pairBench({ retries: 0 });
  both.workers.scripts.set("d", [handOffFailed]);
  assert.equal((await answered(both)).status, 502);
  assert.deepEqual(both.pool.workers().map((worker) => worker.failures), [1, 1]);
  await clean(both);
});

test("once decode has begun, a prefill server that breaks off harms nothing but its own record", async () => {
  const bench = pairBench();
  bench.workers.scripts.set("p", [{
    headers: SSE,
    body: [{ waitMs: 4 }, { fail: "reset_in_body" }],
  }]);
  bench.workers.scripts.set("d", [streamed]);
  const { status, text } = await answered(bench);
  assert.equal(status, 200);
  assert.match(text, /\[DONE\]/);
  assert.deepEqual(bench.pool.workers().map((worker) => worker.failures), [1, 0]);
  await clean(bench);
});

test("a request that a client called off by its id is its answer, not a reason to try again", async () => {
  const bench = pairBench();
  const message = '{"object":"error","message":"Decode handshake failed … Aborted by AbortReq.","code":500}';
  bench.workers.scripts.set("d", [{ status: 500, headers: JSON_HEAD, body: [{ send: message }] }]);
  const { status, text } = await answered(bench);
  assert.deepEqual([status, text], [500, message]);
  assert.equal(bodiesOf(bench, "d").length, 1);
  await clean(bench);
});

test("a client that leaves, in whatever phase: both servers confirm the abort before they are left", async () => {
  const phases: [string, Script, Script][] = [
    ["before any answer", { before: [{ hang: true }] }, { before: [{ hang: true }] }],
    ["between head and first token", { headers: SSE, body: [{ hang: true }] }, {
      headers: SSE,
      body: [{ hang: true }],
    }],
    ["in mid-stream, prefill still busy", { headers: SSE, body: [{ hang: true }] }, {
      headers: SSE,
      body: [event({ text: "A" }), { hang: true }],
    }],
  ];
  for (const [phase, p, d] of phases) {
    const bench = pairBench();
    bench.workers.scripts.set("p", [p]);
    bench.workers.scripts.set("d", [d]);
    const answer = bench.post("{}", { path: "/generate" });
    const read = answer.then((response) => response.text());
    read.catch(() => {});
    await bench.clock.advance(10);
    bench.gone.abort(new Error("gone"));
    await assert.rejects(settled(bench, read), /gone/, phase);
    await clean(bench);
    const { journal } = bench.workers;
    for (const host of ["p", "d"]) {
      const abort = journal.indexOf(`POST ${host} /abort_request`);
      assert.ok(abort >= 0 && abort < journal.indexOf(`close ${host} /generate`), `${phase}: ${journal}`);
    }
  }
});

test("requests beyond the window wait in line and are sent when a hand-off is over", async () => {
  const bench = pairBench({ pair_window: 1 });
  bench.workers.scripts.set("p", [{ headers: JSON_HEAD, body: [{ waitMs: 30 }, { send: "{}" }] }]);
  bench.workers.scripts.set("d", [{ headers: JSON_HEAD, body: [{ waitMs: 32 }, { send: "{}" }] }]);
  const answers = Array.from(
    { length: 4 },
    () => bench.post("{}", { path: "/generate" }).then((one) => one.text()),
  );
  await bench.clock.advance(10);
  assert.equal(bodiesOf(bench, "p").length, 1);
  await settled(bench, Promise.all(answers));
  assert.equal(bodiesOf(bench, "p").length, 4);
  await clean(bench);
});

test("requests that decode nothing go to decode alone, untouched", async () => {
  const bench = pairBench();
  await answered(bench, '{"text":"a"}', "/tokenize");
  assert.deepEqual(bodiesOf(bench, "p"), []);
  assert.deepEqual(bodiesOf(bench, "d"), ['{"text":"a"}']);
  await clean(bench);
});

test("whatever either half does and whenever the client leaves, nothing leaks and no room comes twice", async () => {
  const act = fc.constantFrom(
    event({ text: "x" }),
    event({ error: { message: "bad", code: 500 } }),
    event("[DONE]"),
    { waitMs: 7 },
    { waitMs: 2_000 },
    { fail: "reset_in_body" } as const,
  );
  const script = fc.record({
    status: fc.constantFrom(200, 200, 200, 400, 429, 500, 503),
    headers: fc.constantFrom(SSE, JSON_HEAD),
    before: fc.constantFrom<Script["before"][]>([], [{ waitMs: 5 }], [{ fail: "connect_failed" }], [{
      hang: true,
    }])
      .map((before) => before ?? []),
    body: fc.array(act, { maxLength: 4 }),
  });
  await fc.assert(
    fc.asyncProperty(
      fc.array(script, { minLength: 1, maxLength: 3 }),
      fc.array(script, { minLength: 1, maxLength: 3 }),
      fc.option(fc.nat(3_000)),
      fc.boolean(),
      async (ps, ds, leaveAtMs, atOnce) => {
        const bench = pairBench({ first_token_timeout_ms: 5_000, idle_timeout_ms: 3_000 });
        bench.workers.atOnce = atOnce;
        bench.workers.scripts.set("p", [...ps]);
        bench.workers.scripts.set("d", [...ds]);
        const read = bench.post("{}", { path: "/generate" }).then((response) => response.text());
        read.catch(() => {});
        if (leaveAtMs !== null) {
          await bench.clock.advance(leaveAtMs);
          bench.gone.abort(new Error("gone"));
        }
        await settled(bench, read).catch(() => {});
        await bench.clock.advance(bench.clock.now() + 30_000);
        assert.deepEqual(bench.leaks(), CLEAN);
        const rooms = bodiesOf(bench, "p").map((body) => JSON.parse(body).bootstrap_room);
        assert.equal(new Set(rooms).size, rooms.length);
      },
    ),
    { numRuns: 200 },
  );
});

test("answers that are there with their heads are the client's as they would be read, whatever they are", async () => {
  // In one piece, as it comes with its head.
  const body = fc.constantFrom(
    [],
    ['data: {"text":"x"}\n\ndata: [DONE]\n\n'],
    ['data: {"text":"x"}\n\n'],
    ['data: {"text":"x"}\n\ndata: {"error":{"message":"bad","code":400}}\n\n'],
    ['data: {"error":{"message":"bad","code":500}}\n\n'],
    ['{"text":"y"}'],
  ).map((texts) => texts.map((send) => ({ send })));
  const script = fc.record({
    status: fc.constantFrom(200, 200, 400, 429, 500),
    headers: fc.constantFrom(SSE, JSON_HEAD),
    body,
  });
  await fc.assert(
    fc.asyncProperty(script, script, async (p, d) => {
      const [read, taken] = [false, true].map((atOnce) => {
        const bench = pairBench();
        bench.workers.atOnce = atOnce;
        bench.workers.scripts.set("p", [{ ...p, before: [{ waitMs: 3 }] }]);
        bench.workers.scripts.set("d", [{ ...d, before: [{ waitMs: 6 }] }]);
        return bench;
      });
      const tell = async (bench: RelayBench) => {
        const { status, text } = await answered(bench);
        await clean(bench);
        return {
          status,
          text,
          workers: bench.pool.workers().map(({ served, failures }) => [served, failures]),
        };
      };
      assert.deepEqual(await tell(taken!), await tell(read!));
    }),
    { numRuns: 100 },
  );
});

test("a long body that was parsed is sent as one that was not", async () => {
  const long = `"messages":[{"role":"user","content":"${"x".repeat(1_100_000)}"}]`;
  for (const text of [`{${long}}`, `{"model":"m",${long}}`, `{"rid":"mine",${long}}`]) {
    const sent = async (parsed: JsonObject | undefined) => {
      const bench = pairBench();
      const body = new TextEncoder().encode(text);
      const request = { method: "POST", path: "/v1/chat/completions", headers: {}, body, parsed } as const;
      const { status } = await settled(bench, bench.relay.relay(bench.model, request, bench.gone.signal));
      return { status, bodies: bodiesOf(bench, "d") };
    };
    const scanned = await sent(undefined);
    assert.equal(scanned.status, 200);
    assert.ok(scanned.bodies[0]?.endsWith(`${long}}`));
    assert.deepEqual(await sent(JSON.parse(text)), scanned);
  }
});

test("a body that was parsed needs no scan, and what is sent is what a scan would have made of it", async () => {
  const member = fc.oneof(
    fc.constantFrom("model", "rid", "text", "input_ids", "stream", "logprobs", "r\u0069d", "messages"),
    fc.string({ maxLength: 3 }),
  );
  const value = fc.constantFrom('"m"', '"x"', "null", "1", "[1,2]", '["a","b"]', '{"rid":"in"}');
  const text = fc.array(fc.tuple(member, value), { maxLength: 5 }).map((members) =>
    ` { ${
      members.map(([name, json]) =>
        `"${name.startsWith("r\\u") ? name : JSON.stringify(name).slice(1, -1)}" : ${json}`
      ).join(" , ")
    } } `
  );
  await fc.assert(
    fc.asyncProperty(text, fc.constantFrom("m", "served"), async (text, name) => {
      const sent = async (parsed: JsonObject | undefined) => {
        const bench = relayBench({ engine: "sglang-pd", workers: [PAIR] }, name);
        bench.workers.scripts.set("p", [prefilled]);
        bench.workers.scripts.set("d", [decoded]);
        const body = new TextEncoder().encode(text);
        const request = { method: "POST", path: "/generate", headers: {}, body, parsed } as const;
        const answer = bench.relay.relay(bench.model, request, bench.gone.signal);
        const status = await settled(bench, answer).then(({ status }) => status, (error) => String(error));
        return { status, bodies: bodiesOf(bench, "d") };
      };
      assert.deepEqual(await sent(JSON.parse(text)), await sent(undefined));
    }),
    { numRuns: 200 },
  );
});
