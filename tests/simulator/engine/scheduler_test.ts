import assert from "node:assert/strict";
import { test } from "node:test";
import { fc, often } from "../../properties.ts";
import { VirtualClock } from "../../../base/clock.ts";
import { costModel } from "../../../simulator/engine/cost.ts";
import { RadixCache } from "../../../simulator/engine/prefix_cache.ts";
import { EngineScheduler } from "../../../simulator/engine/scheduler.ts";
import { EngineSequence } from "../../../simulator/engine/sequence.ts";
import { ask, at, ids, json, simulated } from "../recordings.ts";

test("The prefix cache finds the longest common prefix in whole pages, and never holds more than its books say", () => {
  const prompt = fc.array(fc.integer({ min: 0, max: 2 }), { minLength: 1, maxLength: 24 });
  fc.assert(
    fc.property(
      fc.constantFrom(1, 4),
      fc.array(prompt, { minLength: 1, maxLength: 25 }),
      (pageSize, prompts) => {
        const cache = new RadixCache(pageSize);
        const floor = (n: number) => n - n % pageSize;
        const stored: number[][] = [];
        const held: { node: ReturnType<RadixCache["hold"]>["node"] }[] = [];
        for (const ids of prompts) {
          let longest = 0;
          for (const other of stored) {
            let same = 0;
            while (same < Math.min(ids.length, floor(other.length)) && ids[same] === other[same]) same++;
            longest = Math.max(longest, floor(same));
          }
          const hit = cache.hold(ids, ids.length, "");
          assert.equal(hit.length, longest);
          const node = cache.extend(hit.node, ids, hit.length, Math.max(hit.length, floor(ids.length)));
          held.push({ node });
          stored.push(ids);
        }
        const pages = new Set<string>();
        for (const ids of stored) {
          for (let end = pageSize; end <= ids.length; end += pageSize) pages.add(ids.slice(0, end).join());
        }
        const tokens = pages.size * pageSize;
        assert.equal(cache.tokens, tokens);
        assert.equal(cache.evictableTokens, 0);
        for (const { node } of held) {
          cache.release(node);
        }
        assert.equal(cache.evictableTokens, cache.tokens);
        cache.evict(pageSize);
        assert.equal(cache.tokens, Math.max(0, tokens - pageSize));
        cache.clear();
        assert.equal(cache.tokens, 0);
      },
    ),
    { numRuns: often(100) },
  );
});

test("Whatever comes, is aborted and runs out of memory: the engine ends idle and its memory is free", async () => {
  const arrival = fc.record({
    prompt: fc.integer({ min: 1, max: 300 }),
    family: fc.integer({ min: 0, max: 3 }),
    output: fc.integer({ min: 0, max: 120 }),
    atMs: fc.integer({ min: 0, max: 300 }),
    abortMs: fc.option(fc.integer({ min: 0, max: 500 }), { nil: undefined }),
  });
  await fc.assert(
    fc.asyncProperty(
      fc.array(arrival, { minLength: 1, maxLength: 30 }),
      fc.constantFrom<"mixed" | "prefill_first">("mixed", "prefill_first"),
      fc.integer({ min: 440, max: 1500 }),
      async (arrivals, policy, kvTokens) => {
        const clock = new VirtualClock();
        const ended: EngineSequence[] = [];
        const scheduler = new EngineScheduler({
          clock,
          cost: costModel("4b"),
          policy,
          pageSize: policy === "mixed" ? 16 : 1,
          kvTokens,
          maxRunning: 8,
          maxBatchedTokens: 128,
          onEnd: (sequence) => ended.push(sequence),
          onFree: () => {},
        });
        await clock.run(async () => {
          await Promise.all(arrivals.map(async (request) => {
            await clock.sleep(request.atMs);
            let made = 0;
            const sequence = new EngineSequence({
              prompt: ids(request.family * 7, request.prompt),
              salt: "",
              cacheLimit: Infinity,
              arrivedMs: clock.now(),
              listener: {
                finish: undefined,
                sample: () => request.output === 0 ? undefined : 5,
                token: () => ++made >= request.output,
                aborted: () => {},
              },
            });
            scheduler.submit(sequence);
            if (request.abortMs === undefined) return;
            await clock.sleep(request.abortMs);
            scheduler.abort(sequence);
          }));
          while (scheduler.running + scheduler.waiting > 0) await clock.sleep(50);
        }, { limitMs: 600_000 });
        assert.equal(ended.length, arrivals.length);
        assert.equal(new Set(ended).size, arrivals.length);
        assert.equal(scheduler.usedTokens, 0);
        assert.ok(scheduler.cache.tokens <= kvTokens);
        for (const sequence of ended) {
          assert.equal(sequence.privateTokens, 0);
          assert.equal(sequence.node, undefined);
        }
      },
    ),
    { numRuns: often(30) },
  );
});

