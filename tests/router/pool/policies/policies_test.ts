import assert from "node:assert/strict";
import { test } from "node:test";
import { POLICY_NAMES } from "../../../../cfgs/schema/policies.ts";
import { LeastLoad } from "../../../../router/pool/policies/least_load.ts";
import { Manual } from "../../../../router/pool/policies/manual.ts";
import { RoundRobin } from "../../../../router/pool/policies/round_robin.ts";
import { fc } from "../../../properties.ts";
import { candidateLists, choose, idleWorkers, policyOf, promptOf } from "./choices.ts";

test("every policy takes one of those with room, whatever it was told before", () => {
  const requests = fc.record({
    stickyKey: fc.option(fc.constantFrom("a", "b", "c"), { nil: undefined }),
    prompt: fc.option(
      fc.tuple(fc.constantFrom("p", "q"), fc.integer({ min: 0, max: 20_000 })).map(([of, bytes]) =>
        promptOf(of, bytes)
      ),
      { nil: undefined },
    ),
    roomy: fc.nat(7),
    cachedTokens: fc.nat(10),
  });
  fc.assert(
    fc.property(
      fc.constantFrom(...POLICY_NAMES),
      fc.array(fc.tuple(candidateLists, requests), { minLength: 1, maxLength: 20 }),
      (name, steps) => {
        const policy = policyOf(name);
        for (const [usable, { roomy, cachedTokens, ...request }] of steps) {
          const candidates = usable.filter((_, i) => i % 2 === roomy % 2 || usable.length === 1);
          if (candidates.length === 0) continue;
          const chosen = policy.choose({ candidates, usable }, request);
          assert.ok(candidates.includes(chosen));
          policy.promptRead?.(chosen.ordinal, request, { promptTokens: 10, cachedTokens });
        }
      },
    ),
  );
});

test("every policy takes one of those with room while other threads change how much each has to do", () => {
  fc.assert(
    fc.property(
      fc.constantFrom(...POLICY_NAMES),
      candidateLists,
      fc.infiniteStream(fc.nat(3)),
      (name, list, loads) => {
        const candidates = list.map(({ ordinal, identity }) => ({
          ordinal,
          identity,
          get inFlight(): number {
            return loads.next().value!;
          },
        }));
        const policy = policyOf(name);
        for (const request of [{}, { prompt: promptOf("p", 2_000) }, { stickyKey: "a" }]) {
          assert.ok(candidates.includes(choose(policy, candidates, request)));
        }
      },
    ),
  );
});

test("the same seed and the same requests give the same choices under every policy", () => {
  for (const name of POLICY_NAMES) {
    const [one, other] = [policyOf(name), policyOf(name)];
    for (let i = 0; i < 100; i++) {
      const request = { prompt: promptOf(`${i % 7}`, 2_000) };
      assert.equal(
        choose(one, idleWorkers(5), request).ordinal,
        choose(other, idleWorkers(5), request).ordinal,
      );
    }
  }
});

test("round robin takes each of n candidates once in n turns, wherever it starts", () => {
  fc.assert(fc.property(candidateLists, fc.integer({ min: -1, max: 31 }), (candidates, start) => {
    const policy = new RoundRobin(start);
    const chosen = new Set(candidates.map(() => choose(policy, candidates).ordinal));
    assert.equal(chosen.size, candidates.length);
  }));
});

test("least load never passes over a candidate with less to do", () => {
  fc.assert(fc.property(candidateLists, fc.integer({ min: -1, max: 31 }), (candidates, last) => {
    const chosen = choose(new LeastLoad(last), candidates);
    assert.equal(chosen.inFlight, Math.min(...candidates.map((candidate) => candidate.inFlight)));
  }));
});

test("among equally idle candidates least load goes round: none starves", () => {
  const policy = new LeastLoad(1);
  assert.deepEqual(Array.from({ length: 6 }, () => choose(policy, idleWorkers(3)).ordinal), [
    2,
    0,
    1,
    2,
    0,
    1,
  ]);
});

test("power of two never takes the busiest of several, and takes everybody else", () => {
  const policy = policyOf("power_of_two");
  const workers = idleWorkers(4);
  workers[2]!.inFlight = 5;
  const chosen = new Set(Array.from({ length: 200 }, () => choose(policy, workers).ordinal));
  assert.deepEqual([...chosen].sort(), [0, 1, 3]);
});

test("random takes everybody about equally often", () => {
  const policy = policyOf("random");
  const counts = [0, 0, 0, 0];
  for (let i = 0; i < 4_000; i++) counts[choose(policy, idleWorkers(4)).ordinal]!++;
  assert.ok(counts.every((count) => count > 900 && count < 1_100), counts.join("/"));
});

