import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { SystemClock } from "../../../base/clock.ts";
import { runCommand } from "../../../cli/kit/dispatch.ts";
import { modelsCommand } from "../../../cli/models/models.ts";
import { systemTransport } from "../../../router/transport/system.ts";
import { fakeIo } from "../fake_io.ts";
import { COMMIT, FakeHub } from "../../ml/hub/fake_hub.ts";

const content = (text: string, large = false) => ({ content: new TextEncoder().encode(text), large });

test("models pull fetches the files, shows how far it is, and prints where the model is", async () => {
  const cache = await mkdtemp(join(tmpdir(), "canopy-models-"));
  const hub = await FakeHub.start({
    files: { "tokenizer.json": content("{}"), "onnx/model_int8.onnx": content("x".repeat(5_000), true) },
  });
  const transport = systemTransport();
  const pull = async (...args: string[]) => {
    const env = { HF_HOME: cache, HF_ENDPOINT: hub.endpoint };
    const io = fakeIo({ transport, env, clock: new SystemClock() });
    return {
      code: await runCommand([modelsCommand], ["models", ...args], io),
      out: io.out.text,
      err: io.err.text,
    };
  };
  try {
    const path = join(cache, "hub", "models--acme--model", "snapshots", COMMIT, "onnx", "model_int8.onnx");
    const first = await pull("pull", "acme/model");
    assert.deepEqual([first.code, first.out], [0, `${path}\n`]);
    assert.match(first.err, /2\/2 onnx\/model_int8\.onnx: 5 kB of 5 kB, 100 %/);
    assert.match(first.err, /acme\/model is here: 2 of 2 files fetched/);
    assert.match((await pull("pull", "acme/model")).err, /acme\/model was here already/);
    const other = await pull("pull", "acme/model", "--file", "onnx/model_q4.onnx");
    assert.equal(other.code, 1);
    assert.match(other.err, /acme\/model has no file onnx\/model_q4\.onnx: there are onnx\/model_int8\.onnx/);
    const wrong = await pull("pull", "../etc");
    assert.equal(wrong.code, 2);
    assert.match(wrong.err, /MODEL must be a Hub id/);
    const unknown = await pull("pul");
    assert.equal(unknown.code, 2);
    assert.match(unknown.err, /Unknown command pul: did you mean pull\?/);
    assert.match((await pull("--help")).out, /canopy models COMMAND/);
    assert.match((await pull("pull", "--help")).out, /onnx-community\/Qwen3-Embedding-0\.6B-ONNX/);
  } finally {
    await hub.close();
    await transport.close();
    await rm(cache, { recursive: true });
  }
});
