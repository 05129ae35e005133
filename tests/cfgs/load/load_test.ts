import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fc } from "../../properties.ts";
import { toCanopy } from "../../../cfgs/formats/canopy.ts";
import { effectiveText } from "../../../cfgs/load/effective.ts";
import { loadConfig } from "../../../cfgs/load/load.ts";
import { ConfigError } from "../../../cfgs/load/problems.ts";
import { presetText } from "../../../cfgs/presets/presets.ts";
import { apiKeysOf } from "../../../cfgs/schema/limits.ts";
import { complaints, configText, load } from "../helpers.ts";

const minimal = '{ "models": { "4b": { "model": "x", "engine": "vllm", "workers": ["http://h:1"] } } }';

test("Comments, trailing commas and a byte order mark are fine in JSON", () => {
  const text = `\ufeff// Comment\n${
    minimal.replace('"vllm",', '"vllm", /* here, too */').replace("} }", "}, }")
  }`;
  assert.equal(load(text).config.models["4b"]?.engine, "vllm");
});

test("The same config in YAML and in JSON loads to the same, by extension and by content", () => {
  const yaml = `# Comment
models:
  4b: &base
    model: x
    engine: vllm
    workers: [ "http://h:1" ]
  8b:
    <<: *base
    model: y
graphs:
  moa:
    layers:
      - agents: [ { model: 4b }, { model: 8b } ]
      - agents: [ { model: 8b } ]
`;
  const workers = ["http://h:1"];
  const json = JSON.stringify({
    models: { "4b": { model: "x", engine: "vllm", workers }, "8b": { model: "y", engine: "vllm", workers } },
    graphs: {
      moa: { layers: [{ agents: [{ model: "4b" }, { model: "8b" }] }, { agents: [{ model: "8b" }] }] },
    },
  });
  const expected = load(json).config;
  assert.deepEqual(load(yaml, { path: "canopy.yml" }).config, expected);
  assert.deepEqual(load(yaml, { path: undefined }).config, expected);
  assert.deepEqual(load(json, { path: undefined }).config, expected);
  assert.deepEqual(load(json, { path: "canopy.yaml" }).config, expected);
});

test("What is not well-formed is reported with line and column", () => {
  const cases: [string, string, string][] = [
    [
      "canopy.jsonc",
      '{\n  "models": {\n    "a" "b"\n  }\n}',
      "canopy.jsonc:3:9: a colon was expected after the key",
    ],
    [
      "canopy.jsonc",
      '{\n  "models": {}\n  "graphs": {}\n}',
      "canopy.jsonc:3:3: a comma was expected before this",
    ],
    ["canopy.jsonc", '{"a": 1,\n "a": 2}', 'canopy.jsonc:2:2: the key "a" is given twice'],
    ["canopy.jsonc", "", "canopy.jsonc:1:1: the file is empty"],
    ["canopy.jsonc", '{"__proto__": {}}', 'canopy.jsonc:1:2: "__proto__" cannot be used as a key'],
    ["c.yaml", "a:\n  b: 1\n  b: 2\n", "c.yaml:3:3: this is not valid YAML: Map keys must be unique"],
    ["c.yaml", "a: .inf", "c.yaml:1:4: this value has no counterpart in JSON"],
    ["c.yaml", "a: *b", "c.yaml:1:4: the alias *b names no anchor"],
  ];
  for (const [path, text, expected] of cases) assert.deepEqual(complaints(text, { path }), [expected]);
});

test("Files that would exhaust a parser are refused", () => {
  const deep = "[".repeat(20_000);
  assert.deepEqual(complaints(deep), ["canopy.jsonc:1:201: values are nested deeper than 200 levels"]);
  assert.deepEqual(complaints(`"\n${deep}"`), [
    "canopy.jsonc:2:201: values are nested deeper than 200 levels",
  ]);
  assert.match(
    complaints(`a: ${deep}`, { path: "c.yaml" }).join(),
    /nested (too deeply|deeper than 200 levels)/,
  );
  const laughs = ["a: &a [x, x, x, x, x, x, x, x, x]"];
  for (const [at, name] of [..."bcdefgh"].entries()) {
    laughs.push(`${name}: &${name} [${Array(9).fill(`*${"abcdefg"[at]}`).join(", ")}]`);
  }
  assert.match(complaints(laughs.join("\n"), { path: "c.yaml" }).join(), /more than 200000 values/);
});

