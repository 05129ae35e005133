import assert from "node:assert/strict";
import { test } from "node:test";
import { consensusSchema, earlyExitSchema } from "../../../cfgs/schema/early_exit.ts";
import { runConsensusOf } from "../../../scorer/exit_policy_of.ts";
import type { AgentVote } from "../../../scorer/policy/run_consensus.ts";
import { rightProbability } from "../../../scorer/policy/vote_model.ts";

const QUESTION = "How many apples are left?";

function policyOf(consensus: object, more: object = {}) {
  return runConsensusOf(earlyExitSchema.parse({ scope: "run", consensus, ...more }));
}

/** Votes as `model:answer`, agents numbered. */
function votesOf(...votes: string[]): AgentVote[] {
  const { read } = policyOf({});
  return votes.map((vote, index) => {
    const [model = "", value = ""] = vote.split(":");
    const ballot = { text: `The answer is ${value}.`, whole: true, cut: false };
    const answer = read.call(policyOf({}), ballot, QUESTION);
    assert.ok(answer !== undefined);
    return { agent: `a${index + 1}`, model, answer, logprobs: [-index - 1] };
  });
}

const state = (votes: readonly AgentVote[], open: readonly string[] = ["a9"]) => ({
  votes,
  leaves: 9,
  open,
  bySize: ["large", "small"],
});

test("a run ends when so many final answers are equal, whatever the others say", () => {
  const votes = votesOf("small:5", "small:7", "large:5", "small:5.0", "small:8", "large:5");
  const decided = (count: number, consensus: object) =>
    policyOf(consensus).decide(state(votes.slice(0, count))).agent;
  assert.equal(decided(5, { agree: 4 }), undefined);
  assert.equal(decided(6, { agree: 4 }), "a3");
  assert.equal(decided(4, { agree: 3 }), "a3");
  // Of nine agents that read nobody: a third of them is three, and by default it takes four.
  assert.equal(decided(4, { share: 1 / 3 }), "a3");
  assert.equal(decided(5, {}), undefined);
  assert.equal(decided(6, {}), "a3");
});

test("the answer is the largest model's, the most confident one's or the first one's", () => {
  const votes = votesOf("small:5", "large:5", "large:5", "small:5");
  const best = (best: string) => policyOf({ agree: 4, best }).decide(state(votes)).agent;
  assert.equal(best("largest"), "a2");
  assert.equal(best("first"), "a1");
  assert.equal(best("confident"), "a1");
  const other = votes.map((vote, index) => ({ ...vote, logprobs: [index - 4] }));
  assert.equal(policyOf({ agree: 4, best: "confident" }).decide(state(other)).agent, "a4");
});

test("the posterior decides, and is among the numbers of the decision", () => {
  const skills = { small: 0.5, large: 0.8 };
  const policy = policyOf({ posterior: 0.92, skills });
  const { agent, numbers } = policy.decide(state(votesOf("small:5", "large:5", "small:7")));
  assert.equal(agent, undefined);
  const groups = [["small", "large"], ["small"]];
  const expected = rightProbability(groups, 0, [{ share: 1, skills, coincidence: 0.25 }]);
  assert.ok(Math.abs(Number(numbers["posterior"]) - expected) < 1e-9);
  const { agent: found } = policy.decide(state(votesOf("small:5", "large:5")));
  assert.equal(found, "a2");
  // Two small models that agree are right on an easy question; with a third that does not, it is a hard one.
  const difficulties = [
    { share: 0.7, skills: { small: 0.95 }, coincidence: 0.1 },
    { share: 0.3, skills: { small: 0.2 }, coincidence: 0.5 },
  ];
  const mixed = policyOf({ posterior: 0.9, difficulties });
  assert.equal(mixed.decide(state(votesOf("small:5", "small:5", "small:5"))).agent, "a1");
  assert.equal(mixed.decide(state(votesOf("small:5", "small:7", "small:5"))).agent, undefined);
});

test("an undecided run ends with the answer that leads once all that read nobody have spoken, where two agree", () => {
  const votes = votesOf("small:5", "small:7", "large:7", "small:5", "small:8");
  const leader = policyOf({ agree: 4, undecided: "leader" });
  const waiting = leader.decide(state(votes));
  assert.deepEqual([waiting.agent, waiting.numbers["open"], waiting.numbers["undecided"]], [
    undefined,
    ["a9"],
    undefined,
  ]);
  // Of two answers that as many have given, the largest model's.
  const { agent, agreeing, numbers } = leader.decide(state(votes, []));
  assert.deepEqual([agent, agreeing, numbers["undecided"], numbers["open"]], ["a3", ["a2", "a3"], true, []]);
  assert.equal(leader.decide(state(votesOf("small:1", "small:2", "large:3"), [])).agent, undefined);
  assert.equal(leader.decide(state([], [])).agent, undefined);
  // What the rule itself ends is decided.
  const decided = leader.decide(state(votesOf("small:5", "small:5", "small:5", "large:5"), []));
  assert.deepEqual([decided.agent, decided.numbers["undecided"]], ["a4", undefined]);
  const root = policyOf({ agree: 4 }).decide(state(votes, []));
  assert.deepEqual([root.agent, root.numbers["open"]], [undefined, undefined]);
});

