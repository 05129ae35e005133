import assert from "node:assert/strict";
import { test } from "node:test";
import { SystemClock } from "../../../../base/clock.ts";
import { runExitTrial } from "../../../../bench/experiments/exit_run.ts";
import { scriptedQuestions } from "../../../../bench/experiments/scripted_answers.ts";
import {
  candidateGraph,
  topologyCandidates,
  type TopologyGrid,
} from "../../../../bench/experiments/topology/candidates.ts";
import { costTopology } from "../../../../bench/experiments/topology/costed_topology.ts";
import { exitRuleOf } from "../../../../bench/experiments/topology/exit_rules.ts";
import { searchTopology } from "../../../../bench/experiments/topology/topology.ts";
import { shippedWorkload } from "../../../../bench/experiments/workloads/shipped_workloads.ts";
import { SIZES } from "../../../../bench/experiments/world.ts";
import { loadCheckedConfig } from "../../../../cfgs/load/load.ts";

const rules = (...names: string[]) =>
  names.map((name) => {
    const rule = exitRuleOf(name, { "4b": 0.6, "8b": 0.7, "32b": 0.8 });
    assert.ok(rule !== undefined, name);
    return rule;
  });
const grid: TopologyGrid = {
  depths: [1, 2, 3],
  widths: [3, 7],
  models: SIZES,
  exits: rules("none", "agree:4"),
};
const models = SIZES.map((size) => ({ name: size, cost: size }));
const clock = new SystemClock();
const chat = shippedWorkload("chat");
const short = { ...chat, answers: chat.answers.map((answer) => ({ ...answer, median: 40 })) };

test("a grid has each graph once, no smaller model behind a larger one, and no exit that cannot happen", () => {
  const names = topologyCandidates(grid).map(({ name }) => name);
  assert.equal(new Set(names).size, names.length);
  assert.deepEqual(names.filter((name) => name.startsWith("1 ")), ["1 4b none", "1 8b none", "1 32b none"]);
  assert.deepEqual(names.filter((name) => name.startsWith("3-1 ")), [
    "3-1 4b/4b none",
    "3-1 4b/8b none",
    "3-1 8b/8b none",
    "3-1 4b/32b none",
    "3-1 8b/32b none",
    "3-1 mixed/32b none",
    "3-1 32b/32b none",
  ]);
  assert.equal(names.filter((name) => name.startsWith("7-2-1 ")).length, 14 * 2);
  assert.ok(!names.some((name) => name.startsWith("3-1-1 ")));
  assert.ok(!names.includes("7-2-1 mixed/8b/32b none"), "8b behind a layer that has 32b");
  const [mixed] = topologyCandidates({ ...grid, depths: [3], widths: [7], exits: rules("answer") })
    .filter(({ name }) => name.includes("mixed/32b/32b"));
  assert.deepEqual(mixed?.layers, [
    { clusters: [["4b", "8b", "32b", "4b"], ["8b", "32b", "4b"]] },
    { clusters: [["32b", "32b"]] },
    { clusters: [["32b"]] },
  ]);
  assert.throws(
    () => topologyCandidates({ ...grid, widths: Array.from({ length: 40 }, (_, at) => 4 + at) }),
    /Cannot search: \d+ candidates, at most 500 are tried: leave out some of the depths \(1, 2, 3\), widths/,
  );
  assert.throws(
    () => topologyCandidates({ ...grid, depths: [3], widths: [3] }),
    /Cannot search: no graph has these depths \(3\), widths \(3\), models \(4b, 8b, 32b\) and exits \(none, agree:4\)/,
  );
  assert.equal(topologyCandidates({ ...grid, widths: [] }).length, 3);
  for (const name of ["agree:1", "agree", "posterior:0.5", "none:1", "tau"]) {
    assert.equal(exitRuleOf(name, {}), undefined, name);
  }
});

