import assert from "node:assert/strict";
import { test } from "node:test";
import { shippedWorkload } from "../../../bench/experiments/workloads/shipped_workloads.ts";
import { compareExits, treeWithExit } from "../../../bench/experiments/exit.ts";
import { runExitTrial } from "../../../bench/experiments/exit_run.ts";
import { tree931 } from "../../../bench/experiments/graphs.ts";
import {
  majorityOf,
  scriptedExitAnswers,
  scriptedQuestions,
  statedAnswers,
} from "../../../bench/experiments/scripted_answers.ts";
import { sweepTau } from "../../../bench/experiments/tau.ts";
import { exitReport } from "../../../bench/report/exit_report.ts";
import type { Report } from "../../../bench/report/report.ts";
import { svgOf } from "../../../bench/report/svg.ts";
import { tauReport } from "../../../bench/report/tau_report.ts";
import { shortWorkload } from "./short_workload.ts";

const common = {
  serving: "sglang-pd",
  seed: "test",
  slots: "declared",
  signal: new AbortController().signal,
} as const;

test("scripted answers are right as often as the model's size says, and the wrong ones agree on one more than by chance", () => {
  const questions = scriptedQuestions(shippedWorkload("chat"), 400, "test");
  const answers = questions.map((question) => ({
    right: question.right,
    small: question.answerOf("4b", 101, []),
    large: question.answerOf("32b", 103, []),
    other: question.answerOf("4b", 104, []),
  }));
  const share = (of: (one: typeof answers[number]) => boolean) => answers.filter(of).length / answers.length;
  assert.ok(share((one) => one.small === one.right) > 0.5 && share((one) => one.small === one.right) < 0.65);
  assert.ok(share((one) => one.large === one.right) > 0.77);
  assert.ok(share((one) => one.small !== one.right && one.small === one.other) > 0.02);
  assert.equal(
    JSON.stringify(answers[7]!.small),
    JSON.stringify(scriptedQuestions(shippedWorkload("chat"), 400, "test")[7]!.answerOf("4b", 101, [])),
  );
});

test("an aggregator mostly follows the majority of what it reads, and its text ends with its answer", () => {
  const questions = scriptedQuestions(shippedWorkload("chat"), 50, "test");
  const followed =
    questions.filter((question) => question.answerOf("8b", 201, ["7", "7", "8"]) === "7").length;
  assert.ok(followed > 40, `${followed}`);
  const answers = scriptedExitAnswers(questions, "8b");
  const prompt = `${questions[3]!.text}\n1. The answer is 7.\n2. The answer is 7.`;
  const answer = answers.answer(prompt, 201, undefined);
  assert.equal(statedAnswers(answer?.text ?? "").at(-1), questions[3]!.answerOf("8b", 201, ["7", "7"]));
  assert.equal(answers.answer("Something else", 201, undefined), undefined);
  assert.equal(majorityOf(["1", "2", "2"]), "2");
  assert.equal(majorityOf(["1", "2"]), undefined);
  assert.equal(majorityOf([]), undefined);
});

test("exits on equal answers are never wrong among three, spare tokens and time, and are the same for the same seed", async () => {
  const questions = scriptedQuestions(shortWorkload(), 2, common.seed);
  const trial = (metric: string) =>
    runExitTrial({ ...common, questions, concurrency: 1, graph: treeWithExit({ metric }, common.slots) });
  const tree = await runExitTrial({
    ...common,
    questions,
    concurrency: 1,
    graph: tree931({ mode: "auto" }, common.slots),
  });
  const exits = await trial("answer");
  assert.equal(JSON.stringify(exits), JSON.stringify(await trial("answer")));
  const sum = (runs: typeof exits, of: (run: typeof exits[number]) => number) =>
    runs.reduce((total, run) => total + of(run), 0);
  assert.equal(sum(tree, (run) => run.exits), 0);
  assert.equal(sum(tree, (run) => run.agents["4b"].all), 2 * 4);
  assert.ok(sum(exits, (run) => run.leafExits) > 0);
  assert.equal(sum(exits, (run) => run.wrongExits), 0);
  assert.ok(sum(exits, (run) => run.e2eMs) < sum(tree, (run) => run.e2eMs));
  assert.ok(sum(exits, (run) => run.completionTokens) < sum(tree, (run) => run.completionTokens));
  assert.ok(sum(exits, (run) => run.wastedTokens) > 0);
  assert.equal(sum(tree, (run) => run.wastedTokens), 0);
});

