import assert from "node:assert/strict";
import { test } from "node:test";
import type { Json } from "../../../base/json.ts";
import { tree931, withAnswerLengths } from "../../../bench/experiments/graphs.ts";
import { readRecordedGraph, replayRunsOf } from "../../../bench/experiments/recorded_graph.ts";
import { type ReplayMode, replayRuns } from "../../../bench/experiments/replay.ts";
import { questionsOf } from "../../../bench/experiments/workload.ts";
import { shippedWorkload } from "../../../bench/experiments/workloads/shipped_workloads.ts";
import { makeExperimentWorld } from "../../../bench/experiments/world.ts";
import { lacksOf } from "../../../bench/report/replay_report.ts";
import { archivedRun } from "../../../router/http/runs/archived_run.ts";

const SERVING = "vllm";

/** Runs of a simulated world, a second apart, as `canopy runs export` writes them: the newest first. */
async function recordedRuns(): Promise<{ readonly whole: Json[]; readonly withoutTexts: Json[] }> {
  const graph = tree931({ mode: "auto" }, "completion");
  const world = makeExperimentWorld({ serving: SERVING, seed: "recorder", graphs: { g: graph } });
  const lines = { whole: new Array<Json>(), withoutTexts: new Array<Json>() };
  await world.clock.run(async () => {
    const router = world.router();
    const { signal } = new AbortController();
    await router.ready();
    const { moa } = router.services;
    await Promise.all(
      questionsOf(shippedWorkload("chat"), 2, "recorder").map(async ({ text, answerTokens }, index) => {
        await world.clock.sleep(1000 * index);
        const short = withAnswerLengths(moa.graphs.get("g")!, (place) => Math.ceil(answerTokens(place) / 2));
        const run = moa.start(short, {
          question: { kind: "chat", messages: [{ role: "user", content: text }] },
          rootSampling: {},
          choices: 1,
        }, signal);
        for await (const _event of run.output) { /* Read to its end. */ }
        await run.ended;
        for (const texts of [true, false]) {
          const { record } = await archivedRun(run.record(), { texts, clock: world.clock });
          lines[texts ? "whole" : "withoutTexts"][1 - index] = JSON.parse(record);
        }
      }),
    );
    await router.close();
  });
  return lines;
}

function runsOf(lines: readonly Json[]) {
  return replayRunsOf(lines.map((line) => readRecordedGraph(line)!));
}

async function replayed(lines: readonly Json[], modes: readonly ReplayMode[]) {
  return await replayRuns({
    serving: SERVING,
    seed: "replay",
    slots: "completion",
    signal: new AbortController().signal,
    runs: runsOf(lines).runs,
    modes,
    modelCosts: new Map([["4b", "4b"], ["8b", "8b"], ["32b", "32b"]]),
  });
}

test("a replay of runs recorded over engines of the same cost gives their latencies back, with and without texts", async () => {
  const { whole, withoutTexts } = await recordedRuns();
  const [asRecorded] = await replayed(whole, ["recorded"]);
  const [off, auto] = await replayed(withoutTexts, ["auto", "off"]);
  assert.ok(asRecorded && off && auto);
  for (const { mode, runs, promptTokens, completionTokens, within, ttftWithin } of [asRecorded, auto]) {
    assert.deepEqual([within, ttftWithin], [2, 2], mode);
    for (const { ratio, ttftRatio } of runs) {
      assert.ok(Math.abs(ratio - 1) < 0.02, `${mode} ${ratio}`);
      assert.ok(ttftRatio !== null && Math.abs(ttftRatio - 1) < 0.03, `${mode} ${ttftRatio}`);
    }
    assert.deepEqual(runs.map(({ arrivalMs }) => arrivalMs), [0, 1000]);
    assert.equal(completionTokens.simulated, completionTokens.recorded);
    assert.ok(
      Math.abs(promptTokens.simulated / promptTokens.recorded - 1) < 0.01,
      `${promptTokens.simulated}`,
    );
  }
  assert.ok(off.simulatedMeanMs > auto.simulatedMeanMs, "what is read ahead is worth something");
  assert.match(lacksOf(runsOf(withoutTexts)).join("\n"), /^2 runs without texts/m);
  assert.doesNotMatch(lacksOf(runsOf(whole)).join("\n"), /without texts|not simulated|left out/);
});

interface Facts {
  readonly state?: string;
  readonly reads?: readonly string[];
  readonly tokens?: number;
  readonly more?: object;
  readonly usage?: object;
}

/** A record with these agents, the root last. */
function recordOf(agents: Readonly<Record<string, Facts>>, more: object = {}): Json {
  const all = Object.entries(agents);
  return JSON.parse(JSON.stringify({
    object: "run",
    id: "run_1",
    graph: "moa",
    state: "done",
    created: 1_700_000_000,
    usage: {
      agents: all.filter(([, { tokens = 20 }]) => tokens > 0).map(([agent, { tokens = 20, usage }]) => ({
        agent,
        calls: 1,
        prompt_tokens: 300,
        completion_tokens: tokens,
        ...usage,
      })),
    },
    agents: all.map(([id, { state = "done", reads = [], more }]) => ({
      id,
      model: "4b",
      state,
      reads,
      text: "words",
      first_token_at_ms: 10,
      ended_at_ms: 100,
      ...more,
    })),
    ...more,
  }));
}

const ROOT = { root: { reads: ["a", "b"] } };

