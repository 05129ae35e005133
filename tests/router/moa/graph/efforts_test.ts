import assert from "node:assert/strict";
import { test } from "node:test";
import { configSchema } from "../../../../cfgs/schema/config.ts";
import { buildGraph } from "../../../../router/moa/graph/build_graph.ts";

function built(graph: object, more: object = {}) {
  const layers = [{ clusters: 2, agents: [{ model: "a" }, { model: "a" }] }, { agents: [{ model: "a" }] }];
  const models = { a: { model: "a", engine: "vllm", workers: ["http://h:1"] } };
  return buildGraph("moa", configSchema.parse({ models, graphs: { moa: { layers, ...graph }, ...more } }));
}

test("by default, low counts a third of the leaves, medium is the graph itself, and high has no exit", () => {
  const own = {
    scope: "run",
    never_skip: ["a"],
    consensus: { agree: 3, start: "staged", finish: "rewrite" },
  };
  const { efforts, runExit } = built({ early_exit: own });
  assert.equal(runExit?.consensus.agree, 3);
  const { low, medium, high } = efforts!;
  const { agree, share, start, finish } = low.runExit!.consensus;
  assert.deepEqual([agree, share, start, finish], [undefined, 1 / 3, "staged", "rewrite"]);
  assert.deepEqual(low.runExit?.never_skip, ["a"]);
  assert.equal(medium.runExit, runExit);
  assert.equal(high.runExit, undefined);
  const clusters = built({ early_exit: { metric: "answer" } }).efforts!;
  assert.ok(clusters.low.clusters.every(({ earlyExit }) => earlyExit.metric === "answer"));
  assert.ok(clusters.high.clusters.every(({ earlyExit }) => earlyExit.metric === "none"));
  assert.equal(clusters.low.runExit?.scope, "run");
});

test("a level of effort that names no graph is refused by its path", () => {
  assert.throws(
    () => built({ effort: { low: { graph: "other" } } }),
    /graphs\.moa\.effort\.low\.graph is "other", which is not one of the graphs: moa/,
  );
});
