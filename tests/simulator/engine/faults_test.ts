import assert from "node:assert/strict";
import { test } from "node:test";
import { ask, at, eventsOf, ids, json, simulated } from "../recordings.ts";

const BODY = { prompt: ids(1, 30), max_tokens: 20, ignore_eos: true };
const WHOLE = { path: "/v1/completions", body: BODY };
const STREAM = { path: "/v1/completions", body: { ...BODY, stream: true } };

test("Injected faults strike as often as they say, and only requests that generate", async () => {
  const { simulator, run } = simulated();
  await run(async () => {
    simulator.inject({ kind: "status_500", count: 2 });
    assert.equal((await ask(simulator, { path: "/health" })).status, 200);
    assert.equal((await ask(simulator, WHOLE)).status, 500);
    const second = await ask(simulator, STREAM);
    assert.equal(second.status, 500);
    assert.equal(at(json(second), "error", "type"), "InternalServerError");
    assert.equal((await ask(simulator, WHOLE)).status, 200);
    simulator.inject({ kind: "status_503", count: 1 });
    assert.equal((await ask(simulator, WHOLE)).status, 503);
  });
});

test("A fault without end strikes every path", async () => {
  const { simulator, run } = simulated({ engine: "sglang" });
  await run(async () => {
    simulator.inject({ kind: "refuse", count: Infinity });
    await assert.rejects(ask(simulator, { path: "/health" }), {
      name: "TransportError",
      code: "connect_failed",
    });
    await assert.rejects(ask(simulator, WHOLE), { code: "connect_failed" });
  });
});

test("A reset comes before the head; a truncated stream breaks after its events and leaves the engine idle", async () => {
  const { simulator, clock, run } = simulated({ cost: "4b" });
  await run(async () => {
    simulator.inject({ kind: "reset", count: 1 });
    await assert.rejects(ask(simulator, WHOLE), { code: "reset_before_head" });
    simulator.inject({ kind: "truncate", count: 1, value: 3 });
    const response = await simulator.handle({
      method: "POST",
      url: "http://simulator/v1/completions",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(STREAM.body),
    }, new AbortController().signal);
    let chunks = 0;
    await assert.rejects(async () => {
      for await (const _chunk of response.body) chunks++;
    }, { code: "reset_in_body" });
    assert.equal(chunks, 3);
    await clock.sleep(20);
    assert.equal(simulator.running, 0);
    simulator.inject({ kind: "truncate", count: 1 });
    await assert.rejects(ask(simulator, WHOLE), { code: "reset_in_body" });
  });
});

test("A hanging request answers only to its client's leaving", async () => {
  const { simulator, clock, run } = simulated();
  await run(async () => {
    simulator.inject({ kind: "hang", count: 1 });
    const client = new AbortController();
    const hanging = assert.rejects(ask(simulator, WHOLE, client.signal), /gave up/);
    await clock.sleep(1_000_000);
    client.abort(new Error("gave up"));
    await hanging;
    assert.equal((await ask(simulator, WHOLE)).status, 200);
  });
});

test("A slow request takes its factor longer, with the same events", async () => {
  const time = async (slow: boolean) => {
    const { simulator, clock, run } = simulated({ cost: "4b" });
    if (slow) simulator.inject({ kind: "slow", count: 1, value: 5 });
    const answer = await run(() => ask(simulator, STREAM));
    const text = eventsOf(answer.body).map((event) => at(event, "choices", 0, "text")).join("");
    return { ms: clock.now(), text };
  };
  const [normal, slow] = [await time(false), await time(true)];
  assert.equal(slow.text, normal.text);
  assert.ok(slow.ms > 2 * normal.ms, `${slow.ms} against ${normal.ms} ms`);
});

test("Random faults have the asked rate, and the seed repeats them", async () => {
  const outcomes = async (seed: string) => {
    const { simulator, run } = simulated({
      seed,
      faultRate: { probability: 0.3, faults: [{ kind: "status_500" }, { kind: "refuse" }] },
    });
    return await run(async () => {
      const list: string[] = [];
      for (let i = 0; i < 200; i++) {
        list.push(await ask(simulator, WHOLE).then(({ status }) => String(status), () => "refused"));
      }
      return list;
    });
  };
  const first = await outcomes("a");
  assert.deepEqual(await outcomes("a"), first);
  assert.notDeepEqual(await outcomes("b"), first);
  const struck = first.filter((outcome) => outcome !== "200").length;
  assert.ok(struck > 30 && struck < 90, `${struck} of 200`);
});
