import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "../../properties.ts";
import { graphSchema } from "../../../cfgs/schema/config.ts";
import { expandGraph } from "../../../cfgs/topology/expand_graph.ts";
import { type ExpandedGraph, MAX_AGENTS } from "../../../cfgs/topology/expanded_graph.ts";

const agent = { model: "m" };
const agents = (count: number) => Array.from({ length: count }, () => agent);

function expand(graph: unknown): ExpandedGraph {
  const result = expandGraph(graphSchema.parse(graph), ["graphs", "moa"]);
  assert.deepEqual(result.problems, []);
  assert.ok(result.graph);
  return result.graph;
}

function problems(graph: unknown): string[] {
  const result = expandGraph(graphSchema.parse(graph), ["graphs", "moa"]);
  assert.equal(result.graph, undefined);
  return result.problems.map((problem) => `${problem.path.slice(2).join(".")}: ${problem.message}`);
}

const reads = (graph: ExpandedGraph) =>
  graph.agents.map((node) => `${node.id} < ${node.reads.join(" ")}`.trim());

test("the i-th agent of a layer reads the i-th cluster of the layer before", () => {
  const graph = expand({
    layers: [{ clusters: 3, agents: agents(3) }, { agents: agents(3) }, { agents: [agent] }],
  });
  assert.deepEqual(reads(graph).slice(9), [
    "l2.c1.a1 < l1.c1",
    "l2.c1.a2 < l1.c2",
    "l2.c1.a3 < l1.c3",
    "l3.c1.a1 < l2.c1",
  ]);
  assert.deepEqual(graph.clusters.map((cluster) => cluster.id), ["l1.c1", "l1.c2", "l1.c3", "l2.c1"]);
  assert.deepEqual(graph.clusters[1]?.agents, ["l1.c2.a1", "l1.c2.a2", "l1.c2.a3"]);
  assert.equal(graph.rootId, "l3.c1.a1");
});

test("one cluster is read by all agents of the next layer", () => {
  const graph = expand({ layers: [{ agents: agents(9) }, { agents: agents(9) }, { agents: [agent] }] });
  assert.equal(graph.agents.length, 19);
  assert.ok(graph.agents.slice(9, 18).every((node) => node.reads.join() === "l1.c1"));
});

test("clusters and agents are shared out evenly when one number is a multiple of the other", () => {
  const more = expand({
    layers: [{ clusters: 4, agents: [agent] }, { agents: agents(2) }, { agents: [agent] }],
  });
  assert.deepEqual(reads(more).slice(4, 6), ["l2.c1.a1 < l1.c1 l1.c2", "l2.c1.a2 < l1.c3 l1.c4"]);
  const fewer = expand({
    layers: [{ clusters: 2, agents: [agent] }, { agents: agents(4) }, { agents: [agent] }],
  });
  assert.deepEqual(reads(fewer).slice(2, 6), [
    "l2.c1.a1 < l1.c1",
    "l2.c1.a2 < l1.c1",
    "l2.c1.a3 < l1.c2",
    "l2.c1.a4 < l1.c2",
  ]);
});

test("numbers that do not divide are refused with both numbers", () => {
  assert.deepEqual(
    problems({ layers: [{ clusters: 3, agents: agents(2) }, { agents: agents(2) }, { agents: [agent] }] }),
    [
      "layers.1: has 2 agents but layer 1 has 3 clusters: one number must be a multiple of the other, " +
      "so that every agent reads as many clusters",
    ],
  );
});

test("mistakes in layers are named with their place, each of them once", () => {
  assert.deepEqual(problems({ layers: [{ agents: agents(2) }] }), [
    "layers.0: is the last layer and has 2 agents: it must have exactly one, the root",
  ]);
  assert.match(problems({ layers: [{}, { agents: [agent] }] })[0]!, /^layers\.0: has no agents/);
  assert.match(
    problems({ layers: [{ agents: [agent], clusters: [{ agents: [agent] }] }, { agents: [agent] }] })[0]!,
    /^layers\.0\.agents: is given although/,
  );
  assert.deepEqual(
    problems({ layers: [{ clusters: 3, agents: agents(2), min_responses: 3 }, { agents: [agent] }] }),
    ["layers.0.min_responses: is 3 but the cluster has only 2 agents"],
  );
  assert.match(
    problems({ layers: [{ clusters: 90_000, agents: [agent] }, { agents: [agent] }] })[0]!,
    new RegExp(`has 90001 agents, at most ${MAX_AGENTS}`),
  );
});

