import assert from "node:assert/strict";
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { packFolder, unpackTo } from "../../../ml/hub/model_pack.ts";

test("a pack unpacks to the same files, mends what is damaged, and is refused when it is damaged itself", async () => {
  const folder = await mkdtemp(join(tmpdir(), "canopy-pack-"));
  try {
    const [from, to] = [join(folder, "from"), join(folder, "cache", "to")];
    await mkdir(join(from, "l", "onnx"), { recursive: true });
    await writeFile(join(from, "l", "config.json"), "{}");
    await writeFile(join(from, "l", "onnx", "model.onnx"), Uint8Array.from([0, 1, 255]));
    const pack = packFolder(from);
    unpackTo(to, pack);
    unpackTo(to, pack);
    assert.deepEqual([...await readFile(join(to, "l", "onnx", "model.onnx"))], [0, 1, 255]);
    assert.equal(await readFile(join(to, "l", "config.json"), "utf8"), "{}");
    await writeFile(join(to, "l", "onnx", "model.onnx"), Uint8Array.from([0, 1, 254]));
    unpackTo(to, pack);
    assert.deepEqual([...await readFile(join(to, "l", "onnx", "model.onnx"))], [0, 1, 255]);
    assert.deepEqual(await readdir(join(folder, "cache")), ["to"], "nothing is left beside it");
    pack[pack.length - 1] = 7;
    await rm(to, { recursive: true });
    assert.throws(() => unpackTo(to, pack), { code: "cannot_unpack" });
  } finally {
    await rm(folder, { recursive: true });
  }
});