test("consistent hashing needs no memory: two routers agree on every key, and a worker that leaves moves its own keys only", () => {
  const [one, other] = [policyOf("consistent_hashing", "a"), policyOf("consistent_hashing", "b")];
  const known = idleWorkers(5);
  const later = idleWorkers(5, 10);
  const identities = new Set<number>();
  for (let i = 0; i < 200; i++) {
    const stickyKey = `user-${i}`;
    const home = choose(one, known, { stickyKey });
    identities.add(home.identity);
    assert.equal(choose(other, later, { stickyKey }).identity, home.identity);
    const left = known.filter((worker) => worker !== known[4]);
    if (home !== known[4]) assert.equal(choose(one, left, { stickyKey }), home);
  }
  assert.equal(identities.size, 5);
});

test("prefix hash sends equal beginnings to one worker in every router, until that one has too much to do", () => {
  const [one, other] = [policyOf("prefix_hash", "a"), policyOf("prefix_hash", "b")];
  const workers = idleWorkers(4);
  const request = (tail: string) => ({ prompt: promptOf("shared", 4_000, tail) });
  const home = choose(one, workers, request("first"));
  for (let i = 0; i < 20; i++) assert.equal(choose(other, workers, request(`tail ${i}`)), home);
  home.inFlight = 4;
  assert.notEqual(choose(one, workers, request("next")), home);
});

test("a bucket's short prompts are never read behind long ones: both get workers of their own", () => {
  const policy = policyOf("bucket");
  const workers = idleWorkers(4);
  const places = { short: new Set<number>(), long: new Set<number>() };
  for (let i = 0; i < 2_000; i++) {
    // Half of all bytes are in short prompts, half in long ones.
    const kind = i % 17 === 0 ? "long" : "short";
    const prompt = promptOf(`${i}`, kind === "long" ? 16_000 : 1_000);
    const { ordinal } = choose(policy, workers, { prompt });
    if (i > 1_000) places[kind].add(ordinal);
  }
  assert.deepEqual([...places.short].sort(), [0, 1]);
  assert.deepEqual([...places.long].sort(), [2, 3]);
});

test("a bucket with too much to do is left", () => {
  const policy = policyOf("bucket");
  const workers = idleWorkers(2);
  const long = { prompt: promptOf("long", 16_000) };
  for (let i = 0; i < 200; i++) {
    choose(policy, workers, { prompt: promptOf(`${i}`, i % 9 === 0 ? 16_000 : 2_000) });
  }
  assert.equal(choose(policy, workers, long).ordinal, 1);
  workers[1]!.inFlight = 20;
  assert.equal(choose(policy, workers, long).ordinal, 0);
});

test("a sticky key keeps its worker under every policy, as long as that one is usable", () => {
  for (const name of POLICY_NAMES) {
    const policy = policyOf(name);
    const workers = idleWorkers(4);
    const request = { stickyKey: "k", prompt: promptOf("a", 2_000) };
    const home = choose(policy, workers, request);
    for (let i = 0; i < 50; i++) choose(policy, workers, { prompt: promptOf(`${i}`, 2_000) });
    assert.equal(choose(policy, workers, request), home, name);
    const others = workers.filter((worker) => worker !== home);
    assert.notEqual(policy.choose({ candidates: others, usable: workers }, request), home);
    assert.equal(choose(policy, workers, request), home, `${name}: it was only full`);
  }
});

test("a sticky key whose worker has gone gets a new home, and stays there when the old one is back", () => {
  const policy = policyOf("manual");
  const workers = idleWorkers(3);
  const home = choose(policy, workers, { stickyKey: "k" });
  const others = workers.filter((worker) => worker !== home);
  const next = choose(policy, others, { stickyKey: "k" });
  assert.notEqual(next, home);
  assert.equal(choose(policy, workers, { stickyKey: "k" }), next);
});

test("the least recently used sticky keys are forgotten first, and memory is bounded", () => {
  const policy = new Manual(new LeastLoad(-1), 2);
  const workers = idleWorkers(9);
  const of = (stickyKey: string) => choose(policy, workers, { stickyKey }).ordinal;
  const a = of("a");
  of("b");
  assert.equal(of("a"), a);
  of("c");
  assert.equal(policy.size, 2);
  assert.equal(of("a"), a);
  assert.notEqual(of("b"), 1);
});

test("an empty list of candidates is an error of the caller", () => {
  assert.throws(() => choose(new RoundRobin(0), []), RangeError);
});