test("every candidate is a graph that a configuration may have, with what it needs of its own models alone", () => {
  const exits = rules("none", "agree:3", "posterior:0.9", "answer", "q");
  const graphs = topologyCandidates({ depths: [1, 2, 3], widths: [7], models: SIZES, exits })
    .map((candidate) => [candidate.name, candidateGraph(candidate)] as const);
  for (const size of SIZES) {
    const used = graphs.filter(([name]) => new RegExp(` ${size}(/${size})* `).test(name));
    const model = { model: size, engine: "sglang", workers: ["http://127.0.0.1:30000"] };
    const value = { models: { [size]: model }, graphs: Object.fromEntries(used) };
    assert.equal(used.length, 11);
    assert.equal(Object.keys(loadCheckedConfig({ value, env: {} }).config.graphs).length, 11);
  }
});

test("a costed question is answered as the router plays it: the same right answers, latencies within 3 %, tokens within 5 %", async () => {
  const questions = scriptedQuestions(short, 3, "test");
  const candidates = topologyCandidates({
    depths: [2, 3],
    widths: [6],
    models: SIZES,
    exits: rules("none", "agree:3", "answer"),
  });
  const names = ["6-1 4b/8b agree:3", "6-2-1 4b/mixed/32b answer"];
  for (const name of names) {
    const candidate = candidates.find((one) => one.name === name);
    assert.ok(candidate !== undefined, name);
    const played = await runExitTrial({
      serving: "sglang",
      seed: "test",
      graph: candidateGraph(candidate),
      questions,
      concurrency: 1,
      signal: new AbortController().signal,
    });
    const costed = costTopology(candidate, { models, questions, pairs: false, atOnce: 1, seed: "test" });
    assert.deepEqual(costed.map(({ right }) => right), played.map(({ right }) => right), name);
    const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);
    const latency = sum(costed.map(({ latencyMs }) => latencyMs)) / sum(played.map(({ e2eMs }) => e2eMs));
    const tokens = sum(costed.map((one) => one.tokens)) / sum(played.map((one) => one.completionTokens));
    assert.ok(Math.abs(latency - 1) < 0.03 && Math.abs(tokens - 1) < 0.05, `${name}: ${latency}, ${tokens}`);
  }
});

test("a search chooses on one half of the questions and predicts from the other, the same for the same seed; a stop ends it", async () => {
  const options = {
    depths: [1, 2],
    widths: [3],
    exits: ["none", "posterior:0.9"],
    models,
    questions: scriptedQuestions(short, 25, "test"),
    pairs: false,
    atOnce: 2,
    seed: "test",
    budget: {},
    next: 10,
    clock,
    signal: new AbortController().signal,
  };
  const { search, candidate } = await searchTopology(options);
  assert.deepEqual([search.chosenOn, search.heldOut, search.candidates.length], [12, 13, 3 + 7 * 2]);
  assert.deepEqual(search, (await searchTopology(options)).search);
  assert.equal(search.recommended?.name, candidate?.name);
  assert.ok(search.front.length > 1);
  // Skills in the settings of posterior are those of the half that chooses.
  assert.ok(search.skills["4b"]! < search.skills["32b"]!, JSON.stringify(search.skills));
  const { right, latencyMs } = search.recommended!.intervals;
  assert.ok(right.low < search.recommended!.means.right && search.recommended!.means.right <= right.high);
  assert.ok(latencyMs.high < search.recommended!.next.latencyMs.high);
  const cheapest = search.front[0]!.row;
  const tight = await searchTopology({ ...options, budget: { latencyMs: cheapest.means.latencyMs } });
  assert.equal(tight.search.recommended?.name, cheapest.name);
  const stop = new AbortController();
  // As a signal of the process does, whose turn comes when the search lets it.
  const onPart = () => void clock.timer(0, () => stop.abort(new Error("stopped")));
  await assert.rejects(searchTopology({ ...options, signal: stop.signal, onPart }), /stopped/);
  const none = await searchTopology({ ...options, depths: [1], budget: { tokens: 1 } });
  assert.deepEqual([none.candidate, none.search.recommended, none.search.cost], [
    undefined,
    undefined,
    "tokens",
  ]);
});
