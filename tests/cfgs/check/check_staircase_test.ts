import assert from "node:assert/strict";
import { test } from "node:test";
import { summaryText } from "../../../cfgs/check/summary.ts";
import { complaints, configText, load } from "../helpers.ts";

const layers = [{ agents: [{ model: "4b" }, { model: "8b" }] }, { agents: [{ model: "8b" }] }];
const vllm = (more: Record<string, unknown> = {}) => ({
  model: "x",
  engine: "vllm",
  workers: ["http://127.0.0.1:8000"],
  ...more,
});

const plain = { "4b": vllm({ model: "a" }), "8b": vllm({ model: "b", workers: ["http://127.0.0.1:8001"] }) };

/** What is complained of a graph with such settings. */
function said(graph: Record<string, unknown>, models: Record<string, unknown> = plain): string[] {
  return complaints(configText({ graphs: { moa: { layers, ...graph } }, models }))
    .map((line) => line.replace(/^(canopy\.jsonc:\d+:\d+|warning): /, ""));
}

test("a staircase is never combined with early exit, nor with MoA-vllm's prompts: loading says so, and what to do", () => {
  const remedy = "take one of the two out, or make it a graph of its own";
  const dropped =
    `graphs.moa.root is "staircase", but an early_exit may drop agents whose words the root has ` +
    `begun on: ${remedy}`;
  const root = "staircase";
  assert.deepEqual(said({ root, early_exit: { metric: "answer" } }), [dropped]);
  assert.deepEqual(
    said({ root, layers: [{ ...layers[0], early_exit: { metric: "agreement" } }, layers[1]] }),
    [dropped],
  );
  assert.deepEqual(said({ root, early_exit: { scope: "run" } }), [
    `graphs.moa.root is "staircase", but early_exit of scope "run" may answer with another agent's text when the ` +
    `root has begun already: ${remedy}`,
  ]);
  const raw = { p: { text: "[input_prompts]" }, a: { text: "[input_prompts] [responses]" } };
  const compat = {
    root,
    compat: "moa-vllm",
    layers: [{ ...layers[0], prompt: "p" }, { ...layers[1], prompt: "a" }],
  };
  assert.match(
    complaints(configText({ graphs: { moa: compat }, prompts: raw })).join("\n"),
    /graphs\.moa\.root is "staircase", but compat "moa-vllm" fills prompts as a whole/,
  );
});

test("a staircase that cannot be in effect for a model, and steps that nothing looks at, are warned of", () => {
  assert.deepEqual(said({ root: "staircase" }), []);
  const models = { "4b": vllm(), "8b": vllm({ engine: "openai" }) };
  assert.deepEqual(said({ root: "staircase" }, models), [
    'graphs.moa.root is "staircase", but not in effect for agents of "8b", which wait for their precursors: the ' +
    'engine "openai" takes no token ids',
  ]);
  assert.deepEqual(said({ root: "staircase", staircase: { write_tokens: 100 } }), [
    "graphs.moa.staircase.write_tokens is more than ahead_tokens (64): no step writes so many",
  ]);
  assert.deepEqual(said({ staircase: { steps: 2 } }), [
    'graphs.moa.staircase has no effect unless root is "staircase", here or in a request\'s canopy.root',
  ]);
  assert.deepEqual(said({ root: "staircase", effort: { low: { early_exit: { metric: "answer" } } } }), [
    'graphs.moa.effort.low.early_exit makes the root wait at this level, though root is "staircase": an early_exit ' +
    "may drop agents whose words the root has begun on",
  ]);
  assert.deepEqual(said({}), []);
});

test("the summary of a configuration has the staircase and who waits", () => {
  const text = (graph: Record<string, unknown>, models: Record<string, unknown> = plain) =>
    summaryText(load(configText({ graphs: { moa: { layers, ...graph } }, models })).config);
  assert.match(
    text({ root: "staircase" }),
    / {2}root: staircase: it starts on the first 32 tokens of those that it reads, in at most 4 steps of 16 tokens, 64 ahead\n/,
  );
  const models = { "4b": vllm(), "8b": vllm({ tokenizer: false }) };
  assert.match(
    text({ root: "staircase", staircase: { climbs: "all" } }, models),
    /it and all agents that read others start .*; not 8b: models\.8b\.tokenizer is false\n/,
  );
  assert.ok(!text({}).includes("staircase"));
});
