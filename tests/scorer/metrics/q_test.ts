import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "../../properties.ts";
import { clusterOf, evidenceOf, policyOf, type Settings } from "./cluster.ts";
import { referenceGroups } from "../reference.ts";

const q = (settings: Settings = {}) => policyOf({ metric: "q", ...settings });

test("q after every completion has the reference's numbers, pairs only and as printed", () => {
  for (const { id, tau, gamma, answers, sim, steps } of referenceGroups) {
    for (const literal of [false, true]) {
      const policy = q({ tau, gamma, paper_literal: literal, confidence: "geometric" });
      for (const step of steps) {
        const state = clusterOf(answers.slice(0, step.l).map(({ text, logprobs }) => ({ text, logprobs })));
        const decision = policy.decide(state, evidenceOf((a, b) => sim[b]![a]!));
        const expected = literal ? step.literal : step;
        const near = (key: "p" | "b" | "q", value: number | null) => {
          const actual = decision.numbers[key];
          if (step.l === 1 && !literal) assert.equal(decision.numbers.guard, "min_agents");
          else if (value === null) assert.equal(actual, null);
          else {assert.ok(
              Math.abs(Number(actual) - value) < 1e-6,
              `${id}, l = ${step.l}, ${key}: ${actual}, not ${value}`,
            );}
        };
        near("p", expected.P);
        near("b", expected.B);
        near("q", expected.Q);
        if (decision.numbers.guard === undefined) {
          assert.equal(decision.exit, Number(decision.numbers.u) < Number(decision.numbers.q));
        }
      }
    }
  }
});

test("as printed, q asks for nothing and may exit after the first answer; otherwise it waits for a pair", () => {
  const one = clusterOf(["18"], { unfinished: 2 });
  assert.equal(q().wants(one), undefined);
  const literal = q({ paper_literal: true, decide: "threshold", threshold: 0.6 });
  assert.deepEqual(literal.wants(one), { similarities: [], verdicts: [] });
  const decision = literal.decide(one, evidenceOf());
  assert.equal(decision.exit, true);
  assert.equal(decision.numbers.p, 1);
  assert.deepEqual(q().wants(clusterOf(["18", "18", "19"]))?.similarities, [[0, 1], [0, 2], [1, 2]]);
});

test("the same seed, cluster and number of completions give the same decision, others another draw", () => {
  const state = clusterOf(["18", "18"]);
  const u = (settings: { seed?: string; cluster?: string; count?: number }) =>
    policyOf({ metric: "q" }).decide(
      {
        ...(settings.count === 3 ? clusterOf(["18", "18", "18"]) : state),
        ...(settings.seed === undefined ? {} : { seed: settings.seed }),
        ...(settings.cluster === undefined ? {} : { cluster: settings.cluster }),
      },
      evidenceOf(() => 0.5),
    ).numbers.u;
  assert.equal(u({}), u({}));
  const draws = [
    u({}),
    u({ seed: "other" }),
    u({ cluster: "l1.c2" }),
    u({ count: 3 }),
  ];
  assert.equal(new Set(draws).size, draws.length);
  // Ids that run together are different ids.
  assert.notEqual(u({ seed: "a", cluster: "b/c" }), u({ seed: "a/b", cluster: "c" }));
});

test("sampled exits come with probability Q", () => {
  const policy = q();
  let exits = 0;
  let expected = 0;
  for (let run = 0; run < 4_000; run++) {
    const { exit, numbers } = policy.decide(
      clusterOf(["18", "18"], { seed: `run ${run}` }),
      evidenceOf(() => 0.5),
    );
    if (exit) exits++;
    expected += Number(numbers.q);
  }
  assert.ok(
    Math.abs(exits - expected) < 4 * Math.sqrt(expected * (1 - expected / 4_000)),
    `${exits}, not ${expected}`,
  );
});

test("q with a threshold draws nothing", () => {
  const state = clusterOf(["18", "18"]);
  const at = (threshold: number) =>
    q({ decide: "threshold", threshold }).decide(state, evidenceOf(() => 0.7));
  assert.equal(at(0.9).exit, true);
  assert.equal(at(0.95).exit, false);
  assert.equal(at(0.9).numbers.u, undefined);
});

test("q never exits on what it does not know", () => {
  const never = (settings: Settings, answers: Parameters<typeof clusterOf>[0], similarity?: number) => {
    for (let run = 0; run < 30; run++) {
      const evidence = evidenceOf(() => similarity);
      const decision = q(settings).decide(clusterOf(answers, { seed: `${run}` }), evidence);
      assert.equal(decision.exit, false);
      assert.doesNotThrow(() => JSON.parse(JSON.stringify(decision.numbers)));
      assert.ok(!JSON.stringify(decision.numbers).includes("NaN"));
    }
  };
  never({}, ["18", "18"], undefined);
  never({}, ["18", "18"], NaN);
  never({}, [{ text: "18", logprobs: undefined }, "18"], 0.7);
  never({}, [{ text: "18", logprobs: [NaN] }, "18"], 0.7);
  never({}, [{ text: "18", logprobs: [-Infinity] }, { text: "18", logprobs: [-Infinity] }], 0.7);
  never({ decide: "threshold", threshold: 0 }, ["18", "18"], undefined);
  never({ without_logprobs: "ignore" }, [{ text: "18", logprobs: undefined }, "18"], undefined);
});

test("without log-probabilities q may be told to decide by similarity alone", () => {
  const state = clusterOf([{ text: "18", logprobs: undefined }, "18"]);
  const settings = { without_logprobs: "ignore", decide: "threshold", threshold: 0.9 } as const;
  const { exit, numbers } = q(settings).decide(state, evidenceOf(() => 0.7));
  assert.equal(exit, true);
  assert.equal(numbers.q, numbers.b);
  assert.equal(numbers.c_bar, null);
});

test("all answers go on after q, in the order in which they came, and it knows no consensus", () => {
  fc.assert(fc.property(fc.integer({ min: 1, max: 6 }), fc.constantFrom("all", "majority"), (count, keep) => {
    const state = clusterOf(Array.from({ length: count }, () => "18"));
    const decision = policyOf({ metric: "q", keep }).decide(state, evidenceOf(() => 0.7));
    assert.deepEqual(decision.keep, state.completions.map(({ agent }) => agent));
    assert.equal(decision.consensus, undefined);
  }));
});