test("prompts, sampling, deadlines and cluster rules come from the nearest level that sets them", () => {
  const graph = expand({
    sampling: { temperature: 0.1, top_p: 0.5 },
    min_responses: 2,
    on_deadline: "use_partial",
    layers: [
      {
        sampling: { temperature: 0.2, seed: 7 },
        deadline_ms: 100,
        min_responses: 1,
        clusters: [
          {
            agents: [agent, { ...agent, deadline_ms: 5, sampling: { seed: 8 }, prompt: "own" }],
            deadline_ms: 50,
          },
          { agents: [agent], on_deadline: "drop", early_exit: { metric: "random" } },
        ],
      },
      { agents: agents(2), prompt: "layer" },
      { agents: [agent] },
    ],
  });
  const configs = graph.agents.map((
    node,
  ) => [node.config.prompt, node.config.deadline_ms, node.config.sampling]);
  assert.deepEqual(configs, [
    ["propose", 50, { temperature: 0.2, top_p: 0.5, seed: 7 }],
    ["own", 5, { temperature: 0.2, top_p: 0.5, seed: 8 }],
    ["propose", 100, { temperature: 0.2, top_p: 0.5, seed: 7 }],
    ["layer", undefined, { temperature: 0.1, top_p: 0.5 }],
    ["layer", undefined, { temperature: 0.1, top_p: 0.5 }],
    ["synthesize", undefined, { temperature: 0.1, top_p: 0.5 }],
  ]);
  assert.deepEqual(graph.clusters.map((cluster) => [cluster.minResponses, cluster.earlyExit.metric]), [
    [1, "none"],
    [1, "random"],
    [2, "none"],
  ]);
  assert.deepEqual(graph.agents.map((node) => node.onDeadline), [
    "use_partial",
    "use_partial",
    "drop",
    "use_partial",
    "use_partial",
    "use_partial",
  ]);
  assert.deepEqual(graph.agents[2]?.path, ["graphs", "moa", "layers", 0, "clusters", 1, "agents", 0]);
});

test("a graph-wide min_responses asks no more of a small cluster than all its members", () => {
  const graph = expand({ min_responses: 3, layers: [{ agents: agents(2) }, { agents: [agent] }] });
  assert.equal(graph.clusters[0]?.minResponses, 2);
});

test("an explicit graph is sorted, and what an agent reads is its cluster", () => {
  const graph = expand({
    agents: {
      root: { model: "m", reads: ["b", "a"], min_responses: 2 },
      b: { model: "m", reads: ["a"] },
      a: { model: "m" },
    },
  });
  assert.deepEqual(reads(graph), ["a <", "b < b.reads", "root < root.reads"]);
  assert.deepEqual(graph.clusters.map(({ id, agents, minResponses }) => [id, agents, minResponses]), [
    ["b.reads", ["a"], 1],
    ["root.reads", ["b", "a"], 2],
  ]);
  assert.deepEqual(graph.agents.map((node) => node.config.prompt), ["propose", "aggregate", "synthesize"]);
});

test("an explicit graph without root, with a cycle or with unknown names is refused", () => {
  const m = "m";
  assert.deepEqual(problems({ agents: { a: { model: m, reads: ["b"] }, b: { model: m, reads: ["a"] } } }), [
    'agents: form a cycle through "a", "b"',
  ]);
  assert.deepEqual(problems({ agents: { a: { model: m, reads: ["a"] } } }), [
    'agents: form a cycle through "a"',
  ]);
  assert.deepEqual(problems({ agents: { a: { model: m }, b: { model: m } } }), [
    'agents: have 2 roots (agents that nobody reads): "a", "b"; there must be one',
  ]);
  assert.deepEqual(problems({ agents: { a: { model: m, reads: ["x", "toString"] }, b: { model: m } } }), [
    'agents.a.reads.0: names an agent "x" that does not exist: known are "a", "b"',
    'agents.a.reads.1: names an agent "toString" that does not exist: known are "a", "b"',
  ]);
  assert.deepEqual(problems({ agents: { a: { model: m, reads: ["b", "b"] }, b: { model: m } } }), [
    'agents.a.reads.1: names the agent "b" twice',
  ]);
  assert.deepEqual(problems({ agents: {} }), ["agents: has no agents: give at least one"]);
});

test("whatever the numbers of clusters and agents, a layered graph is refused or a sound DAG", () => {
  const layer = fc.record({
    clusters: fc.integer({ min: 1, max: 6 }),
    agents: fc.integer({ min: 1, max: 4 }),
  });
  fc.assert(fc.property(fc.array(layer, { minLength: 1, maxLength: 4 }), (layers) => {
    const config = graphSchema.parse({
      layers: layers.map((one) => ({ clusters: one.clusters, agents: agents(one.agents) })),
    });
    const { graph, problems } = expandGraph(config, []);
    assert.equal(graph === undefined, problems.length > 0);
    if (graph === undefined) return;
    const seen = new Set<string>();
    const read = new Set<string>();
    const clusters = new Map(graph.clusters.map((cluster) => [cluster.id, cluster]));
    for (const node of graph.agents) {
      for (const id of node.reads) {
        read.add(id);
        for (const member of clusters.get(id)!.agents) assert.ok(seen.has(member));
      }
      seen.add(node.id);
    }
    assert.deepEqual([...read].sort(), [...clusters.keys()].sort());
    assert.equal(seen.size, graph.agents.length);
    assert.equal(graph.agents.at(-1)?.id, graph.rootId);
  }));
});

test("a cluster needs more than half of its members by default, under MoA-vllm's rules all; early exits need fewer", () => {
  const least = (size: number, more: Record<string, unknown> = {}) => {
    const graph = expand({ ...more, layers: [{ agents: agents(size) }, { agents: [agent] }] });
    const [cluster] = graph.clusters;
    return [cluster?.minResponses, cluster?.minOnExit];
  };
  assert.deepEqual([1, 2, 3, 9].map((size) => least(size)), [[1, 1], [2, 1], [2, 1], [5, 1]]);
  assert.deepEqual(least(3, { min_responses: 1 }), [1, 1]);
  assert.deepEqual(least(3, { min_responses: 3 }), [3, 3]);
  assert.deepEqual(least(3, { compat: "moa-vllm" }), [3, 1]);
});
