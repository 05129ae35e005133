import assert from "node:assert/strict";
import { test } from "node:test";
import type { LaboratoryRow } from "../../../bench/laboratory/ask.ts";
import {
  type Condition,
  conditionsOf,
  OVERLAPPED,
  STAIRCASE_OF_ALL,
  TREE,
} from "../../../bench/laboratory/conditions.ts";
import {
  comparisonsOf,
  conditionFigures,
  firstWordsOf,
  votesLike,
} from "../../../bench/laboratory/laboratory_figures.ts";
import { predictorFigures } from "../../../bench/laboratory/predictor_figures.ts";
import type { ProposalRow } from "../../../bench/laboratory/predictors.ts";
import { enginesCompared, sameAnswers } from "../../../bench/laboratory/same_answers.ts";
import { laboratoryReport } from "../../../bench/report/laboratory_report.ts";
import { htmlOf } from "../../../bench/report/html.ts";

const all = conditionsOf(new Set(["singles", "modes", "samples", "exits"]), 1);

function rowsFor({ name }: Condition, facts: (index: number) => Partial<LaboratoryRow>) {
  const rows = Array.from({ length: 20 }, (_, index): LaboratoryRow => ({
    condition: name,
    question: `q${index}`,
    right: false,
    stated: null,
    latencyMs: 1_000,
    promptTokens: 100,
    completionTokens: 400,
    wastedTokens: 0,
    savedTokens: 0,
    decisions: 3,
    exits: 0,
    leaves: 9,
    differentAnswers: 4,
    rightAmongLeaves: true,
    ...facts(index),
  }));
  return { condition: all.find((one) => one.name === name)!, rows };
}

const named = (name: string) => all.find((one) => one.name === name)!;

const result = {
  conditions: [
    rowsFor(named(TREE), (index) => ({ right: index < 12 })),
    rowsFor(named(OVERLAPPED), (index) => ({ right: index < 12, latencyMs: 900 })),
    rowsFor(named("l, vote of 3"), (index) => ({ right: index < 4, completionTokens: 150, latencyMs: 200 })),
    rowsFor(
      named("l, vote of 9"),
      (index) => ({ right: index < 4, completionTokens: 450, latencyMs: 1_100 }),
    ),
    rowsFor(named("#4 answer"), (index) => ({ right: index < 14, exits: 1, latencyMs: 600 })),
    rowsFor(named("#4 chance, as often as answer"), (index) => ({ right: index < 6, exits: 1 })),
  ],
  proposals: [],
};

test("a condition's figures are means over its questions, with Wilson's interval", () => {
  const figures = conditionFigures(result.conditions[0]!);
  assert.equal(figures.accuracy, 0.6);
  assert.ok(figures.interval.low > 0.38 && figures.interval.high < 0.79);
  assert.equal(conditionFigures(result.conditions[4]!).exitRate, 1 / 3);
});

test("the vote at equal tokens is the nearest one, that at equal time the largest that is as fast", () => {
  assert.deepEqual(votesLike(result.conditions), { tokens: "l, vote of 9", time: "l, vote of 3" });
});

test("comparisons are of the same questions, exits with the tree and with chance at their rate", () => {
  const found = comparisonsOf(result, "seed");
  assert.deepEqual(found.map(({ name, against }) => [name, against]), [
    [OVERLAPPED, TREE],
    [TREE, "l, vote of 9"],
    [TREE, "l, vote of 3"],
    ["#4 answer", OVERLAPPED],
    ["#4 chance, as often as answer", OVERLAPPED],
    ["#4 answer", "#4 chance, as often as answer"],
  ]);
  const last = found.at(-1)!;
  assert.deepEqual([last.gained, last.lost, last.difference], [8, 0, 0.4]);
  assert.ok(last.p < 0.01 && last.interval.low > 0.1 && last.latencyRatio === 0.6);
  assert.deepEqual(comparisonsOf(result, "seed"), found, "the same seed gives the same intervals");
});

