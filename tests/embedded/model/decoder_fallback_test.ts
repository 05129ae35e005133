import assert from "node:assert/strict";
import { rm } from "node:fs/promises";
import { dirname } from "node:path";
import { test } from "node:test";
import { KeyValuePool, type KeyValues } from "../../../embedded/cache/key_values.ts";
import { Decoder } from "../../../embedded/model/decoder.ts";
import { loadOnnxRuntime, type OnnxRuntime } from "../../../ml/onnx/runtime.ts";
import { tinyPath } from "../tiny.ts";
import { writeTinyFused } from "../tiny_fused.ts";
import { bindingWith, OTHER_BINDINGS } from "../../ml/onnx/bindings.ts";

/** The logits after a prompt and after each of some tokens behind it, and the keys and values in the end. */
async function generated(runtime: OnnxRuntime, path: string) {
  const decoder = await Decoder.open(runtime, path, 1);
  const { growth, batches, fallbacks } = decoder;
  const pool = new KeyValuePool(decoder.export.cache, growth, 1000);
  const ids = Array.from({ length: 40 }, (_, index) => 100 + index * 37 % 1500);
  const logits: number[][] = [];
  let past: KeyValues | undefined;
  for (const [from, to] of [[0, 30], ...Array.from({ length: 10 }, (_, index) => [30 + index, 31 + index])]) {
    const room = pool.extend(past, from!, to! - from!, 0)!;
    logits.push([...await decoder.step(ids.slice(from, to), room)]);
    past = room.into;
  }
  const cache = past!.place(ids.length).tensors.map((tensor) => [...tensor]);
  await decoder.close();
  return { result: { growth, batches, logits, cache }, fallbacks };
}

test("a decoder computes the same where outputs must be copied, and says that they are", async () => {
  const fused = await writeTinyFused();
  const runtime = await loadOnnxRuntime();
  for (const path of [tinyPath, fused]) {
    const { result: expected, fallbacks } = await generated(runtime, path);
    assert.deepEqual(fallbacks, []);
    for (const run of Object.values(OTHER_BINDINGS)) {
      const other = await loadOnnxRuntime(() => Promise.resolve(bindingWith(run)));
      const { result, fallbacks } = await generated(other, path);
      assert.deepEqual(fallbacks, ["outputs_copied"]);
      assert.deepEqual(result, expected);
    }
  }
  await rm(dirname(fused), { recursive: true });
});
