import assert from "node:assert/strict";
import { test } from "node:test";
import { runFigures } from "../../../bench/experiments/figures.ts";
import { withAnswerLengths } from "../../../bench/experiments/graphs.ts";
import { configSchema } from "../../../cfgs/schema/config.ts";
import { buildGraph } from "../../../router/moa/graph/build_graph.ts";
import type { AgentRecord, RunRecord } from "../../../router/moa/record/run_record.ts";
import { builtinTokenizer } from "../../../simulator/server/backend.ts";

const agent = { model: "m" };
const graph = buildGraph(
  "g",
  configSchema.parse({
    models: { m: { model: "m", engine: "vllm", workers: ["http://m"] } },
    graphs: { g: { layers: [{ agents: [agent, agent] }, { agents: [agent] }] } },
  }),
);

function record(
  id: string,
  times: readonly [started: number, first: number, ended: number],
  more: Partial<AgentRecord> = {},
): AgentRecord {
  const [startedAtMs, firstTokenAtMs, endedAtMs] = times;
  return {
    id,
    model: "m",
    state: "done",
    worker: "w",
    prompt: undefined,
    text: "",
    reasoning: "",
    finishReason: "length",
    error: undefined,
    startedAtMs,
    firstTokenAtMs,
    endedAtMs,
    resumes: 0,
    restarts: 0,
    usage: undefined,
    ...more,
  };
}

function runOf(...agents: AgentRecord[]): RunRecord {
  return {
    id: "run_1",
    graph: "g",
    state: "done",
    startedAtUnixMs: 0,
    durationMs: 100,
    error: undefined,
    usage: {
      promptTokens: 30,
      completionTokens: 20,
      cachedTokens: 5,
      reasoningTokens: 0,
      wastedTokens: 0,
      calls: 3,
      agents: [],
      parts: [],
    },
    agents,
    exits: [],
    rootSkipped: false,
    drawSeed: "1",
    events: [],
  };
}

test("The parts of the critical path add up; the bound is the longest chain without the successors' prefill", () => {
  const figures = runFigures(
    graph,
    runOf(
      record("l1.c1.a1", [0, 5, 40]),
      record("l1.c1.a2", [0, 10, 30]),
      record("l2.c1.a1", [40, 52, 100]),
    ),
  );
  assert.equal(figures.e2eMs, 100);
  assert.equal(figures.ttftMs, 52);
  assert.deepEqual(figures.path, { leafMs: 5, handOverMs: 12, decodeMs: 35 + 48 });
  assert.equal(figures.boundMs, 40 + 48);
});

test("What of the precursors' answers was cached is counted between the first one's begin and the last one's end", () => {
  const tokenizer = builtinTokenizer();
  const head = tokenizer.encode("Read the answers and then");
  const first = " the apple is red, and";
  const second = " there is more water";
  const tail = tokenizer.encode(" in the end");
  const ids = [...head, ...tokenizer.encode(first + second), ...tail];
  const splice = ids.length - head.length - tail.length;
  const root = (cachedTokens: number) =>
    record("l2.c1.a1", [40, 52, 100], {
      prompt: { kind: "tokens", ids },
      usage: {
        agent: "l2.c1.a1",
        model: "m",
        calls: 1,
        promptTokens: ids.length,
        completionTokens: 5,
        cachedTokens,
        reasoningTokens: 0,
        wastedTokens: 0,
      },
    });
  // Leading blanks are no part of an answer: the first one's begin is one token later if the blank is a token.
  for (
    const [cached, expected] of [[0, 0], [head.length, 0], [head.length + 3, 3], [
      ids.length,
      splice,
    ]] as const
  ) {
    const { agents } = runFigures(
      graph,
      runOf(
        record("l1.c1.a1", [0, 5, 40], { text: first }),
        record("l1.c1.a2", [0, 10, 30], { text: second }),
        root(cached),
      ),
    );
    const own = agents.at(-1);
    assert.ok(own !== undefined);
    const blank = splice - own.spliceTokens;
    assert.ok(blank >= 0 && blank <= 1, `${own.spliceTokens} of ${splice} tokens`);
    assert.equal(own.splicedFromCache, Math.max(0, expected - blank));
  }
});

test("A run without an answer has no figures", () => {
  const failed = record("l2.c1.a1", [40, 52, 100], { state: "failed", error: "the worker is gone" });
  const run = runOf(record("l1.c1.a1", [0, 5, 40]), record("l1.c1.a2", [0, 10, 30]), failed);
  assert.throws(() => runFigures(graph, run), /l2\.c1\.a1 did not answer: the worker is gone/);
});

test("A graph with other answer lengths is the same graph otherwise", () => {
  const long = withAnswerLengths(graph, ({ layer, index }) => 10 * layer + index + 1);
  assert.deepEqual(long.agents.map(({ id, sampling }) => [id, sampling.max_tokens]), [
    ["l1.c1.a1", 1],
    ["l1.c1.a2", 2],
    ["l2.c1.a1", 11],
  ]);
  assert.equal(long.root, long.agents.at(-1));
  assert.deepEqual(long.root.reads[0]?.agents, long.agents.slice(0, 2));
  assert.equal(long.clusters[0], long.root.reads[0]);
  assert.ok(graph.agents.every(({ sampling }) => sampling.max_tokens === undefined));
});
