import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";
import { loadOnnxRuntime } from "../../ml/onnx/runtime.ts";
import { shippedFolder } from "../../ml/hub/shipped_models.ts";
import { loadTokenizer } from "../../ml/tokenizers/hf_tokenizer.ts";
import { MemoryTransport } from "../../router/transport/memory.ts";
import { EmbeddingModel } from "../../scorer/onnx/embedding_model.ts";
import { cosine } from "../../scorer/similarity/similarity.ts";
import { generate, requestOf, startTiny } from "./tiny.ts";

// The models that come with the program, against what torch makes of the same weights in float32.

interface Recorded {
  readonly prompts: readonly string[];
  readonly models: Readonly<
    Record<string, { readonly sha256: string; readonly cases: readonly RecordedCase[] }>
  >;
}

interface RecordedCase {
  readonly prompt_ids: readonly number[];
  readonly token_ids: readonly number[];
  readonly logprobs: readonly number[];
  /** Of embedding models: the last token's features. */
  readonly last: readonly number[];
}

const fixture = fileURLToPath(new URL("../fixtures/laboratory/greedy.json", import.meta.url));
const recorded: Recorded = JSON.parse(await readFile(fixture, "utf8"));

async function folderOf(name: string): Promise<string> {
  const folder = await shippedFolder(`laboratory/${name}`);
  assert.ok(folder !== undefined, name);
  return folder;
}

for (const name of ["s", "m", "l"]) {
  const { sha256, cases } = recorded.models[name]!;

  test(`laboratory/${name}: prompts and greedy answers are torch's`, async () => {
    const folder = await folderOf(name);
    const weights = await readFile(join(folder, "model.safetensors"));
    assert.equal(
      createHash("sha256").update(weights).digest("hex"),
      sha256,
      "other weights: record again with bench/laboratory/export/record_greedy.py",
    );
    const tokenizer = await loadTokenizer(folder, {
      transport: new MemoryTransport(() => undefined),
      signal: new AbortController().signal,
      env: {},
    });
    const path = join(folder, "model.onnx");
    const generator = await startTiny({ model: name, path, cacheBytes: 64 * 1024 * 1024 });
    after(() => generator.close());
    for (const [index, one] of cases.entries()) {
      const content = recorded.prompts[index]!;
      const prompt = tokenizer.renderChat([{ role: "user", content }]);
      assert.deepEqual([...tokenizer.encode(prompt)], one.prompt_ids);
      const outcome = await generate(generator, requestOf(one.prompt_ids, one.token_ids.length));
      assert.deepEqual(outcome.ids, one.token_ids);
      for (const [at, expected] of one.logprobs.entries()) {
        assert.ok(
          Math.abs(outcome.logprobs[at]! - expected) < 2e-3,
          `${at}: ${outcome.logprobs[at]} for ${expected}`,
        );
      }
    }
  });
}

test("laboratory/embedding: features are torch's, and those of the file in 8 bits are near them", async () => {
  const folder = await folderOf("embedding");
  const runtime = await loadOnnxRuntime();
  for (const [file, least] of [["model.onnx", 0.99999], ["onnx/model_int8.onnx", 0.98]] as const) {
    const model = await EmbeddingModel.open(runtime, join(folder, file), 1);
    after(() => model.close());
    for (const { prompt_ids, last } of recorded.models["embedding"]!.cases) {
      const similarity = cosine(await model.numbersAfter(prompt_ids), Float32Array.from(last));
      assert.ok(similarity > least, `${file}: ${similarity}`);
    }
  }
});
