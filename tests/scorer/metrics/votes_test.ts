import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "../../properties.ts";
import { clusterOf, evidenceOf, policyOf, type Settings } from "./cluster.ts";

const stated = (value: number | string) => `So we get the result.\nThe answer is ${value}.`;
const open = (text: string) => `It is, all things considered, ${text}.`;
const openQuestion = "Why is the sky blue?";

test("answer exits when the remaining members cannot change the majority", () => {
  const policy = policyOf({ metric: "answer" });
  const exits = (answers: (number | string)[], unfinished: number) =>
    policy.decide(clusterOf(answers.map(stated), { unfinished }), evidenceOf()).exit;
  assert.equal(exits([18, "18.00"], 1), true);
  assert.equal(exits([18, 19], 1), false);
  assert.equal(exits([18, 18], 2), false);
  assert.equal(exits([18, 18, 19], 1), false);
  assert.equal(exits([18, 18, 18, 19], 1), true);
  assert.equal(policy.wants(clusterOf([stated(18), stated(19)])), undefined);
  assert.deepEqual(policy.wants(clusterOf([stated(18), stated(18)])), { similarities: [], verdicts: [] });
});

test("a text without a final answer, a cut one, a refusal and a loop agree with nothing", () => {
  const policy = policyOf({ metric: "answer" });
  const pairs = [
    [open("a few of them"), stated(18)],
    [{ text: stated(18), cut: true }, stated(18)],
    ["I'm sorry, but I can't help with that. The answer is 18.", stated(18)],
    [`${"again and again ".repeat(70)}\nThe answer is 18.`, stated(18)],
  ];
  for (const pair of pairs) {
    const decision = policy.decide(clusterOf(pair), evidenceOf());
    assert.equal(decision.exit, false);
    assert.equal(decision.consensus, undefined);
  }
});

test("what goes on is the group that agrees or all, and the most confident of the group stands for it", () => {
  const state = clusterOf([
    { text: stated(18), logprobs: [-0.5] },
    { text: stated(19), logprobs: [-0.01] },
    { text: stated(18), logprobs: [-0.1] },
    { text: stated(18), logprobs: [-0.1] },
  ], { unfinished: 1 });
  const majority = policyOf({ metric: "answer", keep: "majority" }).decide(state, evidenceOf());
  assert.equal(majority.exit, true);
  assert.deepEqual(majority.keep, ["a1", "a3", "a4"]);
  assert.deepEqual(majority.consensus, { share: 0.75, agent: "a3" });
  const all = policyOf({ metric: "answer", keep: "all" }).decide(state, evidenceOf());
  assert.deepEqual(all.keep, ["a1", "a2", "a3", "a4"]);
  const without = {
    ...state,
    completions: state.completions.map((one) => ({ ...one, logprobs: undefined })),
  };
  assert.equal(policyOf({ metric: "answer" }).decide(without, evidenceOf()).consensus?.agent, "a1");
  const { dropped, kept } = Object(majority.numbers.distinct);
  assert.ok(dropped[0] > kept[0]);
});

test("the consensus of a cluster whose members have all answered can be asked for", () => {
  const whole = clusterOf([stated(18), stated(19), stated(18)], { unfinished: 0 });
  for (const metric of ["answer", "agreement"] as const) {
    const policy = policyOf({ metric, skip_root: 0.6 });
    assert.equal(policy.needs.logprobs, true);
    assert.notEqual(policy.wants(whole), undefined);
    assert.deepEqual(policy.decide(whole, evidenceOf(() => 0.9)).consensus, { share: 2 / 3, agent: "a1" });
  }
  const split = clusterOf([stated(17), stated(18), stated(19)], { unfinished: 0 });
  assert.equal(policyOf({ metric: "answer" }).decide(split, evidenceOf()).consensus, undefined);
});

test("verdict asks for each pair once it matters, and exits when enough members agree each with each", () => {
  const policy = policyOf({ metric: "verdict", verdict: { threshold: 0.6 } });
  const two = clusterOf([open("light"), open("scattering")], { question: openQuestion });
  assert.deepEqual(policy.wants(two), { similarities: [], verdicts: [[0, 1]] });
  assert.equal(policy.wants(clusterOf(["a", "b"], { unfinished: 5 })), undefined);
  const exits = (yes: number | undefined) => policy.decide(two, evidenceOf(undefined, () => yes)).exit;
  assert.deepEqual([0.6, 0.59, undefined, NaN, 1.5].map(exits), [true, false, false, false, false]);
  // a1 agrees with a2 and a3, which do not agree with each other: no group of three.
  const three = clusterOf(["a", "b", "c"], { unfinished: 0 });
  const decision = policy.decide(three, evidenceOf(undefined, (a) => a === 0 ? 0.9 : 0.1));
  assert.deepEqual(decision.consensus, { share: 2 / 3, agent: "a1" });
});