test("a run that ends on two equal answers is sooner than the tree; one that knows the right answer ends on it", async () => {
  const questions = scriptedQuestions(shortWorkload(), 4, common.seed);
  const trial = (graph: ReturnType<typeof treeWithExit>, oracle = false) =>
    runExitTrial({ ...common, questions, concurrency: 1, graph, oracle });
  const mean = (runs: Awaited<ReturnType<typeof trial>>) => runs.reduce((sum, { e2eMs }) => sum + e2eMs, 0);
  const tree = await trial(tree931({ mode: "auto" }, common.slots));
  const two = await trial(treeWithExit({ scope: "run", consensus: { agree: 2 } }, common.slots));
  assert.ok(two.every((run) => run.rootSkipped && run.exits === 1));
  assert.ok(mean(two) < mean(tree));
  const knowing = await trial(treeWithExit({ scope: "run" }, common.slots), true);
  for (const run of knowing) if (run.rootSkipped) assert.ok(run.right);
  assert.ok(knowing.some((run) => run.rootSkipped));
  assert.ok(mean(knowing) <= mean(two));
});

test("the comparison of metrics and the sweep over tau become reports", async () => {
  const options = { ...common, workloads: [shortWorkload()], questions: 1, concurrency: 1 } as const;
  const comparisons = await compareExits(options);
  const rateOf = (name: string) => comparisons[0]!.modes.find((mode) => mode.name === name)?.exitRate;
  for (const metric of ["q", "answer", "agreement"]) {
    assert.equal(rateOf(`random, as often as ${metric}`), rateOf(metric), metric);
  }
  assert.deepEqual(comparisons[0]!.modes.map(({ mode }) => mode), [
    "#1",
    "#2",
    "#3",
    ...Array(19).fill("#4"),
  ]);
  await checkReport(exitReport(comparisons, "Simulated", {}));
  const sweeps = await sweepTau({ ...options, taus: [0.5], gammas: [0.5] });
  assert.equal(sweeps[0]!.points.length, 1);
  await checkReport(tauReport(sweeps, "Simulated", {}));
});

async function checkReport(report: Report): Promise<void> {
  for (const { head, rows } of report.tables) {
    for (const row of rows) {
      assert.equal(row.length, head.length);
      assert.ok(row.every((cell) => cell !== "" && !/NaN|undefined|Infinity/.test(cell)), row.join(" | "));
    }
  }
  assert.ok((await svgOf(report)).includes(report.title));
}

test("a trial takes what its models' costs say", async () => {
  const questions = scriptedQuestions(shortWorkload(), 1, common.seed);
  const trial = (costs?: { "32b": "4b" }) =>
    runExitTrial({ ...common, questions, concurrency: 1, graph: tree931({ mode: "off" }), costs });
  const [[usual], [quick]] = [await trial(), await trial({ "32b": "4b" })];
  assert.ok(quick!.e2eMs < 0.7 * usual!.e2eMs, `${quick!.e2eMs} ${usual!.e2eMs}`);
  assert.equal(quick!.completionTokens, usual!.completionTokens);
});

test("an agreed text is given though the root would have written a shorter one", async () => {
  const root = { layer: 1, index: 0, model: "32b" };
  const found = scriptedQuestions(shippedWorkload("chat"), 200, common.seed).find((question) => {
    const places = [0, 1, 2].map((index) => ({ layer: 0, index, model: "8b" }));
    const said = places.map(({ index }) => question.answerOf("8b", 100 + index, []));
    return said.every((answer) => answer === question.right) &&
      places.every((place) => question.answerTokens(place) > question.maxTokens(root));
  });
  assert.ok(found !== undefined);
  const members = Array.from({ length: 3 }, (_, index) => ({ model: "8b", sampling: { seed: 100 + index } }));
  const [run] = await runExitTrial({
    ...common,
    graph: {
      layers: [{ agents: members }, { agents: [{ model: "32b", sampling: { seed: 300 } }] }],
      early_exit: { scope: "run", diversity_guard: false, consensus: { agree: 3 } },
    },
    questions: [{ ...found, text: found.text.replace(/^Question \d+/, "Question 0") }],
    concurrency: 1,
  });
  assert.deepEqual([run?.rootSkipped, run?.right, run?.calls], [true, true, 3]);
});
