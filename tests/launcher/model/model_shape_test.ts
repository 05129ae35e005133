import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import type { IncomingResponse } from "../../../base/transport.ts";
import { modelShape } from "../../../launcher/model/model_shape.ts";
import { MemoryTransport } from "../../../router/transport/memory.ts";
import { modelConfig } from "../planned.ts";

const { signal } = new AbortController();
const nobody = new MemoryTransport(() => undefined);

interface Answer {
  readonly status?: number;
  readonly headers?: Record<string, string>;
  readonly body?: string;
}

/** A Hub that answers by `METHOD file`; other files are not there. */
function hub(answers: Record<string, Answer>, seen: string[] = []): MemoryTransport {
  return new MemoryTransport(() => (request) => {
    const file = request.url.split("/").at(-1) ?? "";
    seen.push(`${request.method} ${file} ${request.headers["authorization"] ?? ""}`.trim());
    const { status = 200, headers = {}, body = "" } = answers[`${request.method} ${file}`] ??
      { status: 404, headers: { "x-error-code": "EntryNotFound" } };
    const response: IncomingResponse = {
      status,
      headers,
      body: (async function* () {
        yield await Promise.resolve(new TextEncoder().encode(body));
      })(),
    };
    return Promise.resolve(response);
  });
}

const env = { HF_HOME: "/nowhere", HF_ENDPOINT: "http://hub" };
const config = { body: JSON.stringify(modelConfig("Qwen/Qwen3-8B")) };

async function inFolder<T>(files: Record<string, string>, act: (folder: string) => Promise<T>): Promise<T> {
  const folder = mkdtempSync(join(tmpdir(), "canopy-model-"));
  try {
    for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
    return await act(folder);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

test("A folder's index tells the size of the weights, one file its own, and a config alone is counted", async () => {
  const text = config.body;
  const index = JSON.stringify({ metadata: { total_size: 16_381_470_720 }, weight_map: {} });
  const read = (files: Record<string, string>) =>
    inFolder(files, (folder) => modelShape(folder, { transport: nobody, signal, env }));
  assert.equal(
    (await read({ "config.json": text, "model.safetensors.index.json": index })).weightBytes,
    16_381_470_720,
  );
  assert.equal(
    (await read({ "config.json": text, "model.safetensors": "x".repeat(1_000) })).weightBytes,
    1_000,
  );
  const counted = await read({ "config.json": text });
  assert.ok(Math.abs(counted.weightBytes / 16_381_470_720 - 1) < 0.01);
  assert.match(counted.source, /^the folder /);
});

test("32-bit weights are loaded as 16-bit ones", async () => {
  const text = JSON.stringify({ ...modelConfig("Qwen/Qwen3-8B"), torch_dtype: "float32" });
  await inFolder({ "config.json": text, "model.safetensors": "x".repeat(1_000) }, async (folder) => {
    assert.equal((await modelShape(folder, { transport: nobody, signal, env })).weightBytes, 500);
  });
});

test("From the Hub the config, the index and, without one, the size of the one file are read, with the token", async () => {
  const seen: string[] = [];
  const transport = hub({
    "GET config.json": config,
    "HEAD model.safetensors": {
      status: 302,
      headers: { location: "http://cdn/x", "x-linked-size": "1503300328" },
    },
  }, seen);
  const shape = await modelShape("org/name", { transport, signal, env: { ...env, HF_TOKEN: "secret" } });
  assert.equal(shape.weightBytes, 1_503_300_328);
  assert.equal(shape.source, "http://hub");
  assert.deepEqual(seen, [
    "GET config.json Bearer secret",
    "GET model.safetensors.index.json Bearer secret",
    "HEAD model.safetensors Bearer secret",
  ]);
});

test("Without the Hub the models of the presets can be planned, others cannot", async () => {
  const known = await modelShape("Qwen/Qwen3-VL-8B-Instruct", { transport: nobody, signal, env });
  assert.equal(known.source, "known to Canopy");
  await assert.rejects(modelShape("org/name", { transport: nobody, signal, env }), {
    message:
      'Cannot plan "org/name": Request to http://hub/org/name/resolve/main/config.json failed: connect failed; ' +
      "give the folder of its weights as launch.weights, or fetch them first",
  });
  await assert.rejects(
    modelShape("org/name", { transport: nobody, signal, env: { ...env, HF_HUB_OFFLINE: "1" } }),
    {
      message:
        'Cannot plan "org/name": it is not in the cache /nowhere/hub, and HF_HUB_OFFLINE forbids to fetch it; ' +
        "give the folder of its weights as launch.weights, or fetch them first",
    },
  );
});

test("A model that the Hub does not have, and a gated one with and without a token, get their own sentences", async () => {
  const refused = (status: number, code: string, more: Record<string, string> = {}) =>
    modelShape("org/name", {
      transport: hub({ "GET config.json": { status, headers: { "x-error-code": code } } }),
      signal,
      env: { ...env, ...more },
    });
  await assert.rejects(refused(401, "RepoNotFound"), {
    code: "model_not_found",
    message:
      'Cannot plan "org/name": http://hub has no such model that can be seen without HF_TOKEN: check its ' +
      "name, or give the folder of its weights as launch.weights",
  });
  await assert.rejects(refused(404, "RepoNotFound", { HF_TOKEN: "t" }), {
    message:
      'Cannot plan "org/name": http://hub has no such model: check its name, or give the folder of its ' +
      "weights as launch.weights",
  });
  await assert.rejects(refused(401, "GatedRepo"), {
    code: "model_gated",
    message:
      'Cannot plan "org/name": its authors give access on request, and HF_TOKEN is not set: ask for access ' +
      "on http://hub/org/name, and set HF_TOKEN to a token of your account",
  });
  await assert.rejects(refused(403, "GatedRepo", { HF_TOKEN: "t" }), {
    message:
      'Cannot plan "org/name": its authors give access on request, and the token in HF_TOKEN has no access to ' +
      "it: ask for access on http://hub/org/name, and set HF_TOKEN to a token of your account",
  });
  await assert.rejects(modelShape("not a model", { transport: nobody, signal, env }), {
    message:
      'Cannot plan "not a model": it is neither a folder nor a Hub id; give the folder of its weights as ' +
      "launch.weights, or fetch them first",
  });
});

test("A repository without a config, and one of another kind of model, are named", async () => {
  await assert.rejects(modelShape("org/name", { transport: hub({}), signal, env }), {
    message:
      'Cannot plan "org/name": http://hub has no config.json for it: give the Hub id or the folder of a model ' +
      "with safetensors weights",
  });
  const transport = hub({ "GET config.json": { body: '{"model_type":"whisper"}' } });
  await assert.rejects(modelShape("org/name", { transport, signal, env }), {
    message:
      'Cannot plan "org/name": its config.json (http://hub) does not have the sizes of a language model, such ' +
      "as num_hidden_layers: start this engine yourself and name it under `workers`",
  });
});