test("agreement takes stated answers where both state one, asks for a verdict elsewhere, and wants both similar", () => {
  const policy = policyOf({ metric: "agreement" });
  assert.deepEqual(policy.needs, { logprobs: false, similarity: "fcs_u", verdicts: true });
  const equal = clusterOf([stated(18), stated("18.0")]);
  assert.deepEqual(policy.wants(equal), { similarities: [[0, 1]], verdicts: [] });
  assert.equal(policy.decide(equal, evidenceOf(() => 0.5)).exit, true);
  const different = clusterOf([stated(18), stated(19)]);
  assert.equal(policy.wants(different), undefined);
  assert.equal(policy.decide(different, evidenceOf(() => 1, () => 1)).exit, false);
  const texts = clusterOf([open("light"), open("scattering")], { question: openQuestion });
  assert.deepEqual(policy.wants(texts), { similarities: [[0, 1]], verdicts: [[0, 1]] });
  assert.equal(policy.decide(texts, evidenceOf(() => 0.5, () => 0.9)).exit, true);
  assert.equal(policy.decide(texts, evidenceOf(() => 0.5)).exit, false);
});

test("agreement has a veto: off topic or not known to be on topic, there is no exit and no consensus", () => {
  const policy = policyOf({ metric: "agreement" });
  const state = clusterOf([stated(18), stated(18)]);
  for (const similarity of [0.05, undefined, NaN]) {
    const decision = policy.decide(state, evidenceOf(() => similarity));
    assert.equal(decision.exit, false);
    assert.equal(decision.consensus, undefined);
    assert.deepEqual(decision.keep, ["a1", "a2"]);
    assert.equal(decision.numbers.veto, similarity === 0.05 ? "off_topic" : "similarity_unknown");
  }
  // A few tokens have no similarity that means anything.
  assert.equal(policy.decide(state, evidenceOf(() => 0.05, undefined, 5)).exit, true);
  // An answer that nobody agrees with may be as far off as it likes.
  const odd = clusterOf([stated(18), stated(3), stated(18), stated(18)]);
  assert.equal(policy.decide(odd, evidenceOf((a, b) => a === 1 || b === 1 ? 0 : 0.5)).exit, true);
});

test("random exits as often as it is told, whatever was said", () => {
  const policy = policyOf({ metric: "random", probability: 0.3 });
  assert.deepEqual(policy.needs, { logprobs: false, similarity: undefined, verdicts: false });
  let exits = 0;
  for (let run = 0; run < 4_000; run++) {
    if (policy.decide(clusterOf(["a", "b"], { seed: `${run}` }), evidenceOf()).exit) exits++;
  }
  assert.ok(Math.abs(exits - 1_200) < 4 * Math.sqrt(4_000 * 0.3 * 0.7), `${exits}`);
});

test("groups are a partition in which all agree with all, whatever the verdicts", () => {
  const verdicts = fc.array(fc.constantFrom(0, 1, undefined, NaN), { minLength: 15, maxLength: 15 });
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 6 }),
      verdicts,
      fc.integer({ min: 0, max: 3 }),
      (count, yes, unfinished) => {
        const verdictOf = (a: number, b: number) => yes[a * 2 + b];
        const state = clusterOf(Array.from({ length: count }, (_, index) => open(`text ${index}`)), {
          question: openQuestion,
          unfinished,
        });
        const settings: Settings = { metric: "verdict", min_agents: 1 };
        const { exit, keep, consensus, numbers } = policyOf(settings).decide(
          state,
          evidenceOf(undefined, verdictOf),
        );
        const groups = numbers.groups;
        assert.ok(Array.isArray(groups));
        assert.deepEqual(
          groups.flat().sort(),
          state.completions.map(({ agent }) => agent).sort(),
        );
        const place = (agent: unknown) => Number(String(agent).slice(1)) - 1;
        for (const group of groups) {
          assert.ok(Array.isArray(group));
          for (const [index, second] of group.entries()) {
            for (const first of group.slice(0, index)) {
              assert.equal(
                verdictOf(place(first), place(second)),
                1,
              );
            }
          }
        }
        const largest = Math.max(...groups.map((group) => Array.isArray(group) ? group.length : 0));
        assert.equal(consensus?.share, largest > 1 ? largest / count : undefined);
        assert.ok(keep.length > 0 && (consensus === undefined || keep.includes(consensus.agent)));
        assert.ok(!exit || largest > 1);
      },
    ),
  );
});