test("first words of a staircase stand beside those of mode #3 and of the best single model, pair by pair", () => {
  const conditions = conditionsOf(new Set(["singles", "modes", "staircase"]), 1);
  const rows = (name: string, firstMs: (index: number) => number | undefined) => {
    const condition = conditions.find((one) => one.name === name)!;
    return { condition, rows: rowsFor(condition, (index) => ({ firstMs: firstMs(index) })).rows };
  };
  const found = firstWordsOf({
    conditions: [
      rows("l alone", () => 10),
      rows(OVERLAPPED, (index) => 100 + 100 * index),
      // Of the last question it was not noted.
      rows(STAIRCASE_OF_ALL, (index) => index === 19 ? undefined : 20 + 20 * index),
    ],
    proposals: [],
  }, "seed");
  assert.deepEqual(found.map(({ name, against, questions }) => [name, against, questions]), [
    [STAIRCASE_OF_ALL, OVERLAPPED, 19],
    [STAIRCASE_OF_ALL, "l alone", 19],
    [OVERLAPPED, "l alone", 20],
  ]);
  const [sooner] = found;
  assert.ok(Math.abs(sooner!.ratio - 0.2) < 1e-9 && Math.abs(sooner!.interval.high - 0.2) < 1e-9);
  assert.equal(found[1]!.firstMs, 200);
  assert.deepEqual(firstWordsOf(result, "seed"), [], "no staircase was measured");
});

test("a number that knows what is right has an AUC of 1, one that knows nothing 0.5", () => {
  const rows = Array.from({ length: 12 }, (_, index): ProposalRow => ({
    question: `q${index}`,
    proposals: [0, 1, 2].map((at) => ({
      model: "s",
      right: at === 0,
      stated: at === 0 ? "right" : `wrong ${at}`,
      confidence: at === 0 ? 0.9 : 0.5,
      tail: 0.5,
      lowest: null,
    })),
    pairs: [],
  }));
  const found = new Map(predictorFigures(rows, "seed").map((one) => [one.name, one]));
  assert.equal(found.get("confidence (geometric)")?.auc, 1);
  assert.equal(found.get("confidence of the last 8 tokens")?.auc, 0.5);
  assert.equal(found.get("lowest window of 8 tokens")?.count, 0);
});

test("the report says in words what was found, and is one page without anything from outside", async () => {
  const report = laboratoryReport(result, {
    origin: "Measured <here>",
    settings: { questions: 20 },
    seed: "seed",
  });
  assert.deepEqual(report.tables[0]?.rows.map(([question, found]) => [question, found]), [
    ["Does incremental prefill change answers, or time?", "no difference that could be seen"],
    ["… than its vote at equal tokens?", "more"],
    ["… than its vote at equal time?", "more"],
    ["Do final answers beat chance?", "more"],
  ]);
  const page = await htmlOf(report);
  assert.match(page, /Measured &lt;here&gt;/);
  assert.match(page, /<svg/);
  assert.doesNotMatch(page, /<script|<link|src="http/);
});

test("likeliest answers are compared with those of another engine, question by question", () => {
  const alone = rowsFor(named("s alone"), (index) => ({ text: `answer ${index}` }));
  const elsewhere = alone.rows.slice(0, 10).map((row, index) =>
    index === 3 ? { ...row, text: "other" } : row
  );
  assert.deepEqual(sameAnswers({ conditions: [alone], proposals: [] }, elsewhere), [
    { name: "s alone", questions: 10, same: 9, different: ["q3"] },
  ]);
});

test("every way is compared with another engine's rows of the same questions", () => {
  const tree = rowsFor(
    named("#3 tree, incremental prefill"),
    (index) => ({ stated: `${index}`, right: true }),
  );
  const exits = rowsFor(named("#4 answer"), (index) => ({
    stated: `${index}`,
    right: true,
    decisions: 2,
    exits: 1,
    latencyMs: tree.rows[index]!.latencyMs / 2,
  }));
  const elsewhere = [...tree.rows, ...exits.rows].slice(0, -10).map((row) =>
    row.question === "q3" ? { ...row, stated: "other", right: false, exits: 0, latencyMs: 0 } : row
  );
  const [, of] = enginesCompared({ conditions: [tree, exits], proposals: [] }, elsewhere);
  const questions = exits.rows.length - 10;
  assert.equal(of?.questions, questions);
  assert.deepEqual([of?.right, of?.rightElsewhere], [1, 1 - 1 / questions]);
  assert.equal(of?.sameFinal, 1 - 1 / questions);
  assert.deepEqual([of?.exitRate, of?.exitRateElsewhere], [0.5, 0.5 * (1 - 1 / questions)]);
  assert.deepEqual([of?.gained, of?.lost], [1, 0]);
});