test("Wrong values are named with line, path, value and what was expected", () => {
  const text = `{
  "server": { "port": 70000, "log_level": "warn" },
  "models": {
    "4b": {
      "model": "x",
      "engine": "vlm",
      "wrokers": [],
    },
    "8b": {
      "engine": "vllm",
      "workers": ["localhost:8000", { "prefill": "http://h:1" }, 5]
    }
  },
  "prompts": { "p": { "sytem": "x" } },
  "graphs": {
    "moa": {
      "layers": [
        { "agents": [{ "model": "4b" }, { "model": 8 }], "clsters": 3 },
        { "clusters": 0, "sampling": { "temperature": 3 } },
      ]
    },
    "empty": {},
    "dag": { "agents": { "a": { "modle": "4b" } } }
  }
}`;
  assert.deepEqual(complaints(text), [
    "canopy.jsonc:2:23: server.port is 70000: expected at most 65535",
    'canopy.jsonc:2:43: server.log_level is "warn": expected one of "trace", "debug", "info", "warning", "error", ' +
    '"fatal"; did you mean "warning"?',
    'canopy.jsonc:6:17: models.4b.engine is "vlm": expected one of "openai", "vllm", "sglang", "vllm-pd", ' +
    '"sglang-pd", "onnx"; did you mean "vllm"?',
    'canopy.jsonc:7:7: models.4b.wrokers is not a known key; did you mean "workers"?',
    "canopy.jsonc:9:11: models.8b.model is missing: expected a text",
    'canopy.jsonc:11:19: models.8b.workers[0] is "localhost:8000": expected a URL such as http://127.0.0.1:30000',
    "canopy.jsonc:11:37: models.8b.workers[1].decode is missing: expected a URL such as http://127.0.0.1:30000",
    "canopy.jsonc:11:66: models.8b.workers[2] is 5: expected a URL such as http://127.0.0.1:30000, or an object " +
    'with "url", or an object with "prefill" and "decode"',
    'canopy.jsonc:14:23: prompts.p.sytem is not a known key; did you mean "system"?',
    "canopy.jsonc:18:52: graphs.moa.layers[0].agents[1].model is 8: expected a text",
    'canopy.jsonc:18:58: graphs.moa.layers[0].clsters is not a known key; did you mean "clusters"?',
    "canopy.jsonc:19:23: graphs.moa.layers[1].clusters is 0: expected at least 1",
    "canopy.jsonc:19:55: graphs.moa.layers[1].sampling.temperature is 3: expected at most 2",
    "canopy.jsonc:22:14: graphs.empty.layers is missing: expected a list",
    'canopy.jsonc:23:33: graphs.dag.agents.a.modle is not a known key; did you mean "model"?',
  ]);
});

test("A text that breaks a rule of its own is told the rule, not that it should be a text", () => {
  const server = {
    allowed_hosts: ["http://a.b"],
    cors_origins: ["x y"],
    request_id_headers: ["a b"],
    limits: { store: { url: "redis://me:hunter2@here" } },
  };
  const said = complaints(configText({ server, models: { a: { model: "x", engine: "vllm" } } }));
  for (
    const words of [
      /server\.allowed_hosts\[0\] is "http:\/\/a\.b": must be a name or an address without scheme and port/,
      /server\.cors_origins\[0\] is "x y": must be an origin such as/,
      /server\.request_id_headers\[0\] is "a b": must be the name of a header/,
      /server\.limits\.store\.url is "redis:\/\/me:\*\*\*@here": must be redis:\/\/HOST:PORT, .* password_env$/,
    ]
  ) assert.ok(said.some((line) => words.test(line)), `${words} in ${said.join("\n")}`);
});

test("A secret is never shown in an error", () => {
  const text = configText({
    server: { api_keys: [12345], admin_key: "" },
    models: { a: { model: "x", engine: "vllm", api_key: 777, workers: ["ftp://me:hunter2@h"] } },
  });
  const said = complaints(text);
  assert.deepEqual(said, [
    "canopy.jsonc:1:24: server.api_keys[0] is ***: expected a text",
    "canopy.jsonc:1:43: server.admin_key is ***: expected a text that is not empty",
    'canopy.jsonc:1:115: models.a.workers[0] is "ftp://me:***@h": expected a URL such as http://127.0.0.1:30000',
    "canopy.jsonc:1:100: models.a.api_key is ***: expected a text",
  ]);
});

