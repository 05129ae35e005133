import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "../../properties.ts";
import { Random } from "../../../base/random.ts";
import type { SamplingParameters } from "../../../embedded/scheduler/generator.ts";
import {
  type DrawRequest,
  drawToken,
  NEUTRAL_SAMPLING,
  TokenHistory,
} from "../../../embedded/scheduler/sampling.ts";

const PLAIN: SamplingParameters = { ...NEUTRAL_SAMPLING, seed: "seed" };

function request(sampling: Partial<SamplingParameters>, rest: Partial<DrawRequest> = {}): DrawRequest {
  return {
    minTokens: 0,
    stopIds: new Set(),
    logprobs: undefined,
    sampling: { ...PLAIN, ...sampling },
    ...rest,
  };
}

function historyOf(prompt: readonly number[], answer: readonly number[] = []): TokenHistory {
  const history = new TokenHistory(prompt);
  for (const id of answer) history.push(id);
  return history;
}

function someLogits(size: number, seed: string, spread = 3): Float32Array {
  const random = new Random(seed);
  return Float32Array.from({ length: size }, () => spread * random.normal());
}

/**
 * The probability of each id, written down anew from vLLM's documentation: whole sorted lists, masks, and a softmax
 * after every step.
 */
function expectedProbabilities(
  logits: Float32Array,
  { sampling, minTokens, stopIds }: DrawRequest,
  prompt: readonly number[],
  answer: readonly number[],
): number[] {
  let x = Array.from(logits);
  if (answer.length < minTokens) x = x.map((value, id) => stopIds.has(id) ? -Infinity : value);
  x = x.map((value, id) => value + (sampling.logitBias.get(id) ?? 0));
  const seen = new Set([...prompt, ...answer]);
  const r = sampling.repetitionPenalty;
  x = x.map((value, id) => seen.has(id) ? value > 0 ? value / r : value * r : value);
  x = x.map((value, id) => {
    const count = answer.filter((other) => other === id).length;
    return value - sampling.frequencyPenalty * count - (count > 0 ? sampling.presencePenalty : 0);
  });
  if (sampling.temperature < 1e-5) {
    const best = x.indexOf(Math.max(...x));
    return x.map((_, id) => id === best ? 1 : 0);
  }
  x = x.map((value) => value / sampling.temperature);
  let p = softmax(x);
  const most = Math.max(...p);
  x = x.map((value, id) => p[id]! < sampling.minP * most ? -Infinity : value);
  if (sampling.topK > 0 && sampling.topK < x.length) {
    const least = [...x].sort((a, b) => b - a)[sampling.topK - 1]!;
    x = x.map((value) => value < least ? -Infinity : value);
  }
  if (sampling.topP < 1) {
    p = softmax(x);
    const ascending = p.map((_, id) => id).sort((a, b) => p[a]! - p[b]! || b - a);
    let sum = 0;
    for (const id of ascending.slice(0, -1)) {
      sum += p[id]!;
      if (sum <= 1 - sampling.topP) x[id] = -Infinity;
    }
  }
  return softmax(x);
}

function softmax(x: readonly number[]): number[] {
  const most = Math.max(...x);
  const weights = x.map((value) => Math.exp(value - most));
  const sum = weights.reduce((a, b) => a + b, 0);
  return weights.map((weight) => weight / sum);
}

/** Pearson's chi-square of draws against probabilities, as a standard normal number (Wilson and Hilferty). */
function deviation(counts: ReadonlyMap<number, number>, p: readonly number[], draws: number): number {
  let statistic = 0;
  let cells = 0;
  let restExpected = 0;
  let restSeen = 0;
  for (const [id, probability] of p.entries()) {
    const seen = counts.get(id) ?? 0;
    if (probability === 0) assert.equal(seen, 0, `id ${id} was drawn, though it is ruled out`);
    // Rare ids are counted together.
    if (draws * probability < 5) {
      restExpected += draws * probability;
      restSeen += seen;
      continue;
    }
    statistic += (seen - draws * probability) ** 2 / (draws * probability);
    cells++;
  }
  if (restExpected >= 5) {
    statistic += (restSeen - restExpected) ** 2 / restExpected;
    cells++;
  }
  const degrees = cells - 1;
  if (degrees < 1) return 0;
  const variance = 2 / (9 * degrees);
  return (Math.cbrt(statistic / degrees) - (1 - variance)) / Math.sqrt(variance);
}

