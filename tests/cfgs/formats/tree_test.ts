import assert from "node:assert/strict";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { loadCheckedConfig, loadConfig } from "../../../cfgs/load/load.ts";
import { expandGraph } from "../../../cfgs/topology/expand_graph.ts";
import { complaints } from "../helpers.ts";

const file = join(dirname(fileURLToPath(import.meta.url)), "../../fixtures/cfgs/tree/configs_tree.json");
const agent = { model: "m", prompt: "[responses] [input_prompts]" };

test("A 9-3-1 tree with named clusters is read as a tree", () => {
  const { config, format, warnings } = loadCheckedConfig({ path: file, env: {} });
  assert.equal(format, "tree");
  assert.deepEqual(warnings, []);
  const { graph, problems } = expandGraph(config.graphs["moa"]!, ["graphs", "moa"]);
  assert.deepEqual(problems, []);
  assert.deepEqual(
    graph?.agents.map((agent) => [agent.id, agent.reads.join()]),
    [
      ...[1, 2, 3].flatMap((cluster) => [1, 2, 3].map((n) => [`l1.c${cluster}.a${n}`, ""])),
      ["l2.c1.a1", "l1.c1"],
      ["l2.c1.a2", "l1.c2"],
      ["l2.c1.a3", "l1.c3"],
      ["l3.c1.a1", "l2.c1"],
    ],
  );
  assert.deepEqual(
    Object.values(config.models).flatMap((model) => model.workers),
    ["http://localhost:8010", "http://localhost:8011", "http://localhost:8012"],
  );
});

test("A layer without the cluster level is one cluster", () => {
  const text = JSON.stringify({
    proposer: {
      layer1: { c1: { "1": agent, "2": agent }, c2: { "1": agent } },
      layer2: { "1": agent, "2": agent },
    },
    aggregator: { layer1: { "1": agent } },
  });
  const loaded = loadConfig({ text, env: {} });
  assert.equal(loaded.format, "tree");
  const { graph } = expandGraph(loaded.config.graphs["moa"]!, []);
  assert.deepEqual(graph?.clusters.map((cluster) => [cluster.id, cluster.agents.length]), [
    ["l1.c1", 2],
    ["l1.c2", 1],
    ["l2.c1", 2],
  ]);
});

test("Clusters that do not fit the next layer are named by their place in the file", () => {
  const text = JSON.stringify(
    {
      proposer: {
        layer1: { c1: { "1": agent }, c2: { "1": agent } },
        layer2: { c1: { "1": agent, "2": agent, "3": agent } },
      },
      aggregator: { layer1: { c1: { "1": agent } } },
    },
    null,
    2,
  );
  const said = complaints(text, { path: "configs_tree.json" });
  assert.equal(said.length, 1);
  assert.match(
    said[0]!,
    /^configs_tree\.json:\d+:\d+: graphs\.moa\.layers\[1\] has 3 agents but layer 1 has 2 clusters/,
  );
  const line = Number(/json:(\d+)/.exec(said[0]!)?.[1]);
  assert.match(text.split("\n")[line - 1]!, /"layer2"/);
});
