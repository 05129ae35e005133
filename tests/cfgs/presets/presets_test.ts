import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { loadCheckedConfig } from "../../../cfgs/load/load.ts";
import { presetNames, presetText } from "../../../cfgs/presets/presets.ts";
import { expandGraph } from "../../../cfgs/topology/expand_graph.ts";

const folder = join(dirname(fileURLToPath(import.meta.url)), "../../../cfgs/presets");

test("The presets are the files in their folder", () => {
  const files = readdirSync(folder).filter((file) => file.endsWith(".jsonc")).map((file) =>
    file.replace(/\.jsonc$/, "")
  ).sort();
  assert.deepEqual([...presetNames].sort(), files);
  for (const name of presetNames) {
    assert.equal(presetText(name), readFileSync(join(folder, `${name}.jsonc`), "utf8"));
  }
  assert.equal(presetText("toString"), undefined);
});

test("Every preset loads and checks without a word", () => {
  for (const name of presetNames) {
    const loaded = loadCheckedConfig({ path: name, env: {} });
    assert.deepEqual(loaded.warnings, [], name);
    assert.equal(loaded.format, "canopy");
    assert.equal(loaded.source, `preset ${name}`);
  }
});

test("Every preset has the calls that its name promises", () => {
  const layersOf = (preset: string, graph: string) => {
    const config = loadCheckedConfig({ path: preset, env: {} }).config.graphs[graph];
    assert.ok(config !== undefined);
    const { graph: expanded } = expandGraph(config, ["graphs", graph]);
    const counts = new Map<string, number>();
    for (const { id } of expanded?.agents ?? []) {
      const layer = id.split(".")[0]!;
      counts.set(layer, (counts.get(layer) ?? 0) + 1);
    }
    return [...counts.values()].join("-");
  };
  assert.equal(layersOf("moa-9-3-1", "moa"), "9-3-1");
  assert.equal(layersOf("moa-9-3-1-consensus", "moa"), "9-3-1");
  assert.equal(layersOf("moa-9-9-1-dense", "moa-dense"), "9-9-1");
  assert.equal(layersOf("single-model-9-3-1", "moa"), "9-3-1");
  assert.equal(layersOf("moa-vllm-example", "moa"), "3-3-1");
  assert.equal(layersOf("ollama-3-1", "moa"), "3-1");
  assert.equal(layersOf("embedded-3-1", "moa"), "3-1");
  assert.equal(layersOf("embedded-9-3-1", "moa"), "9-3-1");
  assert.equal(layersOf("laboratory", "moa"), "9-3-1");
  const modes = ["1-dense", "2-tree", "3-overlap", "4-exit"].map((graph) =>
    layersOf("faster-moa-modes", graph)
  );
  assert.deepEqual(modes, ["9-9-1", "9-3-1", "9-3-1", "9-3-1"]);
  for (
    const name of ["faster-moa", "launch-1-gpu", "launch-2-gpus-vllm", "launch-2-gpus-pd", "launch-6-gpus-pd"]
  ) {
    assert.equal(layersOf(name, "moa"), "9-3-1", name);
  }
});