const DRAWS = 4000;
const LOGITS = someLogits(48, "logits");
/** From the likeliest: penalties of rare ids would show nowhere. */
const LIKELY = Array.from(LOGITS.keys()).sort((a, b) => LOGITS[b]! - LOGITS[a]!);
const PROMPT = [LIKELY[3]!, LIKELY[0]!, LIKELY[0]!, LIKELY[9]!];
const ANSWER = [LIKELY[0]!, LIKELY[1]!, LIKELY[1]!, LIKELY[1]!, LIKELY[4]!];
const cases: Record<string, [Partial<SamplingParameters>, Partial<DrawRequest>?]> = {
  "temperature 1": [{}],
  "a low temperature": [{ temperature: 0.3 }],
  "a high temperature": [{ temperature: 1.8 }],
  "top_p": [{ topP: 0.8 }],
  "a small top_p": [{ topP: 0.05 }],
  "top_k": [{ topK: 5 }],
  "top_k beyond the vocabulary": [{ topK: 10_000 }],
  "min_p": [{ minP: 0.1 }],
  "min_p, top_k and top_p together": [{ minP: 0.02, topK: 12, topP: 0.9, temperature: 1.3 }],
  "repetition_penalty": [{ repetitionPenalty: 1.7 }],
  "a repetition_penalty below 1": [{ repetitionPenalty: 0.6 }],
  "presence_penalty": [{ presencePenalty: 1.5 }],
  "a negative presence_penalty": [{ presencePenalty: -1.5 }],
  "frequency_penalty": [{ frequencyPenalty: 0.8 }],
  "all penalties": [{ repetitionPenalty: 1.3, presencePenalty: 0.5, frequencyPenalty: 0.4 }],
  "logit_bias": [{ logitBias: new Map([[LIKELY[9]!, 3], [LIKELY[0]!, -100], [LIKELY[5]!, 0.5]]) }],
  "min_tokens": [{}, { minTokens: 6, stopIds: new Set([LIKELY[0]!, LIKELY[9]!]) }],
  "min_tokens that are there": [{}, { minTokens: 5, stopIds: new Set([LIKELY[0]!, LIKELY[9]!]) }],
};

for (const [name, [sampling, rest]] of Object.entries(cases)) {
  test(`tokens are drawn with the probabilities of vLLM's order of steps: ${name}`, () => {
    const logits = LOGITS;
    const before = logits.slice();
    const history = historyOf(PROMPT, ANSWER);
    const p = expectedProbabilities(logits, request(sampling, rest), PROMPT, ANSWER);
    const counts = new Map<number, number>();
    for (let i = 0; i < DRAWS; i++) {
      const { id } = drawToken(logits, request({ ...sampling, seed: `${name}/${i}` }, rest), history);
      counts.set(id, (counts.get(id) ?? 0) + 1);
    }
    // One in 30 000 right samplers would fail; the seeds are fixed, so it is now or never.
    assert.ok(Math.abs(deviation(counts, p, DRAWS)) < 4, String(deviation(counts, p, DRAWS)));
    assert.deepEqual(logits, before);
  });
}

test("the test of distributions fails for a wrong temperature and a missing penalty", () => {
  const logits = LOGITS;
  for (const sampling of [{ temperature: 0.8 }, { frequencyPenalty: 0.8 }]) {
    const counts = new Map<number, number>();
    for (let i = 0; i < DRAWS; i++) {
      const { id } = drawToken(logits, request({ ...sampling, seed: `${i}` }), historyOf(PROMPT, ANSWER));
      counts.set(id, (counts.get(id) ?? 0) + 1);
    }
    assert.ok(deviation(counts, expectedProbabilities(logits, request({}), PROMPT, ANSWER), DRAWS) > 4);
  }
});

