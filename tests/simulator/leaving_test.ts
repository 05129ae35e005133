import assert from "node:assert/strict";
import { test } from "node:test";
import type { JsonObject } from "../../base/json.ts";
import type { SimulatorOptions } from "../../simulator/server/simulator_options.ts";
import { ask, at, eventsOf, ids, json, simulated } from "./recordings.ts";

const LONG = 5000;

function longRequest(engine: "vllm" | "sglang", stream: boolean): { path: string; body: JsonObject } {
  return engine === "vllm"
    ? { path: "/v1/completions", body: { prompt: ids(1, 50), max_tokens: LONG, ignore_eos: true, stream } }
    : {
      path: "/generate",
      body: {
        rid: "r-1",
        input_ids: ids(1, 50),
        sampling_params: { max_new_tokens: LONG, ignore_eos: true },
        stream,
      },
    };
}

/** Sends a long request, leaves after 500 ms, and says how long the engine went on, in ms of H200 time. */
async function idleAfterLeaving(
  options: Partial<SimulatorOptions>,
  stream: boolean,
  how: { abortFirst?: boolean; abortAfterwards?: boolean } = {},
): Promise<number> {
  const { simulator, clock, run } = simulated({ cost: "4b", ...options });
  return await run(async () => {
    const client = new AbortController();
    const answer = ask(simulator, longRequest(options.engine ?? "vllm", stream), client.signal);
    const ended = assert.rejects(answer, /left/);
    await clock.sleep(500);
    assert.equal(simulator.running, 1);
    const abort = () => ask(simulator, { path: "/abort_request", body: { rid: "r-1" } });
    if (how.abortFirst === true) assert.equal((await abort()).status, 200);
    client.abort(new Error("left"));
    await ended;
    const leftMs = clock.now();
    if (how.abortAfterwards === true) {
      await clock.sleep(300);
      assert.equal((await abort()).status, 200);
    }
    while (simulator.running > 0) await clock.sleep(5);
    return clock.now() - leftMs;
  });
}

test("vLLM stops within a step when the client leaves, stream or not", async () => {
  for (const stream of [true, false]) assert.ok(await idleAfterLeaving({ engine: "vllm" }, stream) <= 15);
});

test("SGLang 0.5.18 decodes an abandoned stream to its end, even when an abort follows", async () => {
  const options = { engine: "sglang", version: "0.5.18" } as const;
  assert.ok(await idleAfterLeaving(options, true) > 15_000);
  assert.ok(await idleAfterLeaving(options, true, { abortAfterwards: true }) > 15_000);
});

test("SGLang 0.5.18 stops at once when the abort comes before the close", async () => {
  assert.ok(
    await idleAfterLeaving({ engine: "sglang", version: "0.5.18" }, true, { abortFirst: true }) <= 15,
  );
});

test("SGLang 0.5.23 stops an abandoned stream at once, 0.5.10 after two seconds or at an abort", async () => {
  assert.ok(await idleAfterLeaving({ engine: "sglang", version: "0.5.23" }, true) <= 15);
  const before = await idleAfterLeaving({ engine: "sglang", version: "0.5.10" }, true);
  assert.ok(before >= 2000 && before <= 2020, `${before} ms`);
  assert.ok(
    await idleAfterLeaving({ engine: "sglang", version: "0.5.10" }, true, { abortAfterwards: true }) <= 330,
  );
});

test("SGLang notices within four seconds that nobody waits for an answer without a stream", async () => {
  for (const version of ["0.5.18", "0.5.23"]) {
    const ms = await idleAfterLeaving({ engine: "sglang", version }, false);
    assert.ok(ms > 3000 && ms <= 4020, `${ms} ms`);
  }
});

test("Ending the iteration of a body is leaving, too", async () => {
  const { simulator, clock, run } = simulated({ cost: "4b" });
  await run(async () => {
    const { path, body } = longRequest("vllm", true);
    const response = await simulator.handle({
      method: "POST",
      url: `http://simulator${path}`,
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
    }, new AbortController().signal);
    let chunks = 0;
    for await (const _chunk of response.body) if (++chunks === 3) break;
    await clock.sleep(20);
    assert.equal(simulator.running, 0);
    assert.equal(simulator.stats.aborted, 1);
  });
});

test("A client that leaves before its request reaches the engine leaves no trace", async () => {
  for (const engine of ["vllm", "sglang"] as const) {
    for (const stream of [true, false]) {
      const { simulator, clock, run } = simulated({ engine, cost: "4b" });
      await run(async () => {
        const client = new AbortController();
        const answer = ask(simulator, longRequest(engine, stream), client.signal);
        const ended = assert.rejects(answer, /left/);
        await clock.sleep(1);
        client.abort(new Error("left"));
        await ended;
        await clock.sleep(100);
        assert.equal(simulator.running, 0);
        assert.equal(simulator.stats.requests, 0);
      });
    }
  }
});

