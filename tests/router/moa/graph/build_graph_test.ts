import assert from "node:assert/strict";
import { test } from "node:test";
import { CanopyError } from "../../../../base/errors.ts";
import { buildGraph, buildGraphs } from "../../../../router/moa/graph/build_graph.ts";
import { makeConfig } from "../run_harness.ts";

const agent = { model: "a" };

function refusal(
  graph: unknown,
  prompts?: Record<string, unknown>,
): { param: string | undefined; message: string } {
  try {
    buildGraph("moa", makeConfig(graph, ["a"], prompts));
  } catch (error) {
    assert.ok(CanopyError.is(error));
    assert.deepEqual([error.code, error.status], ["invalid_config", 400]);
    return { param: error.param, message: error.message };
  }
  throw new Error("the graph was built");
}

test("a graph's nodes are linked, and agents with the same prompt share its template", () => {
  const graph = buildGraphs(
    makeConfig({
      layers: [{ clusters: 2, agents: [agent] }, { agents: [agent, agent] }, { agents: [agent] }],
    }),
  ).get("moa")!;
  const [first, second, third] = graph.agents;
  assert.equal(first?.template, second?.template);
  assert.deepEqual(third?.reads, [graph.clusters[0]]);
  assert.deepEqual(graph.clusters[0]?.agents, [first]);
  assert.equal(graph.root, graph.agents.at(-1));
});

test("sampling is merged from model, graph, layer and agent, and unknown parameters are kept", () => {
  const graph = buildGraph(
    "moa",
    makeConfig(
      {
        sampling: { temperature: 0.2, top_p: 0.2, seed: 1, logit_bias: { "5": 1 } },
        layers: [{
          agents: [{ ...agent, sampling: { seed: 3, stop: "END" } }],
          sampling: { seed: 2, top_p: 0.3 },
        }],
      },
      ["a"],
      undefined,
      { sampling: { temperature: 0.1, max_tokens: 9 } },
    ),
  );
  assert.deepEqual(graph.root.sampling, {
    max_tokens: 9,
    temperature: 0.2,
    top_p: 0.3,
    seed: 3,
    stop: ["END"],
    extra: { logit_bias: { "5": 1 } },
  });
});

test("names that do not exist are refused with the place and the names that do", () => {
  assert.deepEqual(refusal({ layers: [{ agents: [{ model: "x" }] }] }), {
    param: "graphs.moa.layers[0].agents[0].model",
    message: 'graphs.moa.layers[0].agents[0].model is "x", which is not one of the models: a',
  });
  assert.match(
    refusal({ layers: [{ agents: [{ model: "a", prompt: "constructor" }] }] }).message,
    /\.prompt is "constructor", which is not one of the prompts: propose, aggregate, synthesize/,
  );
});

test("slots that nobody fills and answers that nobody reads are refused", () => {
  const graph = { layers: [{ agents: [agent] }, { agents: [{ ...agent, prompt: "p" }] }] };
  assert.match(
    refusal(graph, { p: "[responses] <|answer:l1.c1.a2|>" }).message,
    /has a slot <\|answer:l1\.c1\.a2\|> that l2\.c1\.a1 cannot fill: it reads l1\.c1\.a1/,
  );
  assert.match(refusal(graph, { p: "[input_prompts]" }).message, /has no slot for the 1 answers/);
});

test("a template that is no raw prompt is refused under compat", () => {
  const layers = [{ agents: [agent, agent] }, { agents: [agent] }];
  assert.match(refusal({ layers, compat: "moa-vllm" }).message, /must be a raw prompt/);
});

test("a graph of the wrong shape is refused with its first problem", () => {
  const { param, message } = refusal({ layers: [{ agents: [agent, agent] }] });
  assert.equal(param, "graphs.moa.layers[0]");
  assert.match(message, /must have exactly one, the root/);
});
