import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "../../properties.ts";
import { Random } from "../../../base/random.ts";
import { attemptIds } from "../../../router/relay/request_ids.ts";
import { RidRename } from "../../../router/relay/rid_rename.ts";
import { type Act, CLEAN, event, JSON_HEAD, relayBench, type Script, SSE } from "./fake_workers.ts";

const ABORT = "a/abort_request";
const endless: Script = { headers: SSE, body: [event({ text: "x" }), { hang: true }] };

/** A relay to one SGLang worker that confirms an abort after 10 ms. */
function sglang(script: Script, abort: readonly Act[] = [{ waitMs: 10 }]) {
  const bench = relayBench({ engine: "sglang" });
  bench.workers.scripts.set("a", [script]).set(ABORT, [{ before: abort }]);
  return bench;
}

function ridsAborted(bench: ReturnType<typeof sglang>): unknown[] {
  return bench.workers.seen.filter((one) => one.path === "/abort_request").map((one) =>
    JSON.parse(one.body).rid
  );
}

const inOrder = ["POST a /generate", "POST a /abort_request", "end a /abort_request", "close a /generate"];

test("a client that cancels a stream: the abort is confirmed before the connection is closed", async () => {
  const bench = sglang(endless);
  await bench.clock.run(async () => {
    const response = await bench.post('{"text":"hi","stream":true}', { path: "/generate" });
    const reader = response.body!.getReader();
    await reader.read();
    await reader.cancel();
  });
  assert.deepEqual(bench.workers.journal, inOrder);
  const { rid } = JSON.parse(bench.workers.seen[0]!.body);
  assert.match(rid, /^canopy-[0-9a-f]{24}$/);
  assert.deepEqual(ridsAborted(bench), [rid]);
  assert.deepEqual(bench.leaks(), CLEAN);
});

test("a client whose signal aborts in mid-stream: the same order", async () => {
  const bench = sglang(endless);
  await bench.clock.run(async () => {
    bench.clock.sleep(50).then(() => bench.gone.abort(new Error("gone")));
    await assert.rejects(async () => {
      const response = await bench.post('{"text":"hi"}', { path: "/generate" });
      await response.text();
    }, /gone/);
  });
  assert.deepEqual(bench.workers.journal, inOrder);
  assert.equal(bench.clock.now(), 50 + 10 + 300);
  assert.deepEqual(bench.leaks(), CLEAN);
});

test("before any answer, an abort that may have overtaken its request is repeated before the connection is closed", async () => {
  // Nothing comes; the request comes late, and is decoded; the abort was in time, and ends it.
  const scripts: [Script, closedAtMs: number][] = [
    [{ before: [{ hang: true }] }, 50 + 10 + 300 + 10],
    [{ before: [{ waitMs: 70 }], headers: SSE, body: [event({ text: "x" }), { hang: true }] }, 370],
    [{ before: [{ waitMs: 55 }, { fail: "reset_before_head" }] }, 60],
  ];
  for (const [script, closedAtMs] of scripts) {
    const bench = sglang(script);
    await bench.clock.run(async () => {
      bench.clock.sleep(50).then(() => bench.gone.abort(new Error("gone")));
      await assert.rejects(bench.post('{"text":"hi"}', { path: "/generate" }), /gone/);
    });
    const aborts = bench.workers.journal.filter((line) => line === "POST a /abort_request").length;
    assert.equal(aborts, closedAtMs === 60 ? 1 : 2);
    if (aborts === 2) assert.equal(bench.workers.journal.at(-1), "close a /generate");
    assert.equal(bench.clock.now(), closedAtMs);
    assert.deepEqual(bench.leaks(), CLEAN);
  }
});

test("a time limit ends the work on the engine in the same order", async () => {
  const bench = sglang(endless);
  const response = await bench.clock.run(() => bench.post('{"text":"hi"}', { path: "/generate" }));
  await bench.clock.run(() => response.text());
  assert.deepEqual(bench.workers.journal, inOrder);
});

test("an abort that is not confirmed holds the connection for two seconds at most", async () => {
  const bench = sglang(endless, [{ hang: true }]);
  await bench.clock.run(async () => {
    const response = await bench.post("{}", { path: "/generate" });
    await response.body!.cancel();
  });
  assert.equal(bench.clock.now(), 2_000 + 300);
  assert.equal(bench.workers.journal.at(-1), "close a /generate");
  assert.deepEqual(bench.leaks(), CLEAN);
});

test("a request that is over is not aborted, and vLLM is never asked to abort", async () => {
  const whole: Script = { headers: JSON_HEAD, body: [{ send: "{}" }] };
  const over = sglang(whole);
  await (await over.post("{}", { path: "/generate" })).text();
  over.gone.abort();
  await over.clock.advance();
  assert.deepEqual(ridsAborted(over), []);
  const vllm = relayBench();
  vllm.workers.scripts.set("a", [endless]);
  await (await vllm.post("{}")).body!.cancel();
  assert.deepEqual(vllm.workers.journal, ["POST a /v1/chat/completions", "close a /v1/chat/completions"]);
});

