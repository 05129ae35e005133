import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { loadCheckedConfig, loadConfig } from "../../../cfgs/load/load.ts";
import type { Config } from "../../../cfgs/schema/config.ts";
import { expandGraph } from "../../../cfgs/topology/expand_graph.ts";
import { complaints } from "../helpers.ts";

const fixtures = join(dirname(fileURLToPath(import.meta.url)), "../../fixtures/cfgs");
const example = join(fixtures, "moa_vllm/configs.json");

const agent = { model: "m", prompt: "Q: [input_prompts] R: [responses]" };
const aggregator = { layer1: { "1": agent } };

/** Model and prompt of each agent, layer by layer. */
function agentsOf(config: Config): string[][] {
  const graph = config.graphs["moa"];
  assert.ok(graph !== undefined && "layers" in graph);
  return graph.layers.map((layer) => (layer.agents ?? []).map((agent) => agent.model));
}

test("The example of MoA-vllm's README is read as it is", () => {
  const { config, warnings, format } = loadCheckedConfig({ path: example, env: {} });
  assert.equal(format, "moa-vllm");
  assert.deepEqual(warnings, []);
  const aggregator = "deepseek-ai/DeepSeek-R1-0528-Qwen3-8B";
  const proposer = "Qwen/Qwen3-8B";
  assert.deepEqual(agentsOf(config), [Array(3).fill(proposer), Array(3).fill(proposer), [aggregator]]);
  assert.deepEqual(Object.keys(config.models), [proposer, aggregator]);
  assert.deepEqual(config.models[proposer]?.workers, ["http://localhost:8010"]);
  assert.deepEqual(config.models[aggregator]?.workers, ["http://localhost:8011"]);
  for (const model of Object.values(config.models)) {
    assert.equal(model.engine, "vllm");
    assert.equal(model.api_key, "EMPTY");
    assert.equal(model.tokenizer, false);
  }
  const graph = config.graphs["moa"];
  assert.ok(graph !== undefined);
  assert.equal(graph.compat, "moa-vllm");
  assert.equal(graph.strip_reasoning, false);
  const expanded = expandGraph(graph, ["graphs", "moa"]).graph;
  assert.deepEqual(expanded?.agents.map((agent) => agent.reads), [[], [], [], ...Array(3).fill(["l1.c1"]), [
    "l2.c1",
  ]]);
  const source: unknown = JSON.parse(readFileSync(example, "utf8"));
  const texts = JSON.stringify(source);
  for (const agent of expanded?.agents ?? []) {
    const prompt = config.prompts[agent.config.prompt];
    assert.ok(typeof prompt === "object" && "text" in prompt);
    assert.ok(texts.includes(JSON.stringify(prompt.text)));
    assert.deepEqual(prompt.responses, { item: "[answer]", separator: "" });
    assert.deepEqual(agent.config.sampling, {
      temperature: 0.7,
      top_p: 0.9,
      max_tokens: 2048,
      repetition_penalty: 1.1,
    });
  }
});

test("The preset moa-vllm-example is MoA-vllm's README example", () => {
  const canopy = loadConfig({ path: "moa-vllm-example", env: {} }).config;
  const original = loadConfig({ path: example, env: {} }).config;
  assert.deepEqual(canopy.models, original.models);
  assert.deepEqual(canopy.prompts, original.prompts);
  const expand = (config: Config) => {
    const graph = expandGraph(config.graphs["moa"]!, ["graphs", "moa"]).graph;
    return {
      ...graph,
      agents: graph?.agents.map((agent) => ({ ...agent, path: [] })),
      clusters: graph?.clusters.map((cluster) => ({ ...cluster, path: [] })),
    };
  };
  assert.deepEqual(expand(canopy), expand(original));
});

test("Ports come from model2port.json beside the file, or from --base-port, which wins", () => {
  const path = join(fixtures, "moa_vllm_ports/configs.json");
  const ports = (basePort?: number) =>
    Object.values(loadConfig({ path, env: {}, basePort }).config.models).flatMap((model) => model.workers);
  assert.deepEqual(ports(), ["http://localhost:9101", "http://localhost:9100"]);
  assert.deepEqual(ports(8000), ["http://localhost:8000", "http://localhost:8001"]);
  const text = JSON.stringify({ proposer: { l: { "1": { ...agent, model: "other" } } }, aggregator });
  assert.deepEqual(complaints(text, { path }), [
    `${path}:1:1: model2port.json has no port for the model "other": add one, or give --base-port`,
    `${path}:1:1: model2port.json has no port for the model "m": add one, or give --base-port`,
  ]);
});

test("Layers and agents are taken in the order of the file, as Python does, whatever their names", () => {
  const text = `{
    "aggregator": { "z": { "1": { "model": "last", "prompt": "x" } } },
    "proposer": {
      "10": { "2": { "model": "a", "prompt": "x" }, "1": { "model": "b", "prompt": "x" } },
      "2": { "b": { "model": "c", "prompt": "x" }, "10": { "model": "d", "prompt": "x" }, "9": { "model": "e", "prompt": "x" } }
    }
  }`;
  const { config } = loadConfig({ text, env: {} });
  assert.deepEqual(agentsOf(config), [["a", "b"], ["c", "d", "e"], ["last"]]);
  const ports = ["a", "b", "c", "d", "e", "last"].map((name) => config.models[name]?.workers[0]);
  assert.deepEqual(ports, [8010, 8011, 8012, 8013, 8014, 8015].map((port) => `http://localhost:${port}`));
});

