import assert from "node:assert/strict";
import { test } from "node:test";
import { compareRecords } from "../../../bench/evaluation/compare_records.ts";
import type { EvalRecord } from "../../../bench/evaluation/eval_record.ts";
import { compareReport } from "../../../bench/report/eval/compare_report.ts";
import { pairedAnswers } from "../../../bench/statistics/paired_answers.ts";
import { fc } from "../../properties.ts";

const answer = (question: string, right: boolean, more: Partial<EvalRecord> = {}): EvalRecord => ({
  set: "s",
  question,
  mode: "m",
  repeat: 0,
  outcome: right ? "right" : "wrong",
  stated: "1",
  unchecked: null,
  parts: null,
  readings: {},
  text: "1",
  finish: "stop",
  ttftMs: null,
  latencyMs: 100,
  promptTokens: 1,
  completionTokens: 10,
  drawn: 1,
  ...more,
});

test("two evaluations are compared over what both have answered, and what could be checked", () => {
  const before = [
    answer("a", true),
    answer("b", true),
    answer("c", false),
    answer("d", true),
    answer("only", true),
    answer("a", true, { set: "other" }),
  ];
  const after = [
    answer("a", true, { latencyMs: 50, completionTokens: 5 }),
    answer("b", false, { latencyMs: 50, completionTokens: 5 }),
    answer("c", true, { latencyMs: 50, completionTokens: 5 }),
    answer("d", false, { outcome: "ungradable", unchecked: "no sandbox" }),
    answer("new", true),
  ];
  const [one, other, ...more] = compareRecords([before, after], [["m", "m"]]);
  assert.deepEqual([other?.set, other?.given, other?.answers, more.length], ["other", [1, 0], 0, 0]);
  const { bootstrap, latencyBootstrap, ...rest } = one!;
  assert.deepEqual(latencyBootstrap, { interval: { low: 0.5, high: 0.5 }, p: 0 });
  // Of three questions one was gained and one was lost.
  assert.ok(
    bootstrap.p > 0.9 && bootstrap.interval.low === -bootstrap.interval.high,
    JSON.stringify(bootstrap),
  );
  assert.deepEqual({ ...rest, interval: undefined }, {
    set: "s",
    modes: ["m", "m"],
    given: [5, 5],
    answers: 3,
    questions: 3,
    accuracies: [2 / 3, 2 / 3],
    difference: 0,
    interval: undefined,
    gained: 1,
    lost: 1,
    p: 1,
    latencyRatio: 0.5,
    tokensRatio: 0.5,
  });
  assert.deepEqual(
    compareRecords([before, after], [["m", "n"]]).map(({ set, given, answers }) => [set, given, answers]),
    [["s", [5, 0], 0], ["other", [1, 0], 0]],
  );
  assert.deepEqual(compareRecords([before, after], [["n", "n"]]), []);
});

test("a mode may be compared with another one of the same evaluation", () => {
  const records = ["a", "b"].flatMap((question) => [
    answer(question, false, { mode: "tree" }),
    answer(question, true, { mode: "large" }),
  ]);
  const [one] = compareRecords([records, records], [["tree", "large"]]);
  assert.deepEqual([one?.answers, one?.difference, one?.gained, one?.lost], [2, 1, 2, 0]);
});

test("the interval of a difference holds it nearly, turns with the files, and narrows with more answers", () => {
  fc.assert(fc.property(fc.nat(40), fc.nat(40), fc.nat(200), (gained, lost, same) => {
    const both = (count: number, first: boolean, second: boolean) =>
      Array.from({ length: count }, () => [[first, second] as const]);
    const pairs = [...both(gained, true, false), ...both(lost, false, true), ...both(same + 1, true, true)];
    const one = pairedAnswers(pairs);
    const turned = pairedAnswers(pairs.map((answers) => answers.map(([a, b]) => [b, a] as const)));
    assert.ok(one.interval.low <= one.difference + 0.02 && one.difference - 0.02 <= one.interval.high);
    assert.ok(Math.abs(one.interval.low + turned.interval.high) < 1e-12);
    assert.equal(one.p, turned.p);
    const wider = pairedAnswers([...pairs, ...both(1000, true, true)]);
    assert.ok(wider.interval.high - wider.interval.low < one.interval.high - one.interval.low);
  }));
});

test("repeats of a question are not questions of their own: two of twenty lost are an accident, ten times as well", () => {
  const twenty = (lost: number, repeats: number) =>
    Array.from({ length: 20 }, (_, question) =>
      Array.from(
        { length: repeats },
        (_, repeat) => answer(`q${question}`, question >= lost, { repeat }),
      )).flat();
  const [once] = compareRecords([twenty(0, 1), twenty(2, 1)], [["m", "m"]]);
  const [often] = compareRecords([twenty(0, 10), twenty(2, 10)], [["m", "m"]]);
  assert.ok(once !== undefined && often !== undefined);
  assert.deepEqual([once.answers, once.questions], [20, 20]);
  assert.deepEqual([often.answers, often.questions, often.lost], [200, 20, 20]);
  assert.equal(often.difference, once.difference);
  for (const { p } of [once, often]) assert.ok(Math.abs(p - 0.5) < 1e-9, String(p));
  for (const end of ["low", "high"] as const) {
    assert.ok(Math.abs(often.interval[end] - once.interval[end]) < 1e-12, end);
  }
  const reportOf = (comparison: typeof once) =>
    JSON.stringify(compareReport([comparison], {
      files: ["1", "2"],
      otherSettings: [],
      leftModes: [[], []],
      missing: 5,
      simulated: true,
    }));
  assert.match(reportOf(often), /"200 \(20 questions\)".*the exact sign-flip test over questions/);
  assert.doesNotMatch(reportOf(once), /questions\)"|sign-flip/);
  // Answers that are drawn anew each time tell more than one of them.
  const drawn = (share: (question: number) => number) =>
    twenty(0, 10).map((record, at) =>
      answer(record.question, record.repeat < share(Math.floor(at / 10)), { repeat: record.repeat })
    );
  const noisy = compareRecords([drawn(() => 8), drawn((question) => question % 2 === 0 ? 6 : 7)], [[
    "m",
    "m",
  ]])[0]!;
  assert.ok(noisy.p < 1e-5 && noisy.interval.high < 0, JSON.stringify(noisy));
});