test("An aborted SGLang request ends with finish_reason abort, by exact id or by the prefix of a live one", async () => {
  const { simulator, clock, run } = simulated({ engine: "sglang", cost: "4b" });
  await run(async () => {
    const start = (rid: string, stream: boolean) =>
      ask(simulator, {
        path: "/generate",
        body: {
          rid,
          input_ids: ids(1, 20),
          sampling_params: { max_new_tokens: LONG, ignore_eos: true },
          stream,
        },
      });
    const [one, ten, other] = [start("pair-1", true), start("pair-10", false), start("solo", false)];
    await clock.sleep(100);
    await ask(simulator, { path: "/abort_request", body: { rid: "pair" } });
    await ask(simulator, { path: "/abort_request", body: { rid: "" } });
    await ask(simulator, { path: "/abort_request", body: {} });
    await clock.sleep(50);
    assert.equal(simulator.running, 3);
    assert.equal((await start("solo", false)).status, 400);
    await ask(simulator, { path: "/abort_request", body: { rid: "pair-1" } });
    const reason = { type: "abort", message: "Aborted", status_code: null, err_type: null };
    assert.deepEqual(at(eventsOf((await one).body).at(-1)!, "meta_info", "finish_reason"), reason);
    assert.deepEqual(at(json(await ten), "meta_info", "finish_reason"), reason);
    assert.equal(simulator.running, 1);
    assert.equal((await ask(simulator, { method: "POST", path: "/flush_cache" })).status, 400);
    await ask(simulator, { path: "/abort_request", body: { abort_all: true } });
    assert.deepEqual(at(json(await other), "meta_info", "finish_reason"), reason);
    assert.equal((await ask(simulator, { method: "POST", path: "/flush_cache" })).status, 200);
  });
});

test("vLLM's abort_requests ends a stream with finish_reason abort", async () => {
  const { simulator, clock, run } = simulated({ cost: "4b" });
  await run(async () => {
    const { path, body } = longRequest("vllm", true);
    const headers = { "content-type": "application/json", "x-request-id": "canopy-1" };
    const stream = ask(simulator, { path, body, headers });
    await clock.sleep(100);
    const aborted = await ask(simulator, {
      path: "/abort_requests",
      body: { request_ids: ["cmpl-canopy-1", "cmpl-no"] },
    });
    assert.deepEqual(json(aborted), { status: "aborted", aborted: 1 });
    assert.equal(at(eventsOf((await stream).body).at(-1)!, "choices", 0, "finish_reason"), "abort");
  });
});

test("A prefill step is not interrupted, and what it computed stays cached", async () => {
  const { simulator, clock, run } = simulated({ cost: "32b", maxBatchedTokens: 2048 });
  await run(async () => {
    const client = new AbortController();
    const body = { prompt: ids(1, 6000), max_tokens: 1 };
    const answer = assert.rejects(ask(simulator, { path: "/v1/completions", body }, client.signal), /left/);
    await clock.sleep(50);
    client.abort(new Error("left"));
    await answer;
    await clock.sleep(100);
    assert.equal(simulator.running, 1);
    await clock.sleep(100);
    assert.equal(simulator.running, 0);
    const again = json(await ask(simulator, { path: "/v1/completions", body }));
    assert.equal(at(again, "usage", "prompt_tokens_details", "cached_tokens"), 2048);
  });
});

test("A token id outside of the vocabulary kills SGLang: no more answers, then no more connections", async () => {
  const { simulator, clock, run } = simulated({ engine: "sglang", cost: "8b" });
  await run(async () => {
    const hung = new AbortController();
    const body = (input: number[]) => ({ input_ids: input, sampling_params: { max_new_tokens: 5 } });
    const victims = [
      ask(simulator, { path: "/generate", body: body([1, 2, 3]) }, hung.signal),
      ask(simulator, { path: "/generate", body: body([5, -3]) }, hung.signal),
    ];
    const settled = Promise.allSettled(victims);
    await clock.sleep(1000);
    assert.equal((await ask(simulator, { path: "/v1/models" })).status, 200);
    await clock.sleep(5000);
    await assert.rejects(ask(simulator, { path: "/v1/models" }), { code: "connect_failed" });
    hung.abort(new Error("gave up"));
    for (const result of await settled) assert.equal(result.status, "rejected");
  });
});
