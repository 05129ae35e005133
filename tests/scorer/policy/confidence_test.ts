import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "../../properties.ts";
import { confidenceOf, meanConfidence } from "../../../scorer/policy/confidence.ts";

const kinds = ["geometric", "tail", "lowest_window"] as const;
const logprobs = fc.array(fc.double({ min: -20, max: 0, noNaN: true }), { minLength: 1, maxLength: 60 });

test("geometric confidence is the geometric mean of the tokens' probabilities", () => {
  fc.assert(fc.property(logprobs, (logprobs) => {
    const product = logprobs.reduce((product, logprob) => product * Math.exp(logprob / logprobs.length), 1);
    const value = confidenceOf(logprobs, { confidence: "geometric", confidence_tokens: 1 })!;
    assert.ok(Math.abs(value - product) < 1e-9);
  }));
});

test("tail and lowest window are what a search over all windows finds", () => {
  fc.assert(fc.property(logprobs, fc.integer({ min: 1, max: 70 }), (logprobs, tokens) => {
    const size = Math.min(tokens, logprobs.length);
    const windows = Array.from({ length: logprobs.length - size + 1 }, (_, start) => {
      const window = logprobs.slice(start, start + size);
      return Math.exp(window.reduce((sum, logprob) => sum + logprob, 0) / size);
    });
    const of = (confidence: typeof kinds[number]) =>
      confidenceOf(logprobs, { confidence, confidence_tokens: tokens })!;
    assert.ok(Math.abs(of("tail") - windows.at(-1)!) < 1e-9);
    assert.ok(Math.abs(of("lowest_window") - Math.min(...windows)) < 1e-9);
    assert.ok(of("lowest_window") <= of("tail") + 1e-9);
  }));
});

test("confidence is in [0, 1]: a token that cannot be makes it 0, a rounded logarithm above 0 is a sure token", () => {
  for (const confidence of kinds) {
    const of = (logprobs: number[]) => confidenceOf(logprobs, { confidence, confidence_tokens: 2 });
    assert.equal(of([0, 0, 0]), 1);
    assert.equal(of([1e-7, 0, 2e-7]), 1);
    assert.equal(of([-0.1, -0.2, -Infinity]), 0);
    assert.equal(of([-1000, -1000, -1000]), 0);
  }
});

test("confidence is unknown without log-probabilities, and where one is no number", () => {
  for (const confidence of kinds) {
    for (const logprobs of [undefined, [], [NaN], [-0.1, NaN, -0.1], [-0.1, Infinity]]) {
      assert.equal(confidenceOf(logprobs, { confidence, confidence_tokens: 2 }), undefined);
    }
  }
});

test("the mean confidence is the root of the mean square, between the lowest and the highest", () => {
  assert.equal(meanConfidence([0.6, 0.8]), Math.sqrt(0.5));
  fc.assert(
    fc.property(fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { minLength: 1 }), (confidences) => {
      const mean = meanConfidence(confidences);
      assert.ok(mean >= Math.min(...confidences) - 1e-12 && mean <= Math.max(...confidences) + 1e-12);
    }),
  );
});
