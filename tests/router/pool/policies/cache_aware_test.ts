import assert from "node:assert/strict";
import { test } from "node:test";
import { Random } from "../../../../base/random.ts";
import { CacheAware } from "../../../../router/pool/policies/cache_aware.ts";
import { LeastLoad } from "../../../../router/pool/policies/least_load.ts";
import { PromptPrefix } from "../../../../router/pool/prompt_prefix.ts";
import { fc } from "../../../properties.ts";
import { runCacheWorld, type WorldRequest } from "./cache_world.ts";
import { choose, idleWorkers, lettersOf, policyOf, promptOf } from "./choices.ts";

const PREFIXES = Array.from({ length: 32 }, (_, i) => lettersOf(`prefix ${i}`, 8_192));
const FOUR_CACHES = [12, 12, 12, 12];

/** One of 32 prefixes of 8 kB, and an end of its own. */
function sharedPrefix(_: number, random: Random): WorldRequest {
  const prefix = random.pick(PREFIXES);
  return { prefix, prompt: PromptPrefix.ofJson(prefix + random.hex(200)) };
}

function unsharedPrompt(at: number, random: Random): WorldRequest {
  return { prefix: `${at}`, prompt: PromptPrefix.ofJson(random.hex(1 + random.int(16_000))) };
}

test("32 prefixes at four workers that hold 12 each: nearly all are found but for the first time, evenly spread", () => {
  for (const [clients, seed] of [[8, "a"], [32, "b"], [128, "c"]] as const) {
    const world = { caches: FOUR_CACHES, requests: 1_600, clients, seed, request: sharedPrefix };
    const { hits, spread } = runCacheWorld({ ...world, routers: [policyOf("cache_aware")] });
    assert.ok(hits >= 0.969, `${clients} clients: ${hits}`);
    assert.ok(spread <= 1.6, `${clients} clients: ${spread}`);
    assert.ok(runCacheWorld({ ...world, routers: [policyOf("least_load")] }).hits < 0.45);
  }
});

test("routers that know nothing of each other agree on nearly all prefixes", () => {
  const of = (routers: number) =>
    runCacheWorld({
      caches: FOUR_CACHES,
      routers: Array.from({ length: routers }, (_, i) => policyOf("cache_aware", `${i}`)),
      requests: 1_600,
      clients: 32,
      seed: "agree",
      request: sharedPrefix,
    });
  assert.ok(of(2).hits > 0.96, `${of(2).hits}`);
  assert.ok(of(4).hits > 0.85, `${of(4).hits}`);
});

test("two idle routers agree on every prompt, whatever order they learnt of their workers in, and whatever ends it", () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 9 }),
      fc.string({ minLength: 1 }),
      fc.integer({ min: 512, max: 20_000 }),
      fc.string({ maxLength: 400 }),
      (count, seed, bytes, tail) => {
        const begin = lettersOf(seed, bytes);
        const one = choose(policyOf("cache_aware", "one"), idleWorkers(count), {
          prompt: PromptPrefix.ofJson(begin),
        });
        const other = choose(policyOf("cache_aware", "other"), idleWorkers(count, 5), {
          prompt: PromptPrefix.ofJson(begin + tail),
        });
        assert.equal(one.identity, other.identity);
      },
    ),
  );
});

test("prompts that nobody shares are spread better than by round robin", () => {
  const of = (name: "cache_aware" | "round_robin") =>
    runCacheWorld({
      caches: FOUR_CACHES,
      routers: [policyOf(name)],
      requests: 1_600,
      clients: 32,
      seed: "random",
      request: unsharedPrompt,
    });
  assert.ok(of("cache_aware").busiest <= of("round_robin").busiest);
  assert.ok(of("cache_aware").spread <= 1.2);
});

test("behind a system prompt that all requests begin with, conversations keep their workers", () => {
  const system = lettersOf("system", 9_000);
  const turns = new Map<number, number>();
  const request = (_: number, random: Random): WorldRequest => {
    const who = random.int(64);
    const turn = (turns.get(who) ?? 0) + 1;
    turns.set(who, turn);
    return { prefix: `${who}`, prompt: PromptPrefix.ofJson(system + lettersOf(`talk ${who}`, 700 * turn)) };
  };
  const { hits, spread } = runCacheWorld({
    caches: [20, 20, 20, 20],
    routers: [policyOf("cache_aware")],
    requests: 1_600,
    clients: 32,
    seed: "talks",
    request,
  });
  assert.ok(hits > 0.85, `${hits}`);
  assert.ok(spread < 1.6, `${spread}`);
});

test("what engines say of their caches is learned: prefixes leave a worker that cannot hold its share", () => {
  const of = (reports: boolean) =>
    runCacheWorld({
      caches: [5, 13, 13, 13],
      routers: [policyOf("cache_aware")],
      requests: 8_000,
      clients: 16,
      seed: "small",
      request: sharedPrefix,
      reports,
    });
  const [told, untold] = [of(true), of(false)];
  assert.ok(told.hits > 0.94, `${told.hits}`);
  assert.ok(told.hits > untold.hits + 0.03, `${untold.hits}`);
  assert.equal(Math.min(...told.perWorker), told.perWorker[0]);
});

test("a prefix stays with its worker while that one is only full, and moves when it has gone", () => {
  const policy = policyOf("cache_aware");
  const workers = idleWorkers(4);
  const request = (tail: string) => ({ prompt: promptOf("document", 4_000, tail) });
  const home = choose(policy, workers, request("1"));
  const others = workers.filter((worker) => worker !== home);
  assert.notEqual(policy.choose({ candidates: others, usable: workers }, request("2")), home);
  assert.equal(choose(policy, workers, request("3")), home);
  const next = choose(policy, others, request("4"));
  assert.equal(choose(policy, workers, request("5")), next, "it is cached there now");
});

test("a worker gets no request that would wait longer there than its prompt takes to read elsewhere", () => {
  const policy = policyOf("cache_aware");
  const workers = idleWorkers(4);
  const prompt = promptOf("document", 4_096);
  const home = choose(policy, workers, { prompt });
  home.inFlight = 4;
  assert.equal(choose(policy, workers, { prompt }), home, "4,096 bytes are worth four requests");
  home.inFlight = 8;
  assert.notEqual(choose(policy, workers, { prompt }), home);
});

test("prompts shorter than a piece go to the idlest worker", () => {
  const policy = policyOf("cache_aware");
  const workers = idleWorkers(3);
  const chosen = Array.from(
    { length: 6 },
    () => choose(policy, workers, { prompt: promptOf("hi", 100) }).ordinal,
  );
  assert.deepEqual(chosen, [0, 1, 2, 0, 1, 2]);
});

test("memory is bounded, and prefixes that come again stay", () => {
  const policy = new CacheAware(new LeastLoad(-1), 100);
  const workers = idleWorkers(4);
  const request = { prompt: promptOf("again", 1_000) };
  const home = choose(policy, workers, request);
  for (let i = 0; i < 5_000; i++) {
    choose(policy, workers, { prompt: promptOf(`once ${i}`, 600) });
    if (i % 50 === 0) assert.equal(choose(policy, workers, request), home);
    assert.ok(policy.size <= 200);
  }
});
