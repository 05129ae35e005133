import assert from "node:assert/strict";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { stringify } from "yaml";
import { toCanopy } from "../../../cfgs/formats/canopy.ts";
import { loadConfig } from "../../../cfgs/load/load.ts";
import { presetNames } from "../../../cfgs/presets/presets.ts";
import { load } from "../helpers.ts";
import { anyCharacter, fc, often } from "../../properties.ts";

const fixtures = join(dirname(fileURLToPath(import.meta.url)), "../../fixtures/cfgs");

const name = fc.string({ minLength: 1, maxLength: 12 }).filter((text) => text !== "__proto__");
const segment = fc.string({
  unit: fc.oneof(
    {
      weight: 10,
      arbitrary: fc.constantFrom(..."abcdefghijklmnopqrstuvwxyzABXYZ0123456789-._~!$&'()*+,;=:@"),
    },
    { weight: 1, arbitrary: anyCharacter.map((character) => encodeURIComponent(character)) },
  ),
});
const url = fc.tuple(fc.constantFrom("http", "https"), fc.webAuthority(), fc.array(segment))
  .map(([scheme, authority, path]) => `${scheme}://${[authority, ...path].join("/")}`);
const optional = <T>(fields: { [K in keyof T]: fc.Arbitrary<T[K]> }) =>
  fc.record(fields, { requiredKeys: [] });
const positive = fc.integer({ min: 1, max: 1_000_000 });
const port = fc.integer({ min: 1, max: 65535 });

const sampling = optional({
  max_tokens: positive,
  temperature: fc.double({ min: 0, max: 2, noNaN: true }),
  top_k: fc.integer({ min: -1, max: 100 }),
  stop: fc.oneof(fc.string(), fc.array(fc.string(), { maxLength: 3 })),
  ignore_eos: fc.boolean(),
});
const worker = fc.oneof(
  url,
  fc.record({ url, api_key: fc.string() }, { requiredKeys: ["url"] }),
  fc.record({ prefill: url, decode: url, bootstrap_port: port }, { requiredKeys: ["prefill", "decode"] }),
);
const model = fc.record({
  model: name,
  engine: fc.constantFrom("openai", "vllm", "sglang", "vllm-pd", "sglang-pd"),
  workers: fc.array(worker, { maxLength: 3 }),
  api_key: fc.string(),
  headers: fc.dictionary(name, fc.string(), { maxKeys: 2 }),
  tokenizer: fc.oneof(fc.string(), fc.constant(false)),
  context_tokens: positive,
  served: fc.boolean(),
  policy: fc.constantFrom("round_robin", "least_load"),
  max_in_flight: fc.constantFrom(256, 1, 7),
  sampling,
  chat_template_arguments: fc.dictionary(name, fc.oneof(fc.boolean(), fc.string()), { maxKeys: 2 }),
  health: optional({ failures: fc.constantFrom(3, 4), interval_ms: positive }),
}, { requiredKeys: ["model", "engine"] });
const responses = optional({ item: fc.string(), separator: fc.string() });
const prompt = fc.oneof(
  fc.string(),
  optional({ system: fc.string(), user: fc.string(), responses }),
  fc.record({ text: fc.string(), responses }, { requiredKeys: ["text"] }),
);
const agentFields = { model: name, prompt: name, sampling, deadline_ms: positive };
const agent = fc.record(agentFields, { requiredKeys: ["model"] });
const agents = fc.array(agent, { minLength: 1, maxLength: 3 });
const rules = {
  min_responses: positive,
  deadline_ms: positive,
  on_deadline: fc.constantFrom("drop", "use_partial"),
  early_exit: optional({
    metric: fc.constantFrom("none", "q", "agreement"),
    tau: fc.double({ min: 0, max: 1, noNaN: true }),
  }),
};
const cluster = fc.record({ agents, ...rules }, { requiredKeys: ["agents"] });
const layer = optional({
  clusters: fc.oneof(fc.integer({ min: 1, max: 5 }), fc.array(cluster, { minLength: 1, maxLength: 2 })),
  agents,
  prompt: name,
  sampling,
  ...rules,
});
const graphRules = {
  ...rules,
  slots: fc.constantFrom("declared", "completion"),
  strip_reasoning: fc.boolean(),
  incremental_prefill: optional({ mode: fc.constantFrom("off", "auto", "on"), chunk_tokens: positive }),
  sampling,
  compat: fc.constant("moa-vllm"),
};
const graph = fc.oneof(
  fc.record({ layers: fc.array(layer, { minLength: 1, maxLength: 3 }), ...graphRules }, {
    requiredKeys: ["layers"],
  }),
  fc.record({
    agents: fc.dictionary(
      name,
      fc.record({ ...agentFields, reads: fc.array(name, { maxLength: 2 }), min_responses: positive }, {
        requiredKeys: ["model"],
      }),
      { maxKeys: 3 },
    ),
    ...graphRules,
  }, { requiredKeys: ["agents"] }),
);
const config = fc.record({
  server: optional({
    host: fc.string(),
    port: fc.constantFrom(8000, 0, 9000),
    api_keys: fc.array(name, { maxLength: 2 }),
    log_level: fc.constantFrom("info", "debug"),
  }),
  models: fc.dictionary(name, model, { maxKeys: 3 }),
  prompts: fc.dictionary(name, prompt, { maxKeys: 3 }),
  graphs: fc.dictionary(name, graph, { maxKeys: 2 }),
  scorer: optional({ embedder: fc.constantFrom("lexical", "onnx"), model: fc.string({ minLength: 1 }) }),
}, { requiredKeys: ["models"] });

test("Any config written as canopy text loads to the same config", () => {
  fc.assert(
    fc.property(config, (given) => {
      const first = load(JSON.stringify(given)).config;
      const text = toCanopy(first);
      assert.deepEqual(load(text).config, first);
      assert.equal(toCanopy(load(text).config), text);
    }),
    { numRuns: often(30) },
  );
});

test("Any config loads from YAML as from JSON", () => {
  fc.assert(
    fc.property(config, (given) => {
      const plain: unknown = JSON.parse(JSON.stringify(given));
      assert.deepEqual(load(stringify(plain), { path: "c.yaml" }).config, load(JSON.stringify(plain)).config);
    }),
    { numRuns: often(20) },
  );
});

test("Presets and the other formats are converted without loss", () => {
  const files = [join(fixtures, "moa_vllm/configs.json"), join(fixtures, "tree/configs_tree.json")];
  for (const path of [...presetNames, ...files]) {
    const { config } = loadConfig({ path, env: {} });
    assert.deepEqual(load(toCanopy(config)).config, config, path);
  }
});

test("What equals a default is not written", () => {
  const text = toCanopy(
    load('{"models":{"a":{"model":"x","engine":"vllm","retries":1,"served":true}}}').config,
  );
  assert.deepEqual(JSON.parse(text), { models: { a: { model: "x", engine: "vllm" } } });
});

test("A key that came from an environment variable is not written, the variable's name is", () => {
  const source = '{"models":{"a":{"model":"x","engine":"openai","api_key_env":"MY_KEY"}}}';
  const { config } = load(source, { env: { MY_KEY: "secret" } });
  const text = toCanopy(config);
  assert.ok(!text.includes("secret"));
  assert.deepEqual(load(text, { env: { MY_KEY: "secret" } }).config, config);
});
