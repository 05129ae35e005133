import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { SystemClock } from "../../base/clock.ts";
import { logger } from "../../base/log.ts";
import { scorerSchema } from "../../cfgs/schema/scorer.ts";
import { createScorer } from "../../scorer/create.ts";
import type { Scorer } from "../../scorer/scorer.ts";
import { Whitening } from "../../scorer/similarity/whitening.ts";
import { modelFolder, reference, referenceText } from "./onnx/onnx_reference.ts";

function create(settings: Record<string, unknown>, env: Record<string, string> = {}): Promise<Scorer> {
  return createScorer(scorerSchema.parse(settings), {
    clock: new SystemClock(),
    log: logger("test"),
    env,
    transport: { send: () => Promise.reject(new Error("nobody is there")), close: () => Promise.resolve() },
    signal: new AbortController().signal,
  });
}

async function compare(
  scorer: Scorer,
  a: string,
  b: string,
  metric: "fcs" | "cosine",
): Promise<number | undefined> {
  for (const id of [a, b]) {
    const feed = scorer.open(id);
    feed.append(referenceText(id));
    feed.end();
  }
  return (await scorer.similarity(a, b, metric, 60_000)).value;
}

test("a model that is there is used, in the file that was named", async () => {
  const scorer = await create({ model: modelFolder, file: "model_kv.onnx", threads: 1 });
  const { a, b, fcs } = reference.pairs[0]!;
  assert.ok(Math.abs((await compare(scorer, a, b, "fcs"))! - fcs) < 1e-6);
  assert.equal(scorer.facts?.embedder, "onnx");
  assert.equal(scorer.facts?.details["file"], "model_kv.onnx");
  await scorer.close();
});

test("without weights words are compared, and every trace says why; a model that must be there is an error", async () => {
  const folder = await mkdtemp(join(tmpdir(), "canopy-test-"));
  try {
    const env = { HF_HOME: folder };
    const scorer = await create({}, env);
    assert.equal(scorer.facts?.embedder, "lexical");
    assert.match(String(scorer.facts?.details["chosen_because"]), /run "canopy models pull onnx-community\//);
    assert.equal(typeof await compare(scorer, "bakery_a", "bakery_b", "fcs"), "number");
    await scorer.close();
    await assert.rejects(
      create({ embedder: "onnx", model: "no/model" }, env),
      /canopy models pull no\/model/,
    );
    const words = await create({ embedder: "lexical" }, env);
    assert.equal(words.facts?.details["chosen_because"], undefined);
    await words.close();
    await assert.rejects(create({ embedder: "http" }, env), /scorer\.url is missing/);
    await assert.rejects(create({ embedder: "http", url: "http://127.0.0.1:9" }, env), /nobody is there/);
  } finally {
    await rm(folder, { recursive: true });
  }
});

test("a calibration file whitens the cosine, and one of another model is refused", async () => {
  const folder = await mkdtemp(join(tmpdir(), "canopy-test-"));
  try {
    const vectors = reference.texts.map(({ embedding }) => Float32Array.from(embedding));
    const fitted = Whitening.fit("tiny", vectors);
    const [right, wrong] = [join(folder, "right"), join(folder, "wrong")];
    await fitted.write(right);
    await Whitening.fit("other", vectors.map((vector) => vector.subarray(0, 8))).write(wrong);
    const settings = { model: modelFolder, file: "model.onnx", threads: 1 };
    const scorer = await create({ ...settings, whitening: right });
    const plain = await create(settings);
    const value = await compare(scorer, "bakery_a", "bakery_b", "cosine");
    assert.notEqual(value, undefined);
    assert.ok(Math.abs(value! - (await compare(plain, "bakery_a", "bakery_b", "cosine"))!) > 1e-3);
    const other = await create({ ...settings, whitening: wrong });
    other.open("a").end();
    other.open("b").end();
    assert.match((await other.similarity("a", "b", "cosine", 60_000)).reason!, /8 dimensions/);
    for (const one of [scorer, plain, other]) await one.close();
  } finally {
    await rm(folder, { recursive: true });
  }
});
