import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "../../properties.ts";
import { RowCorrelation } from "../../../scorer/similarity/row_correlation.ts";
import {
  cosine,
  effectiveDimensions,
  frobeniusCosine,
  unbiasedCosine,
} from "../../../scorer/similarity/similarity.ts";

interface Rows {
  readonly width: number;
  readonly values: readonly number[];
}

const number = fc.double({ min: -50, max: 50, noNaN: true }).map((value) =>
  Math.abs(value) < 1e-6 ? 0 : value
);
const rowsOf = (width: number): fc.Arbitrary<Rows> =>
  fc.integer({ min: 1, max: 9 }).chain((count) =>
    fc.array(number, { minLength: count * width, maxLength: count * width })
      .map((values) => ({ width, values }))
  );
const pair = fc.integer({ min: 1, max: 8 }).chain((width) => fc.tuple(rowsOf(width), rowsOf(width)));

/** Corr(U) of U = TᵀT, as the formula is written; columns of zeros correlate with nothing. */
function correlationMatrix({ width, values }: Rows): number[][] {
  const u = Array.from({ length: width }, (_, i) =>
    Array.from({ length: width }, (_, j) => {
      let sum = 0;
      for (let at = 0; at < values.length; at += width) sum += values[at + i]! * values[at + j]!;
      return sum;
    }));
  return u.map((row, i) => row.map((value, j) => value === 0 ? 0 : value / Math.sqrt(u[i]![i]! * u[j]![j]!)));
}

function frobenius(a: number[][], b: number[][]): number {
  return a.reduce((sum, row, i) => sum + row.reduce((own, value, j) => own + value * b[i]![j]!, 0), 0);
}

const correlate = ({ values, width }: Rows) => new RowCorrelation(values, width);
const near = (value: number, expected: number, tolerance = 1e-9) =>
  assert.ok(
    Math.abs(value - expected) <= tolerance * Math.max(1, Math.abs(expected)),
    `${value}, not ${expected}`,
  );

test("products of tokens are the products of the correlation matrices that the formula writes out", () => {
  fc.assert(fc.property(pair, ([left, right]) => {
    const [a, b] = [correlate(left), correlate(right)];
    const [u, v] = [correlationMatrix(left), correlationMatrix(right)];
    near(a.product(b), frobenius(u, v));
    near(a.squares, frobenius(u, u));
    assert.equal(a.dimensions, u.filter((row, i) => row[i] !== 0).length);
    assert.equal(a.shared(b), u.filter((row, i) => row[i] !== 0 && v[i]![i] !== 0).length);
  }));
});

test("both cosines are symmetric and in [0, 1]; FCS of an answer with itself is 1", () => {
  fc.assert(fc.property(pair, ([left, right]) => {
    const [a, b] = [correlate(left), correlate(right)];
    const product = a.product(b);
    near(b.product(a), product);
    if (a.dimensions === 0 || b.dimensions === 0) return;
    const fcs = frobeniusCosine(a, b, product);
    assert.ok(fcs >= 0 && fcs <= 1);
    near(frobeniusCosine(b, a, b.product(a)), fcs);
    near(frobeniusCosine(a, a, a.squares), 1);
    const unbiased = unbiasedCosine(a, b, product, a.shared(b));
    // Features of one dimension have no correlation but that of the diagonal.
    if (!Number.isNaN(unbiased)) assert.ok(unbiased >= 0 && unbiased <= 1);
  }));
});

test("scaling columns changes nothing: they are normalised, from tiny to huge", () => {
  fc.assert(fc.property(pair, fc.integer({ min: -140, max: 140 }), ([left, right], exponent) => {
    const scaled = { ...left, values: left.values.map((value) => value * 10 ** exponent) };
    const [a, b, c] = [correlate(left), correlate(right), correlate(scaled)];
    near(c.product(b), a.product(b), 1e-6);
    near(c.selfProducts, a.selfProducts, 1e-6);
  }));
});

test("self-products are the squares of what each token has to do with itself", () => {
  const rows = { width: 2, values: [3, 0, 4, 5] };
  const a = correlate(rows);
  // T̃ = [[0.6, 0], [0.8, 1]]; G = [[0.36, 0.48], [0.48, 1.64]].
  near(a.selfProducts, 0.36 ** 2 + 1.64 ** 2);
  near(a.squares, 0.36 ** 2 + 2 * 0.48 ** 2 + 1.64 ** 2);
});

test("one token has only its biased norm, and no rows at all make no cosine", () => {
  const [one, two] = [
    correlate({ width: 3, values: [1, 2, 3] }),
    correlate({ width: 3, values: [3, -2, 1] }),
  ];
  near(one.squares, 9);
  near(effectiveDimensions(one), 9 / 6);
  // Of one token only the signs are left: ((1 - 1 + 1) / 3)².
  near(frobeniusCosine(one, two, one.product(two)), 1 / 9);
  near(unbiasedCosine(one, two, one.product(two)), 0);
  near(unbiasedCosine(one, one, one.squares), 1);
  const none = correlate({ width: 3, values: [] });
  assert.ok(Number.isNaN(frobeniusCosine(one, none, one.product(none))));
});

test("numbers that are not finite, and rows that are not whole, are refused", () => {
  for (const value of [NaN, Infinity, -Infinity]) {
    assert.throws(() => correlate({ width: 2, values: [1, value] }), /must be finite: there is/);
  }
  assert.throws(() => correlate({ width: 2, values: [1, 2, 3] }), /must be rows of 2 numbers: there are 3/);
});

test("the cosine of vectors is 1 for those of one direction, and no number without length", () => {
  near(cosine([1, 2], [2, 4]), 1);
  near(cosine([1, 0], [0, 5]), 0);
  assert.ok(Number.isNaN(cosine([0, 0], [1, 1])));
});