test("Two prompts of 7,300 tokens run in 16,384 tokens of memory, two wait, none is preempted", async () => {
  const { simulator, clock, run } = simulated({
    cost: "4b",
    kvTokens: 16384,
    blockSize: 32,
    contextTokens: 8192,
  });
  await run(async () => {
    const all = [0, 1, 2, 3].map((i) =>
      ask(simulator, {
        path: "/v1/completions",
        body: { prompt: ids(i * 300, 7300), max_tokens: 200, ignore_eos: true },
      })
    );
    await clock.sleep(400);
    const metrics = (await ask(simulator, { path: "/metrics" })).body;
    assert.match(metrics, /num_requests_running\{[^}]*\} 2\.0/);
    assert.match(metrics, /num_requests_waiting\{[^}]*\} 2\.0/);
    await Promise.all(all);
    assert.match((await ask(simulator, { path: "/metrics" })).body, /num_preemptions_total\{[^}]*\} 0\.0/);
  });
});

test("Decodes that outgrow the memory are preempted, and their answers stay the same", async () => {
  const answers = async (kvTokens: number) => {
    const { simulator, run } = simulated({ cost: "4b", kvTokens, blockSize: 16, contextTokens: 2048 });
    return await run(async () => {
      const all = await Promise.all([0, 1, 2, 3].map((i) =>
        ask(simulator, {
          path: "/v1/completions",
          body: { prompt: ids(i * 300, 200), max_tokens: 400, ignore_eos: true, return_token_ids: true },
        })
      ));
      const metrics = (await ask(simulator, { path: "/metrics" })).body;
      return {
        tokens: all.map((answer) => at(json(answer), "choices", 0, "token_ids")),
        preemptions: Number(/num_preemptions_total\{[^}]*\} (\d+)/.exec(metrics)?.[1]),
      };
    });
  };
  const roomy = await answers(100_000);
  const tight = await answers(1200);
  assert.equal(roomy.preemptions, 0);
  assert.ok(tight.preemptions > 0);
  assert.deepEqual(tight.tokens, roomy.tokens);
});

test("At most maxRunning sequences are worked on; the others wait their turn in order", async () => {
  const { simulator, clock, run } = simulated({ cost: "8b", maxRunning: 2 });
  const order = await run(async () => {
    const done: number[] = [];
    const all = [0, 1, 2, 3, 4].map(async (i) => {
      await ask(simulator, {
        path: "/v1/completions",
        body: { prompt: ids(i, 50), max_tokens: 10 + i, ignore_eos: true },
      });
      done.push(i);
    });
    await clock.sleep(20);
    assert.equal(simulator.running, 5);
    await Promise.all(all);
    return done;
  });
  assert.deepEqual(order, [0, 1, 2, 3, 4]);
});

const streams = often(600);

test(`${streams} concurrent streams of 50 tokens all come to their end, and leave nothing running`, async () => {
  for (const engine of ["vllm", "sglang"] as const) {
    const { simulator, run } = simulated({ engine, cost: "4b", maxRunning: streams + 48 });
    await run(() =>
      Promise.all(Array.from({ length: streams }, (_, i) =>
        ask(simulator, {
          path: "/v1/completions",
          body: { prompt: ids(i, 40 + i % 60), max_tokens: 50, ignore_eos: true, stream: true },
        })))
    );
    assert.equal(simulator.stats.generationTokens, 50 * streams);
    assert.equal(simulator.running, 0);
  }
});
