import assert from "node:assert/strict";
import { test } from "node:test";
import { ask, eventsOf, makeWarmWorld } from "./warm_world.ts";

const RELAYED = 24;
/** When the relayed prompts come, after the run's start: its first agent has written a part of its text. */
const AFTER_MS = 1_000;

interface Reading {
  readonly fromMs: number;
  untilMs: number;
}

const scenes = [
  { serving: "vllm", reader: "4b", writer: "32b", words: 4_000 },
  { serving: "sglang-pd", reader: "32b", writer: "4b", words: 1_000 },
] as const;

for (const { serving, reader, writer, words } of scenes) {
  test(`${RELAYED} relayed prompts wait to be read: a run's warms are held for them all: ${serving}`, async () => {
    const readings: Reading[] = [];
    const world = makeWarmWorld({
      seed: "relayed prompts",
      replicas: 1,
      ...(serving === "vllm" ? {} : { pairs: { engine: serving } }),
      graphs: {
        moa: {
          layers: [
            { agents: [{ model: writer }], sampling: { max_tokens: 3_000, ignore_eos: true } },
            { agents: [{ model: reader }], sampling: { max_tokens: 10 } },
          ],
          incremental_prefill: { mode: "auto" },
        },
      },
    });
    const { clock } = world;
    await clock.run(async () => {
      const router = world.router();
      await router.ready();
      const startMs = clock.now();
      const run = ask(router, "moa", "Why?");
      await clock.sleep(AFTER_MS);
      const relayed = Array.from({ length: RELAYED }, async (_, index) => {
        const reading: Reading = { fromMs: clock.now() - startMs, untilMs: Infinity };
        readings.push(reading);
        const response = await router.app.request("/v1/chat/completions", {
          method: "POST",
          headers: { "content-type": "application/json" },
          body: JSON.stringify({
            model: reader,
            stream: true,
            max_tokens: 5,
            messages: [{ role: "user", content: `${index} ${`word${index} `.repeat(words)}` }],
          }),
        });
        assert.equal(response.status, 200);
        const chunks = response.body!.getReader();
        await chunks.read();
        reading.untilMs = clock.now() - startMs;
        while (!(await chunks.read()).done);
      });
      await Promise.all(relayed);
      const record = await run;
      assert.equal(record.state, "done");
      const sent = eventsOf(record, "warm_sent").map(({ atMs }) => atMs);
      const held = eventsOf(record, "warm_held").filter(({ data }) => data?.["for"] === "prompts");
      const readMs = readings.map(({ untilMs }) => untilMs).sort((a, b) => a - b);
      // A prefill half has read the last prompt before its client has a token.
      const untilMs = readMs.at(serving === "vllm" ? -1 : -2)!;
      const writtenMs = eventsOf(record, "agent_done")[0]?.atMs ?? 0;
      assert.ok(writtenMs > untilMs, `the writer is done at ${writtenMs}, before ${untilMs}`);
      assert.ok(untilMs > AFTER_MS + 500, `all prompts were read within ${untilMs - AFTER_MS} ms`);
      assert.ok(sent.some((atMs) => atMs < AFTER_MS), "warms before");
      const meanwhile = sent.filter((atMs) => atMs > AFTER_MS && atMs < untilMs);
      assert.deepEqual(meanwhile, [], "warms while prompts waited");
      assert.ok(held.length > 0, "the trace tells what the warms were held for");
      assert.ok(sent.some((atMs) => atMs >= untilMs), "warms afterwards");
      await router.close();
    }, { limitMs: 600_000 });
  });
}
