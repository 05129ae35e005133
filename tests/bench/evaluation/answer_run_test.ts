import assert from "node:assert/strict";
import { test } from "node:test";
import type { JsonObject } from "../../../base/json.ts";
import { agentLayers, answerPath, layerFigures, usedShares } from "../../../bench/evaluation/answer_path.ts";
import { type AnswerRun, answerRunOf } from "../../../bench/evaluation/answer_run.ts";
import { gpuSeconds } from "../../../bench/evaluation/gpu_time.ts";
import { fc } from "../../properties.ts";

const agent = (
  id: string,
  model: string,
  [first, ended]: readonly [number | null, number],
  more: JsonObject = {},
) => ({
  id,
  model,
  state: "done",
  reads: [],
  worker: `http://${model}`,
  text: `${id} says`,
  started_at_ms: 0,
  first_token_at_ms: first,
  ended_at_ms: ended,
  ...more,
});

/** Two proposers answer, a third is dropped by an exit; the root reads both. */
const RECORD: JsonObject = {
  id: "run-1",
  agents: [
    agent("l1.c1.a1", "s", [10, 100]),
    agent("l1.c1.a2", "s", [20, 140]),
    agent("l1.c1.a3", "m", [30, 150], { state: "cancelled" }),
    agent("l2.c1.a1", "l", [170, 400], {
      reads: ["l1.c1.a1", "l1.c1.a2", "l1.c1.a3"],
      started_at_ms: 145,
    }),
  ],
  usage: { agents: [{ agent: "l1.c1.a1", completion_tokens: 7 }] },
  events: [
    { at_ms: 0, type: "run_started", data: {} },
    { at_ms: 5, type: "agent_placed", agent: "l1.c1.a2" },
    { at_ms: 110, type: "warm_sent", agent: "l2.c1.a1", data: { worker: "http://prefill" } },
    { at_ms: 130, type: "warm_done", agent: "l2.c1.a1" },
    { at_ms: 142, type: "exit_decided", cluster: "l1.c1", data: { exit: true } },
    { at_ms: 400, type: "run_done", data: {} },
  ],
};

test("A run's record tells its agents, what it decided and when prompts were read ahead", () => {
  const run = answerRunOf(RECORD)!;
  assert.deepEqual(
    run.agents.map(({ id, state, placedMs, completionTokens }) => [id, state, placedMs, completionTokens]),
    [
      ["l1.c1.a1", "done", 0, 7],
      ["l1.c1.a2", "done", 5, 0],
      ["l1.c1.a3", "cancelled", 0, 0],
      ["l2.c1.a1", "done", 145, 0],
    ],
  );
  assert.deepEqual(run.decisions, [{ atMs: 142, type: "exit_decided", of: "l1.c1", data: { exit: true } }]);
  assert.deepEqual(run.warms, [{ model: "l", worker: "http://l", fromMs: 110, toMs: 130 }]);
  assert.equal(answerRunOf({ object: "error" }), undefined);
  assert.equal(answerRunOf("run"), undefined);
});

test("The critical path goes from the answer back to what it waited for last, and layers count agents that were used", () => {
  const run = answerRunOf(RECORD)!;
  assert.deepEqual(answerPath(run), [
    { layer: 1, agent: "l1.c1.a2", model: "s", exposedMs: 20, writingMs: 120, endedMs: 140 },
    { layer: 2, agent: "l2.c1.a1", model: "l", exposedMs: 30, writingMs: 230, endedMs: 400 },
  ]);
  assert.deepEqual(layerFigures([run, run]), [
    { layer: 1, agents: 3, used: 2, exposedMs: 20, writingMs: 120, endedMs: 140 },
    { layer: 2, agents: 1, used: 1, exposedMs: 30, writingMs: 230, endedMs: 400 },
  ]);
  assert.deepEqual([...usedShares([run])], [["s", 1], ["m", 0], ["l", 1]]);
  assert.deepEqual(layerFigures([]), []);
});

test("What was written up by another agent at the end is behind all of them on the path", () => {
  const rewrite = { given: "rewrite", reason: null, agent: agent("rewrite", "l", [420, 500]) };
  const path = answerPath(answerRunOf({ ...RECORD, rewrite })!);
  assert.deepEqual(path.map((link) => link.agent), ["l1.c1.a2", "l2.c1.a1", "rewrite"]);
  assert.deepEqual(path.at(-1), {
    layer: 3,
    agent: "rewrite",
    model: "l",
    exposedMs: 20,
    writingMs: 80,
    endedMs: 500,
  });
});

test("Links of a path add up to the answer's time in any tree, also where an agent begins before it has read all", () => {
  const time = fc.integer({ min: 0, max: 1000 });
  const leaf = fc.record({ first: time, writing: time, done: fc.boolean() });
  fc.assert(
    fc.property(fc.array(leaf, { minLength: 1, maxLength: 6 }), time, time, (leaves, first, writing) => {
      const agents = leaves.map((one, index) =>
        agent(`l1.c1.a${index + 1}`, "s", [one.first, one.first + one.writing], {
          state: one.done ? "done" : "cancelled",
        })
      );
      const lastMs = Math.max(0, ...leaves.filter(({ done }) => done).map((one) => one.first + one.writing));
      const root = agent("l2.c1.a1", "l", [first, Math.max(first + writing, lastMs)], {
        reads: agents.map(({ id }) => id),
      });
      const run = answerRunOf({ id: "x", agents: [...agents, root], events: [], usage: { agents: [] } })!;
      const path = answerPath(run);
      const sum = path.reduce((all, { exposedMs, writingMs }) => all + exposedMs + writingMs, 0);
      assert.equal(sum, root.ended_at_ms);
      assert.ok(path.every(({ exposedMs, writingMs }) => exposedMs >= 0 && writingMs >= 0));
      assert.equal(agentLayers(run.agents).get(root.id), 2);
    }),
  );
});

test("A server's GPUs count while an answer's calls and warms are under way on it, each moment once", () => {
  const run = answerRunOf(RECORD)!;
  const byModel = gpuSeconds({ latencyMs: 400, run, work: undefined }, (model) => model === "l" ? 2 : 1)!;
  // Both proposers of `s` on one server: 0 to 140 ms. The root: a warm of 20 ms, then 255 ms, on a pair.
  assert.deepEqual([...byModel].map(([model, seconds]) => [model, Math.round(1e6 * seconds)]), [
    ["s", 140_000],
    ["m", 150_000],
    ["l", 550_000],
  ]);
  const elsewhere = { ...run.agents[1]!, worker: "http://other" };
  const spread: AnswerRun = { ...run, agents: [run.agents[0]!, elsewhere], warms: [] };
  const apart = gpuSeconds({ latencyMs: 400, run: spread, work: undefined }, () => 1);
  assert.deepEqual([...apart!], [["s", (100 + 135) / 1000]], "two servers work at the same time");
});

test("Without a record the whole latency is of the one model that was asked, and of a graph nothing is known", () => {
  const work = {
    calls: 1,
    cachedTokens: null,
    wastedTokens: 0,
    savedTokens: 0,
    cost: null,
    models: { l: { calls: 1, promptTokens: 1, cachedTokens: null, completionTokens: 2 } },
  };
  assert.deepEqual([...gpuSeconds({ latencyMs: 500, work }, () => 2)!], [["l", 1]]);
  assert.equal(gpuSeconds({ latencyMs: 500, work: { ...work, graph: true } }, () => 2), undefined);
  assert.equal(gpuSeconds({ latencyMs: 500, work: undefined }, () => 2), undefined);
});