test("runs arrive as they did, to the millisecond where their records say so", () => {
  const at = (created: number, more: object) => recordOf({ a: {}, b: {}, ...ROOT }, { created, ...more });
  const exact = runsOf([at(12, { created_ms: 12_004 }), at(11, { created_ms: 11_950 })]).runs;
  assert.deepEqual(exact.map(({ arrivalMs }) => arrivalMs), [0, 54]);
  assert.deepEqual(runsOf([at(12, {}), at(11, {})]).runs.map(({ arrivalMs }) => arrivalMs), [0, 1000]);
});

test("agents that were ended early are left out and said to be, and so are runs whose records do not tell enough", () => {
  const early = runsOf([recordOf({ a: {}, b: { state: "cancelled", tokens: 0 }, ...ROOT })]);
  assert.deepEqual(early.runs[0]?.agents.map(({ id, reads }) => [id, reads]), [["a", []], ["root", ["a"]]]);
  assert.equal(early.runs[0]?.isIncremental, false);
  const events = (type: string) => recordOf({ a: {}, b: {}, ...ROOT }, { events: [{ type }] });
  const warmed = runsOf([events("warm_off"), events("warm_sent")]).runs;
  assert.deepEqual(warmed.map(({ isIncremental }) => isIncremental), [true, false]);
  assert.match(lacksOf(early).join("\n"), /^1 agents that failed, were ended early or were read by nobody/m);
  const { runs, left } = runsOf([
    recordOf({ a: {}, b: {}, ...ROOT }, { state: "failed" }),
    recordOf({ a: {}, b: {}, ...ROOT }, { root_skipped: true }),
    recordOf({ a: {}, b: { tokens: 0 }, ...ROOT }),
    recordOf({ a: {}, b: {}, root: { reads: ["a"] } }),
    recordOf({ a: {}, b: {}, root: { ...ROOT.root, more: { steps: [{}] } } }),
    recordOf({ a: {}, b: {}, root: { ...ROOT.root, more: { ended_at_ms: null } } }),
  ]);
  assert.deepEqual(runs, []);
  assert.deepEqual(
    new Map([...left].sort()),
    new Map([
      ["did not end well", 1],
      ["ended without its last agent", 1],
      ["had a staircase", 1],
      ["has agents without token counts", 1],
      ["has no times", 1],
      ["has several last agents", 1],
    ]),
  );
});

test("of an agent that was called twice the mean prompt is simulated, and another model that answered in its place", () => {
  const twice = { usage: { calls: 2, prompt_tokens: 600 }, more: { fallback: { model: "8b" } } };
  const recorded = runsOf([recordOf({ a: twice, b: {}, ...ROOT })]);
  const [a] = recorded.runs[0]!.agents;
  assert.deepEqual([a?.promptTokens, a?.model], [300, "8b"]);
  assert.match(lacksOf(recorded).join("\n"), /^1 agents were called more than once/m);
});

test("what agents reasoned is decoded, but their successors do not read it, however it was counted", async () => {
  const counted = { tokens: 250, usage: { reasoning_tokens: 200 } };
  const byText = { tokens: 250, more: { text: "x".repeat(50), reasoning: "x".repeat(200) } };
  const root = { root: { ...ROOT.root, usage: { prompt_tokens: 400 } } };
  const line = recordOf({ a: counted, b: byText, ...root });
  const { runs: [run], reasoningByText } = runsOf([line]);
  assert.deepEqual(run?.agents.map(({ reasoningTokens }) => reasoningTokens), [200, 200, 0]);
  assert.equal(reasoningByText, 1);
  const [figures] = await replayed([line], ["recorded"]);
  const { recorded, simulated } = figures!.promptTokens;
  assert.equal(recorded, 1000);
  assert.ok(Math.abs(simulated - recorded) < 20, `${simulated}`);
  assert.equal(figures!.completionTokens.simulated, 520);
});

test("an answer that its cluster closed without is in nobody's simulated prompt, and is said to be left out", async () => {
  const closed = (cluster: string, data: object) => ({ type: "cluster_closed", cluster, data });
  const answer = { tokens: 1000 };
  const root = { reads: ["a", "b", "c"], usage: { prompt_tokens: 2230 } };
  const events = [closed("l1.c1", { answers: ["a", "b"], dropped: [], unread: ["c"] })];
  const line = recordOf({ a: answer, b: answer, c: answer, root }, { events });
  const recorded = runsOf([line]);
  assert.deepEqual(recorded.runs[0]?.agents.map(({ id, reads }) => [id, reads]), [
    ["a", []],
    ["b", []],
    ["root", ["a", "b"]],
  ]);
  assert.match(
    lacksOf(recorded).join("\n"),
    /^1 agents that failed, were ended early or were read by nobody/m,
  );
  const [figures] = await replayed([line], ["recorded"]);
  const { recorded: before, simulated } = figures!.promptTokens;
  assert.ok(Math.abs(simulated - before) < 20, `${simulated}, recorded ${before}`);
  // Of a graph that names who reads whom each reader has a cluster of its own, with its own members.
  const shared = recordOf({
    a: {},
    b: {},
    early: { reads: ["a", "b"] },
    root: { reads: ["b", "early"] },
  }, { events: [closed("early.reads", { answers: ["a"], dropped: ["b"] })] });
  assert.deepEqual(runsOf([shared]).runs[0]?.agents.map(({ id, reads }) => [id, reads]), [
    ["a", []],
    ["b", []],
    ["early", ["a"]],
    ["root", ["b", "early"]],
  ]);
});