test("A file that is not there, and a preset that is nearly one, are named", () => {
  assert.deepEqual(complaints("", { text: undefined, path: "moa-9-3-2" }), [
    'moa-9-3-2: there is no such file, and no preset has this name; did you mean "moa-9-3-1"? (presets: moa-9-3-1, ' +
    "moa-9-3-1-consensus, moa-9-9-1-dense, single-model-9-3-1, moa-vllm-example, ollama-3-1, embedded-3-1, embedded-9-3-1, " +
    "laboratory, faster-moa, faster-moa-modes, launch-1-gpu, launch-2-gpus-vllm, launch-2-gpus-pd, launch-6-gpus-pd)",
  ]);
  assert.deepEqual(complaints("", { text: undefined, path: undefined }), [
    "the configuration: no configuration was given: name a file or a preset",
  ]);
});

test("A file wins over the preset of the same name", () => {
  const folder = mkdtempSync(join(tmpdir(), "canopy-"));
  try {
    const path = join(folder, "ollama-3-1");
    writeFileSync(path, minimal);
    assert.deepEqual(Object.keys(loadConfig({ path, env: {} }).config.models), ["4b"]);
    assert.equal(loadConfig({ path: "ollama-3-1", env: {} }).source, "preset ollama-3-1");
    assert.match(complaints("", { text: undefined, path: folder }).join(), /this file cannot be read: /);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test("Environment variables set server settings, and anything else with two underscores", () => {
  const env = {
    CANOPY_SERVER_PORT: "9000",
    CANOPY_SERVER_API_KEYS: "one, two",
    CANOPY_SERVER_ADMIN_KEY: "123",
    CANOPY_SCORER_EMBEDDER: "onnx",
    CANOPY_MODELS__4B__MODEL: "42",
    CANOPY_MODELS__4B__WORKERS: '["http://a:1", "http://b:1"]',
    CANOPY_GRAPHS__MY_MOA__LAYERS__0__AGENTS__1__SAMPLING__TEMPERATURE: "0.5",
    CANOPY_GRAPHS__MY_MOA__SAMPLING__STOP: "a,b",
    CANOPY_HOME: "/somewhere",
    CANOPY_SERVER: "x",
    CANOPY_MODELS: "x",
    SERVER_PORT: "1",
  };
  const { config } = load(
    configText({ graphs: { "my-moa": { layers: [{ agents: [{ model: "4b" }, { model: "8b" }] }] } } }),
    { env },
  );
  assert.equal(config.server.port, 9000);
  assert.deepEqual(config.server.api_keys, ["one", "two"]);
  assert.equal(config.server.admin_key, "123");
  assert.equal(config.scorer.embedder, "onnx");
  assert.equal(config.models["4b"]?.model, "42");
  assert.deepEqual(config.models["4b"]?.workers, ["http://a:1", "http://b:1"]);
  const graph = config.graphs["my-moa"];
  assert.ok(graph !== undefined && "layers" in graph);
  assert.deepEqual(graph.layers[0]?.agents?.[1]?.sampling, { temperature: 0.5 });
  assert.deepEqual(graph.sampling, { stop: "a,b" });
});

test("One more worker may be added by index, one beyond may not", () => {
  const { config } = load(minimal, { env: { CANOPY_MODELS__4B__WORKERS__1: "http://b:1" } });
  assert.deepEqual(config.models["4b"]?.workers, ["http://h:1", "http://b:1"]);
  assert.deepEqual(complaints(minimal, { env: { CANOPY_MODELS__4B__WORKERS__7: "http://b:1" } }), [
    "CANOPY_MODELS__4B__WORKERS__7: models.4b.workers[7] cannot be set: the index [7] is beyond the end of the " +
    "list, which has 1 entries",
  ]);
});

test("A model's workers can come from the environment alone", () => {
  const text = '{ "models": { "4b": { "model": "x", "engine": "vllm" } } }';
  const { config } = load(text, { env: { CANOPY_MODELS__4B__WORKERS__0: "http://b:1" } });
  assert.deepEqual(config.models["4b"]?.workers, ["http://b:1"]);
});

test("Flags win over the environment, which wins over the file, and each value knows its origin", () => {
  const text = `{
  "server": { "host": "::1", "port": 1, "max_queued": 5 },
  "models": { "4b": { "model": "x", "engine": "vllm", "workers": ["http://h:1"] } }
}`;
  const loaded = load(text, {
    env: { CANOPY_SERVER_PORT: "2", CANOPY_SERVER_HOST: "0.0.0.0" },
    overrides: [
      { path: "server.port", value: 3, origin: "--port" },
      { path: "models.4b.workers[0]", value: "http://z:9", origin: "--set models.4b.workers[0]" },
    ],
  });
  assert.equal(loaded.config.server.port, 3);
  assert.equal(loaded.config.server.host, "0.0.0.0");
  assert.deepEqual(loaded.provenance(["server", "port"]), { kind: "flag", name: "--port" });
  assert.deepEqual(loaded.provenance(["server", "host"]), { kind: "env", name: "CANOPY_SERVER_HOST" });
  assert.deepEqual(loaded.provenance(["server", "log_level"]), { kind: "default" });
  const location = { file: "canopy.jsonc", line: 2, column: 55 };
  assert.deepEqual(loaded.provenance(["server", "max_queued"]), { kind: "file", location });
  assert.deepEqual(loaded.locate(["server", "max_queued"]), location);
  assert.deepEqual(loaded.locate(["server", "log_level"]), { file: "canopy.jsonc", line: 2, column: 13 });
  assert.equal(loaded.locate(["server", "port"]), undefined);
  assert.deepEqual(loaded.config.models["4b"]?.workers, ["http://z:9"]);
});

test("A wrong value is blamed on the flag or variable that it came from", () => {
  assert.deepEqual(
    complaints(minimal, {
      env: { CANOPY_SERVER_PROT: "1" },
      overrides: [
        { path: "server.port", value: "many", origin: "--port" },
        { path: "a..b", value: "1", origin: "--set" },
        { path: "models.4b.model.x", value: "1", origin: "--set models.4b.model.x" },
        { path: "graphs[0]", value: "1", origin: "--set graphs[0]" },
      ],
    }),
    [
      '--set: "a..b" is not a path such as server.port or graphs.moa.layers[0]',
      '--set models.4b.model.x: models.4b.model.x cannot be set: the key "x" needs an object, and there is "x"',
      '--port: server.port is "many": expected a whole number',
      'CANOPY_SERVER_PROT: server.prot is not a known key; did you mean "port"?',
      "--set graphs[0]: graphs is a list: expected a map of names to values",
    ],
  );
});

test("A key is taken from the environment variable that api_key_env names", () => {
  const text = configText({
    models: {
      a: { model: "x", engine: "openai", workers: ["http://h:1"], api_key_env: "MY_KEY" },
      b: { model: "y", engine: "openai", workers: ["http://h:1"], api_key_env: "MY_OTHER_KEY" },
      c: { model: "z", engine: "openai", workers: ["http://h:1"], api_key: "open", api_key_env: "MY_KEY" },
    },
  });
  const loaded = load(text, { env: { MY_KEY: "secret" } });
  assert.equal(loaded.config.models["c"]?.api_key, "open");
  assert.equal(loaded.config.models["a"]?.api_key, "secret");
  assert.equal(loaded.config.models["b"]?.api_key, undefined);
  assert.deepEqual(loaded.provenance(["models", "a", "api_key"]), { kind: "env", name: "MY_KEY" });
  assert.deepEqual(loaded.warnings.map((warning) => warning.message), [
    "models.b.api_key_env names MY_OTHER_KEY, which is not set: no key will be sent",
    "models.c.api_key_env is not in effect beside api_key: leave one of them out",
  ]);
});

test("The key of limits is taken from its environment variable, shown nowhere, and missed when it is not there", () => {
  const server = {
    api_keys: ["first-secret"],
    admin_key: "boss",
    limits: {
      default: { requests_per_minute: 60 },
      keys: { token: { api_key_env: "ALICE_KEY", tokens_per_minute: 1000, max_concurrent: false } },
    },
  };
  const loaded = load(configText({ server }), { env: { ALICE_KEY: "env-secret" } });
  assert.deepEqual(apiKeysOf(loaded.config.server), ["first-secret", "env-secret"]);
  const said = effectiveText(loaded);
  assert.doesNotMatch(said, /secret/);
  assert.match(said, /server\.limits\.keys\.token\.api_key = "\*\*\*" {2}# ALICE_KEY\n/);
  assert.match(said, /server\.limits\.keys\.token\.tokens_per_minute = 1000 {2}# canopy\.jsonc:1\n/);
  const written = toCanopy(loaded.config);
  assert.doesNotMatch(written, /env-secret/);
  assert.deepEqual(load(written, { env: { ALICE_KEY: "env-secret" } }).config, loaded.config);
  assert.deepEqual(complaints(configText({ server })), [
    "canopy.jsonc:1:137: server.limits.keys.token.api_key_env names ALICE_KEY, which is not set: nobody could use this key",
  ]);
});

test("Whatever is done to a config, the outcome is a config or a list of problems", () => {
  const base: unknown = load(presetText("moa-9-3-1") ?? "").config;
  const spots = [
    ["server", "port"],
    ["models", "4b"],
    ["models", "4b", "workers"],
    ["models", "4b", "workers", 0],
    ["prompts", "x"],
    ["graphs", "moa"],
    ["graphs", "moa", "layers"],
    ["graphs", "moa", "layers", 1],
    ["graphs", "moa", "layers", 1, "agents", 0],
    ["graphs", "moa", "early_exit"],
    ["graphs", "moa", "sampling", "stop"],
  ];
  const value = fc.oneof(
    fc.jsonValue(),
    fc.record({
      layers: fc.jsonValue(),
      agents: fc.jsonValue(),
      url: fc.jsonValue(),
      prefill: fc.jsonValue(),
      text: fc.jsonValue(),
      user: fc.jsonValue(),
      model: fc.jsonValue(),
    }, { requiredKeys: [] }),
  );
  fc.assert(
    fc.property(fc.constantFrom(...spots), value, (spot, given) => {
      const text = JSON.stringify(put(base, spot, given));
      try {
        load(text);
      } catch (error) {
        assert.ok(error instanceof ConfigError, String(error));
        assert.ok(error.problems.length > 0);
        for (const problem of error.problems) {
          assert.equal(problem.line, 1);
          assert.match(problem.message, / (is|cannot) /);
        }
      }
    }),
    { numRuns: 300 },
  );
});

test("Whatever the text is, the outcome is a config or a list of problems", () => {
  const bits = fc.constantFrom(
    "{",
    "}",
    "[",
    "]",
    '"',
    ":",
    ",",
    "\n",
    "models",
    " ",
    "- ",
    "*a",
    "&a",
    "<<",
    "//",
    "1",
  );
  fc.assert(
    fc.property(
      fc.array(bits, { maxLength: 30 }),
      fc.constantFrom("jsonc" as const, "yaml" as const),
      (parts, syntax) => {
        try {
          load(parts.join(""), { syntax });
        } catch (error) {
          assert.ok(error instanceof ConfigError, String(error));
          assert.ok(error.problems.length > 0);
        }
      },
    ),
    { numRuns: 300 },
  );
});

function put(value: unknown, path: readonly (string | number)[], leaf: unknown): unknown {
  const [part, ...rest] = path;
  if (part === undefined) return leaf;
  if (Array.isArray(value)) return value.map((item, at) => at === part ? put(item, rest, leaf) : item);
  const object: Record<string, unknown> = typeof value === "object" ? { ...value } : {};
  object[String(part)] = put(object[String(part)], rest, leaf);
  return object;
}

test("A configuration may be given as a value: undefined is absent, problems name it without lines", () => {
  const model = { model: "x", engine: "vllm", workers: ["http://h:1"], api_key: undefined };
  const given = (value: unknown) => ({ text: undefined, value, path: "the command line" });
  const loaded = load("", given({ server: { max_queued: 5, host: undefined }, models: { a: model } }));
  assert.deepEqual([loaded.source, loaded.format], ["the command line", "canopy"]);
  assert.equal(loaded.config.server.host, "127.0.0.1");
  assert.deepEqual(loaded.provenance(["server", "max_queued"]), { kind: "value", name: "the command line" });
  assert.deepEqual(loaded.provenance(["server", "host"]), { kind: "default" });
  assert.equal(loaded.locate(["server", "max_queued"]), undefined);
  const override = { path: "server.port", value: "7", origin: "--port" };
  assert.equal(load("", { ...given({ models: { a: model } }), overrides: [override] }).config.server.port, 7);
  assert.deepEqual(complaints("", given({ models: { a: { ...model, retries: -1 } } })), [
    "the command line: models.a.retries is -1: expected at least 0",
  ]);
});