test("in a vocabulary of 20 000 the cuts of top_p and top_k fall as in a whole sorted list", () => {
  for (
    const [spread, sampling] of [[3, { topP: 0.97 }], [0.1, { topP: 0.5 }], [0.1, {
      topK: 8000,
      topP: 0.9,
    }]] as const
  ) {
    const logits = someLogits(20_000, `wide ${spread}`, spread);
    const p = expectedProbabilities(logits, request(sampling), [], []);
    const kept = p.filter((value) => value > 0).length;
    const drawn = new Set<number>();
    for (let i = 0; i < 20; i++) {
      drawn.add(drawToken(logits, request({ ...sampling, seed: `${i}` }), historyOf([])).id);
    }
    for (const id of drawn) assert.ok(p[id]! > 0, `id ${id} is not among the ${kept} kept`);
    assert.ok(drawn.size > 10);
  }
});

test("temperature 0 takes the likeliest token after bias and penalties, whatever the other parameters", () => {
  fc.assert(fc.property(
    fc.array(fc.float({ min: -20, max: 20, noNaN: true }), { minLength: 1, maxLength: 30 }),
    fc.array(fc.nat(29), { maxLength: 8 }),
    fc.record({
      topP: fc.constantFrom(0.1, 1),
      topK: fc.nat(3),
      repetitionPenalty: fc.constantFrom(1, 1.5),
      frequencyPenalty: fc.constantFrom(0, 1),
    }),
    (values, answer, rest) => {
      const logits = Float32Array.from(values);
      const known = answer.filter((id) => id < values.length);
      const asked = request({ ...rest, temperature: 0 });
      const { id } = drawToken(logits, asked, historyOf([], known));
      const p = expectedProbabilities(logits, asked, [], known);
      // Float32 may make equals of numbers that are not.
      assert.ok(
        p[id] === 1 ||
          Math.abs(penalised(logits, asked, known, id) - penalised(logits, asked, known, p.indexOf(1))) <
            1e-5,
      );
    },
  ));
});

function penalised(
  logits: Float32Array,
  { sampling }: DrawRequest,
  answer: readonly number[],
  id: number,
): number {
  const count = answer.filter((other) => other === id).length;
  let value = logits[id]!;
  if (count > 0) value = value > 0 ? value / sampling.repetitionPenalty : value * sampling.repetitionPenalty;
  return value - sampling.frequencyPenalty * count;
}

test("log-probabilities are of the raw logits, the best first, and the chosen one's is given whatever its rank", () => {
  const logits = someLogits(200, "scores");
  const p = softmax(Array.from(logits));
  const order = p.map((_, id) => id).sort((a, b) => p[b]! - p[a]!);
  const asked = request(
    { temperature: 0.5, logitBias: new Map([[order[150]!, 100]]), repetitionPenalty: 1.4 },
    { logprobs: 5 },
  );
  const { id, logprob, top } = drawToken(logits, asked, historyOf(order.slice(0, 3)));
  assert.equal(id, order[150]);
  assert.ok(Math.abs(logprob! - Math.log(p[id]!)) < 1e-6);
  assert.deepEqual(top.map(([other]) => other), order.slice(0, 5));
  for (const [other, value] of top) assert.ok(Math.abs(value - Math.log(p[other]!)) < 1e-6);
  const none = drawToken(logits, { ...asked, logprobs: 0 }, historyOf([]));
  assert.ok(none.logprob !== undefined && none.top.length === 0);
  assert.equal(drawToken(logits, { ...asked, logprobs: undefined }, historyOf([])).logprob, undefined);
});

test("the same seed draws the same tokens, another seed and another position draw others", () => {
  const logits = someLogits(400, "seeded", 0.5);
  const answer = (seed: string) => {
    const history = historyOf([]);
    for (let i = 0; i < 24; i++) history.push(drawToken(logits, request({ seed }), history).id);
    return [...history.counts];
  };
  assert.deepEqual(answer("1"), answer("1"));
  assert.notDeepEqual(answer("1"), answer("2"));
  assert.ok(answer("1").length > 12, "positions draw independently");
});

test("a bias outside the vocabulary changes nothing, and logits of no use are an error", () => {
  const logits = someLogits(10, "bounds");
  const asked = request({ temperature: 0, logitBias: new Map([[10, 100], [-1, 100]]) });
  assert.equal(drawToken(logits, asked, historyOf([12])).id, logits.indexOf(Math.max(...logits)));
  for (const value of [NaN, Infinity, -Infinity]) {
    assert.throws(() => drawToken(new Float32Array(4).fill(value), asked, historyOf([])), {
      code: "model_failed",
    });
  }
});
