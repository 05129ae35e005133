import assert from "node:assert/strict";
import { test } from "node:test";
import { Cluster } from "../../../../router/moa/run/cluster.ts";
import { buildGraph } from "../../../../router/moa/graph/build_graph.ts";
import { makeConfig } from "../run_harness.ts";

const agent = { model: "a" };

function makeCluster(minResponses: number) {
  const graph = buildGraph(
    "moa",
    makeConfig({
      layers: [{ agents: [agent, agent, agent], min_responses: minResponses }, { agents: [agent] }],
    }),
  );
  const cluster = new Cluster(graph.clusters[0]!);
  const [a, b, c] = cluster.node.agents;
  return { cluster, a: a!, b: b!, c: c!, root: graph.root };
}

const completion = (agent: string) => ({
  agent,
  model: "a",
  text: "x",
  logprobs: undefined,
  cut: false,
  tokens: 1,
  sequence: 1,
});

test("a cluster closes when all members have ended and enough have answered", () => {
  const { cluster, a, b, c, root } = makeCluster(1);
  assert.deepEqual(cluster.answered(b, completion(b.id)), { kind: "waits" });
  assert.deepEqual(cluster.answered(root, completion(root.id)), { kind: "waits" });
  assert.deepEqual(cluster.failed(a, new Error("x")), { kind: "waits" });
  assert.ok(cluster.open && cluster.awaits(c) && !cluster.awaits(b));
  assert.deepEqual(cluster.answered(c, completion(c.id)), { kind: "closed", dropped: [] });
  assert.deepEqual(cluster.completions.map(({ agent }) => agent), [b.id, c.id]);
  assert.ok(!cluster.open && !cluster.awaits(c));
});

test("a cluster fails once it cannot reach its minimum, and not before", () => {
  const { cluster, a, b } = makeCluster(2);
  assert.deepEqual(cluster.failed(a, "one"), { kind: "waits" });
  const step = cluster.failed(b, "two");
  assert.ok(step.kind === "failed");
  assert.deepEqual(step.failures.map(({ agent, error }) => [agent.id, error]), [[a.id, "one"], [
    b.id,
    "two",
  ]]);
  assert.deepEqual(cluster.exit([a.id, b.id]), { kind: "waits" });
});

test("an exit drops the members at work, and waits for the minimum first", () => {
  const { cluster, a, b, c } = makeCluster(2);
  cluster.answered(a, completion(a.id));
  assert.deepEqual(cluster.exit([a.id]), { kind: "waits" });
  cluster.answered(c, completion(c.id));
  assert.deepEqual(cluster.unfinished, [b]);
  assert.deepEqual(cluster.exit([a.id, c.id]), { kind: "closed", dropped: [b] });
  assert.deepEqual(cluster.answered(b, completion(b.id)), { kind: "waits" });
  assert.equal(cluster.completions.length, 2);
});

test("an exit keeps the answers that it names, and all of them when it names none that is there", () => {
  for (const [keep, kept] of [[["c"], ["c"]], [["b"], ["a", "c"]], [["c", "a"], ["a", "c"]]]) {
    const { cluster, a, b, c } = makeCluster(1);
    const ids = { a: a.id, b: b.id, c: c.id } as Record<string, string>;
    cluster.answered(a, completion(a.id));
    cluster.answered(c, completion(c.id));
    cluster.exit(keep!.map((name) => ids[name]!));
    assert.deepEqual(cluster.completions.map(({ agent }) => agent), kept!.map((name) => ids[name]!));
    assert.equal(cluster.answers.length, 2);
  }
});
