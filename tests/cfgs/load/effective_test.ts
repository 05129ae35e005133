import assert from "node:assert/strict";
import { test } from "node:test";
import { summaryText } from "../../../cfgs/check/summary.ts";
import { effectiveText } from "../../../cfgs/load/effective.ts";
import { load } from "../helpers.ts";

const text = `{
  "server": { "api_keys": ["client-secret"] },
  "models": {
    "a.b": {
      "model": "x",
      "engine": "openai",
      "workers": ["https://me:url-secret@h/v1", { "url": "http://h:1", "api_key": "worker-secret" }],
      "api_key_env": "MY_KEY",
      "headers": { "X-Api-Key": "header-secret", "X-Team": "blue" }
    }
  },
  "graphs": { "moa": { "layers": [{ "agents": [{ "model": "a.b" }] }], "sampling": { "max_tokens": 7 } } },
  "scorer": { "embedder": "http", "api_key": "scorer-secret" }
}`;

test("The effective config says where each value came from, and keeps every secret", () => {
  const said = effectiveText(load(text, {
    env: { MY_KEY: "env-secret", CANOPY_SERVER_ADMIN_KEY: "admin-secret" },
    overrides: [{ path: "server.port", value: 9000, origin: "--port" }],
  }));
  assert.ok(!said.includes("secret"), said);
  const lines = said.trimEnd().split("\n");
  for (
    const line of [
      'server.host = "127.0.0.1"  # default',
      "server.port = 9000  # --port",
      'server.api_keys[0] = "***"  # canopy.jsonc:2',
      'server.admin_key = "***"  # CANOPY_SERVER_ADMIN_KEY',
      'models["a.b"].workers[0] = "https://me:***@h/v1"  # canopy.jsonc:7',
      'models["a.b"].workers[1].url = "http://h:1"  # canopy.jsonc:7',
      'models["a.b"].workers[1].api_key = "***"  # canopy.jsonc:7',
      'models["a.b"].api_key = "***"  # MY_KEY',
      'models["a.b"].headers.X-Api-Key = "***"  # canopy.jsonc:9',
      'models["a.b"].headers.X-Team = "blue"  # canopy.jsonc:9',
      'models["a.b"].chat_template_arguments = {}  # default',
      "graphs.moa.sampling.max_tokens = 7  # canopy.jsonc:12",
      'graphs.moa.incremental_prefill.mode = "auto"  # default',
      'scorer.api_key = "***"  # canopy.jsonc:13',
    ]
  ) assert.ok(lines.includes(line), `${line}\nis not in\n${said}`);
});

test("Headers that carry a key are secrets, however they call it", () => {
  const model = {
    model: "x",
    engine: "openai",
    workers: ["http://h:1"],
    headers: { "Ocp-Apim-Subscription-Key": "azure-secret", "X-Auth": "x-secret", "X-Team": "blue" },
  };
  const tracing = { otlp_endpoint: "https://c", headers: { "x-honeycomb-team": "trace-secret" } };
  const said = effectiveText(load(JSON.stringify({ server: { tracing }, models: { headers: model } })));
  assert.ok(!said.includes("secret"), said);
  assert.match(said, /headers\.X-Team = "blue"/);
  assert.match(said, /models\.headers\.model = "x"/);
});

test("The summary names models, workers, agents and what they read", () => {
  const layers = '[{"clusters":2,"agents":[{"model":"a"}]},{"agents":[{"model":"a"}]}]';
  const config = load(
    `{"models":{"a":{"model":"x","engine":"vllm","workers":["http://u:p@h:1"]}},"graphs":{"moa":{"layers":${layers}}}}`,
  ).config;
  assert.equal(
    summaryText(config),
    `model a (x): vllm, http://u:***@h:1
graph moa: 3 calls for each answer
  l1.c1.a1: a, prompt propose, reads nobody
  l1.c2.a1: a, prompt propose, reads nobody
  l2.c1.a1: a, prompt synthesize, reads l1.c1.a1, l1.c2.a1, root
  incremental prefill: auto
`,
  );
});

test("The summary says on which models one falls back", () => {
  const model = { model: "x", engine: "vllm", workers: ["http://h:1"] };
  const { config } = load(JSON.stringify({ models: { a: { ...model, fallback: ["b"] }, b: model } }));
  assert.equal(summaryText(config).split("\n")[0], "model a (x): vllm, http://h:1; falls back on b");
});

test("The summary says what runs in this process, which clusters may exit early, and what is prefilled early", () => {
  const agent = { model: "a" };
  const graph = {
    layers: [{ agents: [agent, agent, agent], early_exit: { metric: "answer" } }, { agents: [agent] }],
    incremental_prefill: { mode: "on" },
  };
  const config = load(JSON.stringify({
    models: { a: { model: "x", engine: "onnx" } },
    graphs: { moa: graph },
  })).config;
  const said = summaryText(config).split("\n");
  assert.equal(said[0], "model a (x): onnx, in this process");
  assert.deepEqual(said.slice(-3), [
    "  l1.c1: may exit early, metric answer, from 2 of 3 answers on",
    "  incremental prefill: on",
    "",
  ]);
});

test("The summary says of a graph whose prompts are not prefilled ahead that it is off, of a model why, and whose answers begin anew", () => {
  const summary = (graph: Record<string, unknown>, model: Record<string, unknown> = {}) =>
    summaryText(
      load(JSON.stringify({
        models: { a: { model: "x", engine: "vllm", workers: ["http://h:1"], ...model } },
        graphs: { moa: { layers: [{ agents: [{ model: "a" }] }, { agents: [{ model: "a" }] }], ...graph } },
      })).config,
    ).split(/\n(?= {2}incremental)/).at(-1)!.trimEnd();
  assert.equal(summary({ incremental_prefill: false }), "  incremental prefill: off");
  assert.equal(
    summary({}, { tokenizer: false }),
    "  incremental prefill: auto, not for a: models.a.tokenizer is false\n" +
      "  answers that break off begin anew: a (models.a.tokenizer is false)",
  );
  assert.equal(
    summary({ incremental_prefill: false }, { engine: "openai" }),
    "  incremental prefill: off\n" +
      '  answers that break off begin anew: a (the engine "openai" takes no token ids)',
  );
});
