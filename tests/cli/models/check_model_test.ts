import assert from "node:assert/strict";
import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { SystemClock } from "../../../base/clock.ts";
import { modelsCommand } from "../../../cli/models/models.ts";
import { runCommand } from "../../../cli/kit/dispatch.ts";
import { tinyFiles } from "../../embedded/tiny_model.ts";
import { modelFolder } from "../../scorer/onnx/onnx_reference.ts";
import { fakeIo } from "../fake_io.ts";

async function models(...args: string[]) {
  const io = fakeIo({ clock: new SystemClock() });
  const code = await runCommand([modelsCommand], ["models", ...args], io);
  return { code, out: io.out.text, err: io.err.text };
}

async function inFolder(files: Readonly<Record<string, string>>, use: (folder: string) => Promise<void>) {
  const folder = await mkdtemp(join(tmpdir(), "canopy-check-"));
  try {
    for (const [name, from] of Object.entries(files)) {
      await mkdir(dirname(join(folder, name)), { recursive: true });
      await cp(from, join(folder, name));
    }
    await use(folder);
  } finally {
    await rm(folder, { recursive: true });
  }
}

const embedding = Object.fromEntries(
  ["tokenizer.json", "model_kv_int8.onnx", "model.onnx", "model.onnx_data"].map((
    name,
  ) => [name, join(modelFolder, name)]),
);

test("an embedding model in 8 bits is compared with floats beside it, or with what was recorded of them", () =>
  inFolder(embedding, async (folder) => {
    const check = () => models("check", folder, "--file", "model_kv_int8.onnx");
    const beside = await check();
    assert.equal(beside.code, 0, beside.err);
    assert.match(
      beside.out,
      /^model_kv_int8\.onnx: exact products of 8 bits.*, on .+; correlation 0\.9[89]\d with model\.onnx\n$/,
    );
    const recorded = await models("record", folder);
    assert.deepEqual([recorded.code, recorded.out], [0, `${join(folder, "canopy_check.json")}\n`]);
    await rm(join(folder, "model.onnx"));
    assert.equal((await check()).out, beside.out);
    const right = JSON.parse(await readFile(join(folder, "canopy_check.json"), "utf8"));
    for (const text of right.texts) text.numbers.reverse();
    await writeFile(join(folder, "canopy_check.json"), JSON.stringify(right));
    const wrong = await check();
    assert.equal(wrong.code, 1);
    assert.match(
      wrong.out,
      /model_kv_int8\.onnx does not give the numbers of model\.onnx .*: set onnx\.file or scorer\.file to/,
    );
    await rm(join(folder, "canopy_check.json"));
    const none = await check();
    assert.match(
      none.out,
      /; there is nothing to compare its numbers with: run canopy models record \S+ where/,
    );
    const floats = await models("record", folder);
    assert.equal(floats.code, 1);
    assert.match(floats.err, /has no file of floats on this machine .*: fetch it with canopy models pull/);
  }));

test("a decoder's numbers are its logits", () =>
  inFolder(tinyFiles, async (folder) => {
    assert.equal((await models("record", folder)).code, 0);
    const { code, out } = await models("check", folder);
    assert.match(out, /^model\.onnx: products of floats, on .+; correlation 1\.000 with model\.onnx\n$/);
    assert.equal(code, 0);
  }));

test("a model that is not here is said to be so", async () => {
  const { code, err } = await models("check", "acme/model");
  assert.equal(code, 1);
  assert.match(err, /weights of acme\/model are not on this machine: run canopy models pull acme\/model/);
});
