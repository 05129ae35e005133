import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "../properties.ts";
import { CanopyError } from "../../base/errors.ts";
import { isJsonObject } from "../../base/json.ts";
import { exitPolicyOf } from "../../scorer/exit_policy_of.ts";
import type { Evidence } from "../../scorer/policy/exit_policy.ts";
import { clusterOf, evidenceOf, policyOf, type Settings, settingsOf } from "./metrics/cluster.ts";

const metrics = ["q", "answer", "verdict", "agreement", "random"] as const;
/** Settings under which every metric exits when two answers out of three are the same. */
const eager: Settings = { decide: "threshold", threshold: 0, probability: 1 };
const same = "The answer is 18.";
const yes = evidenceOf(() => 0.7, () => 1);

test("none has no policy, and the others exit when everything speaks for it", () => {
  assert.equal(exitPolicyOf(settingsOf({ metric: "none" })), undefined);
  for (const metric of metrics) {
    const { exit, numbers } = policyOf({ metric, ...eager }).decide(clusterOf([same, same]), yes);
    assert.equal(exit, true, metric);
    assert.equal(numbers.metric, metric);
    assert.equal(numbers.completions, 2);
    assert.ok(isJsonObject(numbers.distinct));
  }
});

test("a pattern that cannot be used is a configuration error that names the field", () => {
  const settings = settingsOf({ metric: "answer" });
  assert.throws(
    () => exitPolicyOf({ ...settings, answer: { ...settings.answer, pattern: "(" } }),
    (error) => CanopyError.is(error) && error.param === "early_exit.answer.pattern" && error.status === 400,
  );
});

test("for every metric: enough members have answered, none is skipped that must not be, nothing creative is cut short", () => {
  for (const metric of metrics) {
    const blocked = (settings: Settings, expected: string, state = clusterOf([same, same])) => {
      const policy = policyOf({ metric, ...eager, ...settings });
      assert.equal(policy.wants(state), undefined);
      const decision = policy.decide(state, yes);
      assert.equal(decision.exit, false);
      assert.equal(decision.consensus, undefined);
      assert.deepEqual(decision.keep, ["a1", "a2"]);
      assert.deepEqual(decision.numbers, { metric, completions: 2, guard: expected });
    };
    blocked({ min_agents: 3 }, "min_agents");
    blocked({ never_skip: ["32b"] }, "never_skip");
    blocked({ never_skip: ["a3"] }, "never_skip");
    blocked({}, "creative", clusterOf([same, same], { question: "Write a poem about eggs." }));
    const open: Settings = { diversity_guard: false, never_skip: ["4b", "a1"], ...eager };
    const state = clusterOf([same, same], { question: "Write a poem about eggs." });
    assert.equal(policyOf({ metric, ...open }).decide(state, yes).exit, true);
  }
});

test("the same inputs and seed give the same decision, whatever the evidence, and nothing throws", () => {
  const number = fc.oneof(fc.double(), fc.constantFrom(undefined, NaN, -1, 0, 0.5, 1, Infinity));
  const text = fc.constantFrom(
    same,
    "The answer is 19.",
    "It depends.",
    "",
    "I'm sorry, but I can't help with that.",
  );
  const answer = fc.record({
    text,
    cut: fc.boolean(),
    logprobs: fc.option(fc.array(fc.oneof(fc.double({ max: 0 }), fc.constantFrom(NaN, -Infinity))), {
      nil: undefined,
    }),
  });
  fc.assert(
    fc.property(
      fc.constantFrom(...metrics),
      fc.array(answer, { minLength: 1, maxLength: 4 }),
      fc.array(number, { minLength: 8, maxLength: 8 }),
      fc.boolean(),
      fc.string(),
      (metric, answers, values, paper_literal, seed) => {
        const state = clusterOf(answers, { seed, unfinished: 4 - answers.length });
        const evidence: Evidence = evidenceOf((a, b) => values[a + b], (a, b) => values[a + b + 1]);
        const policy = policyOf({ metric, paper_literal, min_agents: 1 });
        const wanted = policy.wants(state);
        const decision = policy.decide(state, evidence);
        assert.deepEqual(
          policyOf({ metric, paper_literal, min_agents: 1 }).decide(state, evidence),
          decision,
        );
        // It is JSON as it stands: no undefined, no NaN.
        assert.deepEqual(JSON.parse(JSON.stringify(decision.numbers)), decision.numbers);
        assert.ok(decision.keep.length > 0);
        if (wanted === undefined) assert.equal(decision.exit, false);
      },
    ),
    { numRuns: 500 },
  );
});

test("evidence that is missing or broken never makes an exit that sound evidence would not make", () => {
  const texts = fc.array(fc.constantFrom(same, "The answer is 19.", "It depends."), {
    minLength: 2,
    maxLength: 3,
  });
  const sound = fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { minLength: 4, maxLength: 4 });
  const broken = fc.array(fc.constantFrom("sound", "none", "nan", "infinite"), {
    minLength: 4,
    maxLength: 4,
  });
  fc.assert(
    fc.property(
      fc.constantFrom(...metrics),
      texts,
      sound,
      sound,
      broken,
      fc.constantFrom("sample", "threshold"),
      (metric, texts, similarities, verdicts, faults, decide) => {
        const state = clusterOf(texts, { unfinished: 1 });
        const fault = (value: number, at: number) =>
          ({ sound: value, none: undefined, nan: NaN, infinite: Infinity })[faults[at] ?? "sound"];
        const policy = policyOf({ metric, decide, threshold: 0.8 });
        const whole = policy.decide(
          state,
          evidenceOf((a, b) => similarities[a + b], (a, b) => verdicts[a + b]),
        );
        const part = policy.decide(
          state,
          evidenceOf(
            (a, b) => fault(similarities[a + b]!, a + b),
            (a, b) => fault(verdicts[a + b]!, a + b),
          ),
        );
        assert.ok(!part.exit || whole.exit);
      },
    ),
    { numRuns: 500 },
  );
});
