import assert from "node:assert/strict";
import { test } from "node:test";
import type { Proposal, ProposalRow } from "../../../bench/laboratory/predictors.ts";
import { stoppingFigures } from "../../../bench/laboratory/stopping_figures.ts";

function row(question: string, stated: readonly (string | null)[], right: string): ProposalRow {
  const proposals = stated.map((one): Proposal => ({
    model: "s",
    right: one === right,
    stated: one,
    confidence: 0.9,
    tail: 0.9,
    lowest: 0.9,
  }));
  return { question, proposals, pairs: [] };
}

test("answers that all agree are read no further than the rule asks, and chance is as right", () => {
  const rows = Array.from({ length: 10 }, (_, at) => row(`q${at}`, Array(9).fill("7"), at < 6 ? "7" : "8"));
  const [two, ...others] = stoppingFigures(rows, "all").filter(({ agree }) => agree !== undefined);
  assert.deepEqual([two?.agree, two?.read, two?.accuracy, two?.chance, two?.difference], [2, 2, 0.6, 0.6, 0]);
  assert.deepEqual(others.map(({ agree, read }) => [agree, read]), [[3, 3], [4, 4], [5, 5], [6, 6], [
    Infinity,
    9,
  ]]);
});

test("where agreement tells easy questions from hard ones, a rule is right more often than chance with as many answers", () => {
  const easy = Array.from({ length: 30 }, (_, at) => row(`easy${at}`, Array(9).fill("1"), "1"));
  // The right one is the most frequent of many, which a few answers do not show.
  const hard = Array.from(
    { length: 30 },
    (_, at) => row(`hard${at}`, ["1", "1", "1", "1", "2", "3", "4", "5", null], "1"),
  );
  const figures = stoppingFigures([...easy, ...hard], "mixed");
  const [three, all] = ["3 agree", "all are read"].map((name) => figures.find(({ rule }) => rule === name));
  assert.ok(three !== undefined && all !== undefined);
  assert.equal(all.accuracy, 1);
  assert.ok(three.read > 3 && three.read < 6, `${three.read}`);
  assert.equal(three.accuracy, 1);
  assert.ok(three.chance < 0.95, `${three.chance}`);
  assert.ok(three.interval.low > 0);
  assert.ok(three.interval.low <= three.difference && three.difference <= three.interval.high);
});

test("answers that state nothing are read and do not vote; without proposals there is no figure", () => {
  const [two] = stoppingFigures([row("q", [null, null, null], "1")], "none");
  assert.deepEqual([two?.read, two?.accuracy, two?.chance], [3, 0, 0]);
  assert.deepEqual(stoppingFigures([], "nothing"), []);
});

test("where too few of all answers agree, the leader is put beside the whole run on the same questions", () => {
  const easy = Array.from({ length: 6 }, (_, at) => row(`easy${at}`, Array(9).fill("1"), "1"));
  const open = Array.from(
    { length: 4 },
    (_, at) => row(`open${at}`, ["1", "1", "2", "3", "4", "5", "6", "7", "8"], "1"),
  );
  const whole = new Map([...easy, ...open].map(({ question }) => [question, question === "open0"]));
  const [two, three] = stoppingFigures([...easy, ...open], "leader", whole);
  assert.equal(two?.undecided, 0);
  assert.deepEqual([three?.undecided, three?.leader, three?.whole], [0.4, 1, 0.25]);
  assert.ok(Math.abs((three?.change ?? NaN) - 0.3) < 1e-12);
  assert.ok((three?.changeInterval.low ?? NaN) >= 0 && (three?.changeInterval.high ?? NaN) > 0.3);
  assert.ok(Number.isNaN(stoppingFigures(open, "leader")[1]?.whole));
});

test("a posterior trusts models that were right on the other questions, and only the oracle knows who is right", () => {
  const said = (question: string, good: string, bad: string): ProposalRow => {
    const proposals = Array.from({ length: 9 }, (_, at): Proposal => ({
      model: at < 3 ? "good" : "bad",
      right: at < 3,
      // The bad models agree with each other more often than not.
      stated: at < 3 ? good : at < 7 ? bad : `${bad}${at}`,
      confidence: 0.9,
      tail: 0.9,
      lowest: 0.9,
    }));
    return { question, proposals, pairs: [] };
  };
  const rows = Array.from({ length: 40 }, (_, at) => said(`q${at}`, `${at}`, `wrong ${at}`));
  const byName = new Map(stoppingFigures(rows, "skills").map((one) => [one.rule, one]));
  const [agree, posterior, oracle] = ["3 agree", "posterior 0.95", "oracle: the first right one"]
    .map((name) => byName.get(name)!);
  assert.ok(posterior!.accuracy > agree!.accuracy + 0.2, `${posterior!.accuracy} ${agree!.accuracy}`);
  assert.equal(oracle!.accuracy, 1);
  assert.ok(oracle!.read < posterior!.read);
});
