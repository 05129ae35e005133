import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { checkCommand } from "../../../cli/check/check.ts";
import { runCommand } from "../../../cli/kit/dispatch.ts";
import { fakeIo } from "../fake_io.ts";

async function check(...args: string[]) {
  const io = fakeIo();
  const code = await runCommand([checkCommand], ["check", ...args], io);
  return { code, out: io.out.text, err: io.err.text };
}

/** Runs with a file of this text; its path is replaced by FILE in what is printed. */
async function checkFile(name: string, text: string, ...args: string[]) {
  const folder = mkdtempSync(join(tmpdir(), "canopy-check-"));
  const path = join(folder, name);
  try {
    writeFileSync(path, text);
    const { code, out, err } = await check(path, ...args);
    return { code, out: out.replaceAll(path, "FILE"), err: err.replaceAll(path, "FILE") };
  } finally {
    rmSync(folder, { recursive: true });
  }
}

const GOOD = `{
  "models": { "small": { "model": "org/small", "engine": "vllm", "workers": ["http://127.0.0.1:8001"] } },
  "graphs": { "moa": { "layers": [
    { "agents": [{ "model": "small" }, { "model": "small" }] },
    { "agents": [{ "model": "small" }] }
  ] } }
}`;

test("canopy check says what a good configuration would run", async () => {
  assert.deepEqual(await checkFile("canopy.jsonc", GOOD), {
    code: 0,
    out: `FILE: fine
model small (org/small): vllm, http://127.0.0.1:8001
graph moa: 3 calls for each answer
  l1.c1.a1: small, prompt propose, reads nobody
  l1.c1.a2: small, prompt propose, reads nobody
  l2.c1.a1: small, prompt synthesize, reads l1.c1.a1, l1.c1.a2, root
  incremental prefill: auto
server: 127.0.0.1:8000
`,
    err: "",
  });
});

test("canopy check names file, line, path, value and what was expected, and ends with 1", async () => {
  const bad = GOOD.replace('"vllm"', '"vlm"').replace('"models"', '"server": { "port": "x" },\n  "models"');
  assert.deepEqual(await checkFile("canopy.jsonc", bad), {
    code: 1,
    out: `FILE:2:23: server.port is "x": expected a whole number
FILE:3:58: models.small.engine is "vlm": expected one of "openai", "vllm", "sglang", "vllm-pd", "sglang-pd", "onnx"; did you mean "vllm"?
2 errors
`,
    err: "",
  });
});

test("canopy check finds what has the right shape and makes no sense", async () => {
  const { code, out } = await checkFile(
    "canopy.jsonc",
    GOOD.replace('[{ "model": "small" }]', '[{ "model": "smal" }]'),
  );
  assert.equal(code, 1);
  assert.match(
    out,
    /^FILE:5:\d+: graphs\.moa\.layers\[1\]\.agents\[0\]\.model .*"smal".*did you mean "small"\?\n1 error\n$/,
  );
});

