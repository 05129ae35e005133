import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import {
  CHECK_FILE,
  type CheckedModel,
  checkNumbers,
  recordNumbers,
  wrongNumbers,
} from "../../../ml/onnx/check_numbers.ts";

/** A model whose numbers are a function of the tokens, with an error. */
function model(error: number, events: string[] = []): CheckedModel {
  return {
    arithmetic: { cpu: "any", products: "exact" },
    numbersAfter: (ids) => {
      const sum = ids.reduce((all, id) => all + id, 0);
      return Promise.resolve(
        Float32Array.from({ length: 1000 }, (_, at) => Math.sin(at * sum) + error * Math.cos(7 * at * sum)),
      );
    },
    close: () => Promise.resolve(void events.push("closed")),
  };
}

const texts = [[1, 2, 3], [4, 5]];

async function inFolder(use: (folder: string) => Promise<void>): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), "canopy-check-"));
  try {
    await use(folder);
  } finally {
    await rm(folder, { recursive: true });
  }
}

test("numbers are compared with those of floats that lie beside, which are loaded for it and closed", () =>
  inFolder(async (folder) => {
    const path = join(folder, "model_int8.onnx");
    const events: string[] = [];
    const open = (path: string) => {
      events.push(path.slice(folder.length + 1));
      return Promise.resolve(model(0, events));
    };
    const check = (error: number) => checkNumbers({ folder, path, model: model(error), texts, open });
    assert.equal(await check(0), undefined, "nothing to compare with");
    await writeFile(join(folder, "model_fp16.onnx"), "");
    const good = await check(0.1);
    assert.ok(good !== undefined && good.agreement > 0.99 && good.agreement < 1);
    assert.deepEqual(events, ["model_fp16.onnx", "closed"]);
    assert.equal(wrongNumbers("model_int8.onnx", good, "its onnx.file"), undefined);
    await writeFile(join(folder, "model.onnx"), "");
    const bad = await check(2);
    assert.ok(bad !== undefined && bad.agreement < 0.6);
    assert.deepEqual(events.slice(2), ["model.onnx", "closed"]);
    assert.match(
      wrongNumbers("model_int8.onnx", bad, "its onnx.file")!,
      /^model_int8\.onnx does not give the numbers of model\.onnx \(correlation 0\.\d+, at least 0\.9 is usual\), so answers are not to be trusted: set its onnx\.file to model\.onnx, or to a file with unsigned weights$/,
    );
    // Floats are not compared with themselves.
    const floats = join(folder, "model.onnx");
    assert.equal(await checkNumbers({ folder, path: floats, model: model(2), texts, open }), undefined);
  }));

test("recorded numbers come before floats that lie beside; those of the same file are held to more", () =>
  inFolder(async (folder) => {
    const open = () => Promise.reject(new Error("Not needed"));
    await writeFile(join(folder, "model.onnx"), "");
    for (const [made, least] of [["model.onnx", 0.9], ["model_int8.onnx", 0.98]] as const) {
      const recorded = await recordNumbers(made, model(0), texts);
      assert.ok(recorded.texts.every(({ numbers }) => numbers.length === 256));
      await writeFile(join(folder, CHECK_FILE), JSON.stringify(recorded));
      const path = join(folder, "model_int8.onnx");
      const found = await checkNumbers({ folder, path, model: model(0.3), texts: [], open });
      assert.deepEqual([found?.against, found?.least], [made, least]);
      assert.equal(wrongNumbers("model_int8.onnx", found!, "x") === undefined, made === "model.onnx");
    }
  }));

test("numbers of another length, and such that are none, agree with nothing", () =>
  inFolder(async (folder) => {
    const path = join(folder, "model.onnx");
    const recorded = await recordNumbers("model.onnx", model(0), texts);
    await writeFile(join(folder, CHECK_FILE), JSON.stringify(recorded));
    const open = () => Promise.reject(new Error("Not needed"));
    for (const numbers of [new Float32Array(100).fill(1), new Float32Array(1000).fill(NaN)]) {
      const broken = { ...model(0), numbersAfter: () => Promise.resolve(numbers) };
      assert.equal((await checkNumbers({ folder, path, model: broken, texts, open }))?.agreement, 0);
    }
  }));

test("a file of recorded numbers that cannot be read is refused in one sentence", () =>
  inFolder(async (folder) => {
    const path = join(folder, "model.onnx");
    const open = () => Promise.reject(new Error("Not needed"));
    for (const text of ["{", "[]", '{"file":"a","texts":[]}', '{"file":"a","texts":[{"ids":[1]}]}']) {
      await writeFile(join(folder, CHECK_FILE), text);
      await assert.rejects(checkNumbers({ folder, path, model: model(0), texts, open }), {
        code: "invalid_check_file",
        message: /canopy_check\.json: remove it, or have it written again by canopy models record$/,
      });
    }
  }));