test("by posterior an undecided run ends with the likeliest answer, where that is as likely as it must be", () => {
  const votes = votesOf("small:5", "small:5", "small:5", "large:7", "large:7");
  const skills = { small: 0.3, large: 0.7 };
  const decide = (level: number) =>
    policyOf({ posterior: 0.999, skills, undecided: "leader", undecided_level: level }).decide(
      state(votes, []),
    );
  const kinds = [{ share: 1, skills, coincidence: 0.25 }];
  const groups = [["small", "small", "small"], ["large", "large"]];
  const expected = rightProbability(groups, 1, kinds);
  assert.ok(expected > rightProbability(groups, 0, kinds));
  const { agent, agreeing, numbers } = decide(expected - 0.01);
  assert.deepEqual([agent, agreeing], ["a4", ["a4", "a5"]]);
  assert.ok(Math.abs(Number(numbers["undecided_posterior"]) - expected) < 1e-9);
  assert.deepEqual([decide(expected + 0.01).agent, decide(expected + 0.01).agreeing], [undefined, []]);
});

test("one answer alone never ends a run, however skilled its model is", () => {
  const policy = policyOf({ posterior: 0.6, skills: { large: 0.99 } });
  assert.equal(policy.decide(state(votesOf("large:5"))).agent, undefined);
});

test("answers that were cut, refused or are loops have no vote, and an unfinished text none before it is announced", () => {
  const policy = policyOf({});
  const read = (text: string, whole: boolean, cut = false) =>
    policy.read({ text, whole, cut }, QUESTION)?.value.replace("number:", "");
  assert.equal(read("The answer is 5.", true), "5");
  assert.equal(read("The answer is 5.", true, true), undefined);
  assert.equal(read("I'm sorry, I cannot help with that. The answer is 5.", true), undefined);
  assert.equal(read("The answer is 5. And", false), "5");
  assert.equal(read("2 + 3 is 5. And", false), undefined);
  const late = policyOf({ while_written: false });
  assert.equal(late.read({ text: "The answer is 5. And", whole: false, cut: false }, QUESTION), undefined);
});

test("a creative question is guarded, unless the guard is off; several rules at once are refused", () => {
  assert.equal(policyOf({}).guard("Write a poem about autumn"), "creative");
  assert.equal(policyOf({}, { diversity_guard: false }).guard("Write a poem about autumn"), undefined);
  assert.equal(policyOf({}).guard(QUESTION), undefined);
  assert.throws(() => consensusSchema.parse({ agree: 3, share: 0.5 }), /one of agree, share and posterior/);
});

test("the most that answers may still come to be equal, and a leader that nobody can overtake, are those of all outcomes", () => {
  const answers = ["5", "7", "8"];
  const policy = policyOf({ agree: 4 });
  const largest = (votes: readonly AgentVote[]) => {
    const { groups } = policy.decide(state(votes)).numbers;
    return Math.max(0, ...(groups as string[][]).map(({ length }) => length));
  };
  const outcomes = (count: number): string[][] =>
    count === 0 ? [[]] : outcomes(count - 1).flatMap((rest) => answers.map((answer) => [...rest, answer]));
  for (let cast = 0; cast <= 4; cast++) {
    for (let open = 0; open <= 2; open++) {
      for (const known of outcomes(cast)) {
        const all = outcomes(open).map((rest) =>
          votesOf(...[...known, ...rest].map((answer) => `m:${answer}`))
        );
        const [votes = []] = all;
        const waited = new Set(votes.slice(cast).map(({ agent }) => agent));
        // What those say so far whose votes may change counts for nothing.
        assert.deepEqual(policy.outlook(state(votes), waited), {
          needed: 4,
          most: Math.max(...all.map(largest)),
        });
        const leads = all.map((outcome) => {
          const counts = answers.map((answer) =>
            outcome.filter(({ answer: { value } }) => value === `number:${answer}`).length
          );
          const most = Math.max(...counts);
          return counts.filter((one) => one === most).length === 1 ? counts.indexOf(most) : undefined;
        });
        const settled = policy.settled(votes.slice(0, cast), open);
        const isDecided = leads[0] !== undefined && leads.every((lead) => lead === leads[0]);
        assert.equal(settled !== undefined, isDecided && largest(votes.slice(0, cast)) > 1);
        if (settled !== undefined) assert.equal(settled.length, largest(votes.slice(0, cast)));
      }
    }
  }
  assert.equal(policyOf({ posterior: 0.9 }).outlook(state([]), new Set(["a1"])), undefined);
});