test("Missing parameters get MoA-vllm's defaults, and equal prompts share one entry", () => {
  const text = JSON.stringify({
    proposer: { a: { "1": agent, "2": { ...agent, prompt: "P" } } },
    aggregator,
  });
  const { config } = loadConfig({ text, env: {} });
  const graph = config.graphs["moa"];
  assert.ok(graph !== undefined && "layers" in graph);
  const sampling = { temperature: 0.7, top_p: 0.9, max_tokens: 1024, repetition_penalty: 1.1 };
  assert.deepEqual(graph.layers.map((layer) => layer.agents), [
    [{ model: "m", prompt: "proposer", sampling }, { model: "m", prompt: "proposer-2", sampling }],
    [{ model: "m", prompt: "proposer", sampling }],
  ]);
});

test("Spellings of earlier versions are read with a warning", () => {
  const old = { model: "m", prompt: "On {responses}: {input_prompts}", max_output_tokens: 99 };
  const mixed = { model: "m", prompt: "[input_prompts] {responses}" };
  const text = JSON.stringify({
    show_intermediate_results: true,
    proposer: { layer1: { "1": old, "2": mixed } },
    aggregator: { layer1: { "1": { ...agent, top_k: 5 } } },
  });
  assert.deepEqual(complaints(text), [
    "warning: proposer.layer1.1.max_output_tokens is MoA-vllm's older spelling of max_tokens",
    "warning: proposer.layer1.1.prompt uses MoA-vllm's older marks {input_prompts} and {responses}: they are read as " +
    "[input_prompts] and [responses]",
    "warning: aggregator.layer1.1.top_k is ignored: MoA-vllm does not use it",
    "warning: show_intermediate_results is ignored: ask with `canopy chat --show` to see what each agent said",
  ]);
  const { config } = loadConfig({ text, env: {} });
  assert.deepEqual(config.prompts["proposer"], {
    text: "On [responses]: [input_prompts]",
    responses: { item: "[answer]", separator: "" },
  });
  assert.equal(
    Object.values(config.prompts).some((prompt) => JSON.stringify(prompt).includes("{responses}")),
    true,
  );
  const graph = config.graphs["moa"];
  assert.ok(graph !== undefined && "layers" in graph);
  assert.equal(graph.layers[0]?.agents?.[0]?.sampling?.max_tokens, 99);
});

test("What is wrong is named by its place in MoA-vllm's file", () => {
  const text = `{
  "proposer": {
    "layer1": { "1": { "model": "m" }, "2": { "model": "m", "prompt": "x", "temperature": "hot" } },
    "layer2": {},
    "layer3": { "1": "m" }
  }
}`;
  assert.deepEqual(
    complaints(text, { path: "configs.json" }),
    [
      "configs.json:3:22: proposer.layer1.1.prompt is missing: expected a text",
      'configs.json:3:91: proposer.layer1.2.temperature is "hot": expected a number',
      "configs.json:4:15: proposer.layer2 is an empty object: expected an object with the layer's agents",
      'configs.json:5:22: proposer.layer3.1 is "m": expected an object with "model" and "prompt"',
      "configs.json:1:1: aggregator is missing: expected an object with the stage's layers",
    ],
  );
});

test("The texts of several last agents are joined, as MoA-vllm does", () => {
  const text = JSON.stringify({
    proposer: { a: { "1": agent } },
    aggregator: { b: { "1": agent, "2": agent } },
  });
  const { config, warnings } = loadCheckedConfig({ text, env: {} });
  assert.deepEqual(warnings, []);
  const { graph } = expandGraph(config.graphs["moa"]!, []);
  assert.deepEqual([graph?.joined?.agents, graph?.joined?.minResponses], [["l2.c1.a1", "l2.c1.a2"], 2]);
});

test("Values know the line of MoA-vllm's file that they came from", () => {
  const loaded = loadConfig({ path: example, env: {} });
  const line = (path: (string | number)[]) => {
    const from = loaded.provenance(path);
    return from.kind === "file" ? from.location.line : from.kind;
  };
  assert.equal(line(["graphs", "moa", "layers", 0, "agents", 1, "model"]), 12);
  assert.equal(line(["graphs", "moa", "layers", 2, "agents", 0, "sampling", "max_tokens"]), 57);
  assert.equal(line(["prompts", "aggregator", "text"]), 54);
  assert.equal(line(["graphs", "moa", "layers", 2, "agents", 0, "sampling", "repetition_penalty"]), "format");
  assert.equal(line(["models", "Qwen/Qwen3-8B", "engine"]), "format");
  assert.equal(line(["models", "Qwen/Qwen3-8B", "retries"]), "default");
});
