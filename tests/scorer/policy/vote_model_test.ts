import assert from "node:assert/strict";
import { test } from "node:test";
import { Random } from "../../../base/random.ts";
import {
  learnQuestionKinds,
  type QuestionKind,
  questionKindsOf,
  rightProbability,
  type VotedQuestion,
} from "../../../scorer/policy/vote_model.ts";
import { fc } from "../../properties.ts";

const near = (actual: number, expected: number, by: number) =>
  assert.ok(Math.abs(actual - expected) <= by, `${actual} is not ${expected} ± ${by}`);

const KIND: QuestionKind = { share: 1, skills: { small: 0.5, large: 0.8 }, coincidence: 0.25 };

test("the posterior is Dawid and Skene's with one skill a model, worked out by hand", () => {
  const groups = [["small", "large"], ["small"]];
  const five = 0.5 * 0.8 * 0.5;
  const seven = 0.5 * 0.2 * 0.25 * 0.5;
  // Nobody: of three wrong answers two are equal. Two are with 1/4, so θ is 3, and the third is new with 3/5.
  const none = 0.5 * 0.2 * 0.5 * 0.25 * (3 / 5);
  near(rightProbability(groups, 0, [KIND]), five / (five + seven + none), 1e-12);
  near(rightProbability(groups, 1, [KIND]), seven / (five + seven + none), 1e-12);
  assert.equal(rightProbability([], 0, [KIND]), 0);
  // Of a model that nobody knows: 0.6.
  near(rightProbability([["other"]], 0, [KIND]), 0.6, 1e-12);
});

test("models that are said to be always right, or never, and disagree are doubted alike", () => {
  const kind = { share: 1, skills: { a: 1, b: 1, c: 0 }, coincidence: 0.25 };
  near(rightProbability([["a"], ["b"]], 0, [kind]), 0.5, 1e-6);
  near(rightProbability([["a"], ["c"]], 0, [kind]), 1, 1e-6);
});

test("over several kinds of questions it is the mixture's, worked out by hand", () => {
  const hard: QuestionKind = { share: 0.3, skills: { small: 0.2, large: 0.4 }, coincidence: 0.5 };
  const kinds = [{ ...KIND, share: 0.7 }, hard];
  const right = 0.7 * 0.5 * 0.8 + 0.3 * 0.2 * 0.4;
  const wrong = 0.7 * 0.5 * 0.2 * 0.25 + 0.3 * 0.8 * 0.6 * 0.5;
  near(rightProbability([["small", "large"]], 0, kinds), right / (right + wrong), 1e-12);
  assert.deepEqual(questionKindsOf({ skills: KIND.skills, coincidence: 0.25, difficulties: undefined }), [
    KIND,
  ]);
  assert.equal(questionKindsOf({ skills: {}, coincidence: 0.25, difficulties: kinds }), kinds);
});

test("probabilities of all groups are in order and sum to at most 1", () => {
  const models = fc.constantFrom("small", "large", "other");
  const groups = fc.array(fc.array(models, { minLength: 1, maxLength: 5 }), { minLength: 1, maxLength: 5 });
  fc.assert(fc.property(groups, (groups) => {
    const all = groups.map((_, at) => rightProbability(groups, at, [KIND]));
    assert.ok(all.every((one) => one >= 0 && one <= 1));
    assert.ok(all.reduce((sum, one) => sum + one, 0) <= 1 + 1e-9);
    // One more vote for an answer by a model that is right more often than not makes it likelier.
    const more = groups.map((group, at) => at === 0 ? [...group, "large"] : group);
    assert.ok(rightProbability(more, 0, [KIND]) >= all[0]! - 1e-12);
  }));
});

/** Answers of nine agents to questions of known kinds. */
function draw(
  count: number,
  kinds: readonly QuestionKind[],
  random: Random,
  labelled: boolean,
): VotedQuestion[] {
  const models = ["small", "small", "small", "middle", "middle", "middle", "large", "large", "large"];
  return Array.from({ length: count }, () => {
    let at = random.next();
    const kind = kinds.find(({ share }) => (at -= share) < 0) ?? kinds[0]!;
    const groups: string[][] = [];
    let right = -1;
    const theta = (1 - kind.coincidence) / kind.coincidence;
    for (const model of models) {
      const wrong = groups.filter((_, index) => index !== right).flatMap((group) => group.map(() => group));
      if (random.next() < kind.skills[model]!) {
        if (right < 0) right = groups.push([model]) - 1;
        else groups[right]!.push(model);
      } else if (wrong.length > 0 && random.next() >= theta / (theta + wrong.length)) {
        random.pick(wrong).push(model);
      } else groups.push([model]);
    }
    return { groups, right: labelled ? right : undefined };
  });
}

const EASY: QuestionKind = {
  share: 0.6,
  skills: { small: 0.8, middle: 0.88, large: 0.95 },
  coincidence: 0.2,
};
const HARD: QuestionKind = { share: 0.4, skills: { small: 0.15, middle: 0.3, large: 0.5 }, coincidence: 0.3 };

test("skills are learned from labelled questions, and from agreement alone", () => {
  const random = new Random("learn");
  const kind = { ...EASY, share: 1, skills: { small: 0.55, middle: 0.65, large: 0.8 } };
  for (const labelled of [true, false]) {
    const [learned] = learnQuestionKinds(draw(1_000, [kind], random, labelled), 1);
    for (const [model, skill] of Object.entries(kind.skills)) near(learned!.skills[model]!, skill, 0.05);
    near(learned!.coincidence, kind.coincidence, 0.06);
  }
});

test("easy and hard questions are told apart where answers are labelled", () => {
  const learned = learnQuestionKinds(draw(2_000, [EASY, HARD], new Random("kinds"), true), 2);
  for (const [index, kind] of [EASY, HARD].entries()) {
    near(learned[index]!.share, kind.share, 0.08);
    for (const [model, skill] of Object.entries(kind.skills)) {
      near(learned[index]!.skills[model]!, skill, 0.08);
    }
  }
});

test("what was learned is what comes true: of the answers with a posterior near p, a share p is right", () => {
  const random = new Random("calibrated");
  const kinds = learnQuestionKinds(draw(2_000, [EASY, HARD], random, true), 2);
  const bins = new Map<number, { right: number; all: number }>();
  for (const { groups, right } of draw(4_000, [EASY, HARD], random, true)) {
    const sizes = groups.map(({ length }) => length);
    const leader = sizes.indexOf(Math.max(...sizes));
    const key = Math.floor(rightProbability(groups, leader, kinds) * 5);
    const bin = bins.get(key) ?? { right: 0, all: 0 };
    bins.set(key, { right: bin.right + (leader === right ? 1 : 0), all: bin.all + 1 });
  }
  for (const [key, { right, all }] of bins) if (all >= 200) near(right / all, (key + 0.5) / 5, 0.16);
});