test("canopy check lets flags win over the file, and blames the flag for what is wrong with it", async () => {
  const set = await checkFile(
    "canopy.jsonc",
    GOOD,
    "--effective",
    "--set",
    "server.max_queued=10",
    "--port",
    "9000",
  );
  assert.equal(set.code, 0);
  assert.match(set.out, /^server\.port = 9000 {2}# --port$/m);
  assert.match(set.out, /^server\.max_queued = 10 {2}# --set server\.max_queued$/m);
  assert.match(set.out, /^models\.small\.engine = "vllm" {2}# FILE:2$/m);
  const wrong = await checkFile("canopy.jsonc", GOOD, "--set", "server.port=x");
  assert.deepEqual(wrong, {
    code: 1,
    out: '--set server.port: server.port is "x": expected a whole number\n1 error\n',
    err: "",
  });
});

test("canopy check --json gives the problems to programs", async () => {
  const good = JSON.parse((await checkFile("canopy.jsonc", GOOD, "--json")).out);
  assert.deepEqual(good, { ok: true, file: "FILE", format: "canopy", problems: [] });
  const { code, out } = await checkFile("canopy.jsonc", GOOD.replace('"vllm"', "1"), "--json", "--effective");
  assert.equal(code, 1);
  const bad = JSON.parse(out);
  assert.equal(bad.ok, false);
  assert.equal(bad.problems[0].path, "models.small.engine");
  assert.equal(bad.problems[0].line, 2);
  assert.equal(bad.problems[0].value, 1);
});

test("canopy check --to canopy prints a configuration that is fine and means the same", async () => {
  const moaVllm = JSON.stringify({
    proposer: {
      layer1: {
        "1": { model: "org/a", prompt: "[input_prompts]" },
        "2": { model: "org/b", prompt: "[input_prompts]" },
      },
    },
    aggregator: { layer1: { "1": { model: "org/a", prompt: "[responses] [input_prompts]" } } },
  });
  const converted = await checkFile("configs.json", moaVllm, "--to", "canopy", "--base-port", "8010");
  assert.equal(converted.code, 0);
  const summary = async (name: string, text: string, ...args: string[]) =>
    (await checkFile(name, text, ...args)).out.replace(/^.*: fine$/m, "");
  assert.equal(
    await summary("canopy.jsonc", converted.out),
    await summary("configs.json", moaVllm, "--base-port", "8010"),
  );
  assert.match(converted.out, /http:\/\/localhost:8010|http:\/\/127\.0\.0\.1:8010/);
});

test("what is wrong never gets into the file of a conversion, and one form of output is asked for", async () => {
  for (const form of [["--to", "canopy"], ["--effective"]]) {
    const { code, out, err } = await checkFile("canopy.jsonc", GOOD.replace('"vllm"', "1"), ...form);
    assert.deepEqual([code, out], [1, ""]);
    assert.match(err, /models\.small\.engine is 1.*\n1 error\n$/);
  }
  for (const other of ["--json", "--effective"]) {
    const { code, err } = await checkFile("canopy.jsonc", GOOD, "--to", "canopy", other);
    assert.equal(code, 2);
    assert.match(err, new RegExp(`Options --to and ${other} exclude each other`));
  }
});

test("canopy check --schema prints the JSON Schema", async () => {
  const { code, out } = await check("--schema");
  assert.equal(code, 0);
  const schema = JSON.parse(out);
  assert.equal(schema.type, "object");
  assert.ok("models" in schema.properties);
});

test("canopy check is wrong usage when there is nothing to check", async () => {
  const io = fakeIo({ cwd: "/nonexistent" });
  assert.equal(await runCommand([checkCommand], ["check"], io), 2);
  assert.match(
    io.err.text,
    /^canopy check: No configuration: name a FILE or a preset, put one of canopy\.jsonc, /,
  );
  const missing = await check("no-such-file.jsonc");
  assert.equal(missing.code, 1);
  assert.match(missing.out, /^no-such-file\.jsonc: there is no such file, and no preset has this name/);
  assert.equal((await check("x", "--set", "server.port")).code, 2);
});

test("--base-port is for files that name no ports: elsewhere it is told that nothing follows from it", async () => {
  const { code, err } = await checkFile("canopy.jsonc", GOOD, "--base-port", "9000");
  assert.equal(code, 2);
  assert.match(
    err,
    /Option --base-port is for MoA-vllm's configs\.json: in FILE the workers of each model have/,
  );
});

test("--records and --no-records set what is kept of runs, and exclude each other", async () => {
  const { out } = await checkFile("canopy.jsonc", GOOD, "--effective", "--records", "runs.sqlite");
  assert.match(out, /^server\.records\.file = "runs\.sqlite" +# --records$/m);
  assert.match(out, /^server\.records\.texts = false +# default$/m);
  const none = await checkFile("canopy.jsonc", GOOD, "--effective", "--no-records");
  assert.match(none.out, /^server\.records\.keep = false +# --no-records$/m);
  const both = await checkFile("canopy.jsonc", GOOD, "--records", "runs.sqlite", "--no-records");
  assert.match(both.err, /--records and --no-records exclude each other/);
});

test("--reports names a folder for the page, and one that is not there, or has no page, is told", async () => {
  const { out, code } = await checkFile("canopy.jsonc", GOOD, "--effective", "--reports", ".");
  assert.equal(code, 0);
  assert.match(out, /^server\.reports = "\." +# --reports$/m);
  for (
    const [args, words] of [
      [["--reports", "no/such/folder"], /server\.reports: no\/such\/folder is no folder here yet/],
      [["--reports", ".", "--no-page"], /server\.reports: \. is listed by no page/],
    ] as const
  ) assert.match((await checkFile("canopy.jsonc", GOOD, ...args)).out, words);
});

test("--no-page serves without the page, and is named as where that comes from", async () => {
  const { out } = await checkFile("canopy.jsonc", GOOD, "--effective", "--no-page");
  assert.match(out, /^server\.page = false +# --no-page$/m);
});

test("canopy check says how many threads serve, and refuses more than one for models in this process", async () => {
  const two = await checkFile("canopy.jsonc", GOOD, "--workers", "2");
  assert.match(two.out, /^server: 127\.0\.0\.1:8000, 2 threads$/m);
  const auto = await checkFile("canopy.jsonc", GOOD, "--workers", "auto");
  assert.match(auto.out, /, a thread for each core$/m);
  const none = await checkFile("canopy.jsonc", GOOD, "--workers", "0");
  assert.deepEqual([none.code, /server\.workers/.test(none.out)], [1, true], none.out);
  const onnx = `{ "models": { "tiny": { "model": "org/tiny", "engine": "onnx" } } }`;
  const refused = await checkFile("canopy.jsonc", onnx, "--workers", "2");
  assert.equal(refused.code, 1);
  assert.match(refused.out, /models\.tiny .*server\.workers 1: current value is 2/);
});