test("a client's own rids get a space of their own, and nothing else in the body changes", async () => {
  const cases: [body: string, sent: string | undefined, aborted: string[]][] = [
    ['{"rid":"mine", "seed":9223372036854775807}', '{"rid":"RID", "seed":9223372036854775807}', ["RID"]],
    ['{"rid":"mine","text":["a","b"]}', '{"rid":["RID.0.","RID.1."],"text":["a","b"]}', ["RID.0.", "RID.1."]],
    ['{"rid":["p","q"],"text":["a","b"]}', '{"rid":["RID.0.","RID.1."],"text":["a","b"]}', [
      "RID.0.",
      "RID.1.",
    ]],
    ['{"rid":"","text":"a"}', '{"rid":"RID","text":"a"}', ["RID"]],
    ['{"input_ids":[1,2], "rid" : null}', '{"input_ids":[1,2], "rid" : "RID"}', ["RID"]],
    ['{"prompt":["a","b","c"]}', '{"rid":["RID","RID.1","RID.2"],"prompt":["a","b","c"]}', [
      "RID",
      "RID.1",
      "RID.2",
    ]],
    ['{"input_ids":[[1],[2]]}', '{"rid":["RID","RID.1"],"input_ids":[[1],[2]]}', ["RID", "RID.1"]],
    ['{"prompt":[1,2,3]}', '{"rid":"RID","prompt":[1,2,3]}', ["RID"]],
  ];
  for (const [body, sent, aborted] of cases) {
    const bench = sglang(endless);
    await bench.clock.run(async () => await (await bench.post(body, { path: "/generate" })).body!.cancel());
    const plain = (text: string) => text.replaceAll(/canopy-[0-9a-f]{24}/g, "RID");
    assert.equal(plain(bench.workers.seen[0]!.body), sent ?? body);
    assert.deepEqual(ridsAborted(bench).map((rid) => plain(String(rid))), aborted);
  }
});

test("each attempt has a fresh rid, and requests that do not decode have none", async () => {
  const bench = relayBench({ engine: "sglang", workers: ["http://a", "http://b"] });
  for (const host of ["a", "b"]) bench.workers.scripts.set(host, [{ status: 503 }]);
  await bench.clock.run(() => bench.post('{"text":"x"}', { path: "/generate" }));
  const rids = bench.workers.seen.map((one) => JSON.parse(one.body).rid);
  assert.equal(new Set(rids).size, 2);
  await bench.clock.run(() => bench.post('{"prompt":"x"}', { path: "/tokenize" }));
  assert.equal(bench.workers.seen.at(-1)!.body, '{"prompt":"x"}');
});

test("a rid that is no id is a 400 that names it", async () => {
  for (const rid of ["5", "true", "{}", "[1]", '["a",null]']) {
    const bench = sglang(endless);
    await assert.rejects(bench.post(`{"rid":${rid},"text":"x"}`, { path: "/generate" }), {
      status: 400,
      param: "rid",
    });
    assert.deepEqual(bench.leaks(), CLEAN);
  }
});

test("no attempt's ids begin with another's, and each of a client's stands for one", () => {
  const name = fc.string({ maxLength: 4 });
  const own = fc.oneof(name, fc.array(name, { minLength: 1, maxLength: 12 }), fc.constant(undefined));
  const random = new Random("rids");
  fc.assert(fc.property(fc.array(own, { minLength: 2, maxLength: 4 }), (requests) => {
    const all = requests.map((rids) =>
      attemptIds(rids, typeof rids === "object" ? rids.length : undefined, random)
    );
    for (const [i, { rids, written }] of all.entries()) {
      assert.deepEqual([JSON.parse(written)].flat(), rids);
      for (const [j, other] of all.entries()) {
        for (const [k, rid] of rids.entries()) {
          for (const [l, one] of other.rids.entries()) {
            if (i !== j || (typeof requests[i] === "object" && k !== l)) assert.ok(!one.startsWith(rid));
          }
        }
      }
    }
  }));
});

test("answers show the client's own ids, whatever stands in them, wherever the engine puts its own", () => {
  const ids = attemptIds(["a", '"\\\u2028'], 2, new Random("rids"));
  const encode = (text: string) => new TextEncoder().encode(text);
  const decode = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
  const rename = new RidRename(ids, ["a", '"\\\u2028']);
  const told = { meta_info: { id: ids.rids[1] }, note: `${ids.rids[0]} and ${ids.space}` };
  assert.deepEqual(JSON.parse(decode(rename.answer(encode(JSON.stringify(told))))), {
    meta_info: { id: '"\\\u2028' },
    note: `a and ${ids.space}`,
  });
  const one = attemptIds("mine", undefined, new Random("rid"));
  assert.equal(
    decode(new RidRename(one, "mine").events(encode(`data: "${one.space}_0"\n\n`))),
    'data: "mine_0"\n\n',
  );
  const plain = encode('{"id":"canopy-0"}');
  assert.equal(rename.answer(plain), plain);
});

test("ids of live requests are known as long as the requests live, and to their owners only", async () => {
  const bench = sglang(endless);
  await bench.clock.run(async () => {
    const response = await bench.post('{"rid":"mine","text":["a","b"]}', { path: "/generate" });
    const find = (rid: string, owned = true) =>
      bench.relay.liveRids(rid, () => owned).map(({ rid }) => rid.slice(31));
    assert.deepEqual(find("mine"), [".0.", ".1."]);
    assert.deepEqual(find("mine_1"), [".1."]);
    assert.deepEqual(find("mine", false), []);
    for (const other of ["min", "", "canopy-", "mine_"]) assert.deepEqual(find(other), []);
    await response.body!.cancel();
    assert.deepEqual(find("mine"), []);
  });
});
