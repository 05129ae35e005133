import assert from "node:assert/strict";
import { test } from "node:test";
import { Random } from "../../../base/random.ts";
import { loadOnnxRuntime } from "../../../ml/onnx/runtime.ts";
import { EmbeddingModel } from "../../../scorer/onnx/embedding_model.ts";
import { FeatureSum } from "../../../scorer/onnx/feature_sum.ts";
import { type Correlation, SimilarityGraphs } from "../../../scorer/onnx/similarity_graphs.ts";
import {
  effectiveDimensions,
  frobeniusCosine,
  unbiasedCosine,
} from "../../../scorer/similarity/similarity.ts";
import { modelFolder, reference } from "./onnx_reference.ts";

const runtime = await loadOnnxRuntime();
const graphs = await SimilarityGraphs.open(runtime, 1);

async function correlate(rows: Float32Array, dimensions: number, piece: number): Promise<Correlation> {
  const sum = new FeatureSum(graphs, dimensions);
  for (let at = 0; at < rows.length; at += piece * dimensions) {
    await sum.add(rows.slice(at, at + piece * dimensions));
  }
  return (await sum.correlation()).correlation;
}

test("FCS and its unbiased form without the end token's row are the reference's", async () => {
  const model = await EmbeddingModel.open(runtime, `${modelFolder}/model.onnx`, 1);
  const correlations = new Map<string, Correlation>();
  for (const { id, ids, ids_plain } of reference.texts) {
    if (ids_plain.length === 0) continue;
    const { rows } = await model.step(ids, undefined, false);
    correlations.set(id, await correlate(rows.slice(0, -model.dimensions), model.dimensions, 100));
  }
  let compared = 0;
  for (const { a, b, fcs_text, fcs_u_text } of reference.pairs) {
    const [left, right] = [correlations.get(a), correlations.get(b)];
    if (left === undefined || right === undefined || fcs_text === null || fcs_u_text === null) continue;
    const product = await graphs.product(left, right);
    assert.ok(Math.abs(frobeniusCosine(left, right, product) - fcs_text) <= 1e-6, `${a}, ${b}`);
    assert.ok(Math.abs(unbiasedCosine(left, right, product) - fcs_u_text) <= 1e-6, `${a}, ${b}`);
    compared++;
  }
  assert.equal(compared, 9);
  await model.close();
});

/** The terms as they are defined, in float64. */
function terms(rows: Float32Array, h: number): { features: Float64Array; gram: Float64Array; n: number } {
  const n = rows.length / h;
  const features = Float64Array.from(rows);
  for (let k = 0; k < h; k++) {
    let squares = 0;
    for (let i = 0; i < n; i++) squares += rows[i * h + k]! ** 2;
    for (let i = 0; i < n; i++) features[i * h + k]! /= Math.sqrt(squares);
  }
  return { features, gram: products(features, features, h), n };
}

/** A Bᵀ. */
function products(a: Float64Array, b: Float64Array, h: number): Float64Array {
  const [n, m] = [a.length / h, b.length / h];
  const out = new Float64Array(n * m);
  for (let i = 0; i < n; i++) {
    for (let j = 0; j < m; j++) {
      for (let k = 0; k < h; k++) out[i * m + j]! += a[i * h + k]! * b[j * h + k]!;
    }
  }
  return out;
}

const squared = (values: Float64Array) => values.reduce((sum, value) => sum + value ** 2, 0);

test("the graphs agree with loops in float64 over token features, at all lengths and in all pieces", async () => {
  const random = new Random("similarity");
  const h = 48;
  const draw = (n: number) =>
    Float32Array.from({ length: n * h }, () => random.normal() + (random.int(4) === 0 ? 2 : 0));
  for (const [n, m] of [[1, 1], [1, 30], [2, 3], [40, 300], [513, 257]] as const) {
    const [left, right] = [draw(n), draw(m)];
    const [a, b] = [
      await correlate(left, h, 1 + random.int(n)),
      await correlate(right, h, 1 + random.int(m)),
    ];
    const [t, s] = [terms(left, h), terms(right, h)];
    const near = (value: number, expected: number, what: string) =>
      assert.ok(
        Math.abs(value - expected) <= 2e-6 * Math.max(1, expected),
        `${what} ${n}, ${m}: ${value}, ${expected}`,
      );
    near(a.squares, squared(t.gram), "squares");
    near(
      a.selfProducts,
      t.features.length === 0 ? 0 : squared(Float64Array.from({ length: n }, (_, i) => t.gram[i * n + i]!)),
      "self",
    );
    const product = squared(products(t.features, s.features, h));
    near(await graphs.product(a, b), product, "product");
    near(frobeniusCosine(a, b, product), product / Math.sqrt(squared(t.gram) * squared(s.gram)), "FCS");
    assert.ok(effectiveDimensions(a) > 0);
  }
});

test("a column without any content correlates with nothing; numbers that are none are an error", async () => {
  const rows = Float32Array.of(1, 0, 2, 3, 0, -1);
  const zero = await correlate(rows, 3, 2);
  assert.ok(zero.squares > 2 && zero.squares < 9);
  await assert.rejects(correlate(Float32Array.of(1, NaN, 2, 3, 1, -1), 3, 2), /not finite/);
  await assert.rejects(correlate(Float32Array.of(1, Infinity, 2, 3, 1, -1), 3, 2), /not finite/);
});
