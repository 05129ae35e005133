import assert from "node:assert/strict";
import { test } from "node:test";
import { anyCharacter, fc } from "../../properties.ts";
import type { AnswerEmbedding, AnswerFeatures } from "../../../scorer/embedders/embedder.ts";
import { LexicalEmbedder } from "../../../scorer/embedders/lexical_embedder.ts";
import { lexicalFeatures, lexicalTokens, lexicalWeight } from "../../../scorer/embedders/lexical_tokens.ts";
import type { SimilarityMetric } from "../../../scorer/scorer.ts";
import { RowCorrelation } from "../../../scorer/similarity/row_correlation.ts";
import { frobeniusCosine, unbiasedCosine } from "../../../scorer/similarity/similarity.ts";
import { offTopic, topics } from "../topic_answers.ts";

const embedder = new LexicalEmbedder({ maxTokens: 2_048 });
const metrics: readonly SimilarityMetric[] = ["fcs", "fcs_u", "cosine"];

async function embed(pieces: readonly string[]): Promise<AnswerFeatures> {
  const embedding = embedder.open();
  for (const piece of pieces) await embedding.append(piece);
  return await finish(embedding);
}

async function finish(embedding: AnswerEmbedding): Promise<AnswerFeatures> {
  const features = await embedding.finish();
  assert.ok(features !== undefined);
  return features;
}

test("tokens are words in lower case, of scripts without blanks pairs of characters, marks and widths normalised", () => {
  assert.deepEqual(lexicalTokens("The COST: $18.50 (caf\u00e9, cafe\u0301)"), [
    "the",
    "cost",
    "18",
    "50",
    "caf\u00e9",
    "caf\u00e9",
  ]);
  assert.deepEqual(lexicalTokens("\u5bcc\u58eb\u5c71 Fuji\u5c71"), [
    "\u5bcc\u58eb",
    "\u58eb\u5c71",
    "fuji",
    "\u5c71",
  ]);
  assert.deepEqual(lexicalTokens("\uff26\uff35\uff2c\uff2c \u041b\u0443\u043d\u0430"), [
    "full",
    "\u043b\u0443\u043d\u0430",
  ]);
  assert.deepEqual(lexicalTokens(" \n.,;\u{1f600}"), []);
});

test("answers to one question are told from answers to others, right or wrong, by all three metrics", async () => {
  const answers = [];
  for (const { id, answers: texts } of topics) {
    for (const text of texts) answers.push({ id, features: await embed([text]) });
  }
  const strangers = [];
  for (const text of offTopic) strangers.push(await embed([text]));
  for (const metric of metrics) {
    const same: number[] = [];
    const others: number[] = [];
    for (const [index, a] of answers.entries()) {
      for (const b of answers.slice(0, index)) {
        const value = await a.features.compare(b.features, metric);
        (a.id === b.id ? same : others).push(value!);
      }
      for (const stranger of strangers) others.push((await a.features.compare(stranger, metric))!);
    }
    const auc = areaUnderCurve(same, others);
    assert.ok(auc > 0.98, `${metric}: AUC ${auc}`);
    if (metric === "fcs_u") {
      // Where `veto_below` is by default.
      assert.ok(shareBelow(others, 0.2) > 0.95, `${shareBelow(others, 0.2)} of the others are below 0.2`);
      assert.ok(shareBelow(same, 0.2) < 0.05, `${shareBelow(same, 0.2)} of the same are below 0.2`);
    }
  }
});

function areaUnderCurve(above: readonly number[], below: readonly number[]): number {
  let wins = 0;
  for (const a of above) for (const b of below) wins += a > b ? 1 : a === b ? 0.5 : 0;
  return wins / (above.length * below.length);
}

function shareBelow(values: readonly number[], bound: number): number {
  return values.filter((value) => value < bound).length / values.length;
}

test("the similarities are those of the rows written out", async () => {
  const rowsOf = (text: string): number[][] => {
    const rows = [...new Set(lexicalTokens(text))].map((token) => {
      const row = new Array<number>(128).fill(0);
      for (const { column, value } of lexicalFeatures(token, 128)) row[column] = lexicalWeight(token) * value;
      return row;
    });
    const sum = rows[0]!.map((_, column) => rows.reduce((total, row) => total + row[column]!, 0));
    const norm = Math.hypot(...sum);
    return rows.map((row) => row.map((value, column) => value + 0.25 * sum[column]! / norm));
  };
  const texts = topics.slice(0, 4).flatMap(({ answers }) => answers);
  for (const [index, text] of texts.entries()) {
    const other = texts[(index + 1) % texts.length]!;
    const [a, b] = [await embed([text]), await embed([other])];
    const [s, t] = [
      new RowCorrelation(rowsOf(text).flat(), 128),
      new RowCorrelation(rowsOf(other).flat(), 128),
    ];
    const near = (value: number | undefined, expected: number) =>
      assert.ok(Math.abs(value! - expected) < 1e-6, `${value} instead of ${expected}`);
    near(await a.compare(b, "fcs"), frobeniusCosine(s, t, s.product(t)));
    near(await a.compare(b, "fcs_u"), unbiasedCosine(s, t, s.product(t), s.shared(t)));
  }
});

test("however a text comes in pieces, its features are the same", async () => {
  const text = fc.array(
    fc.oneof(fc.constantFrom(...topics.flatMap(({ answers }) => answers)), fc.string({ unit: anyCharacter })),
    { maxLength: 3 },
  ).map((parts) => parts.join(" "));
  await fc.assert(
    fc.asyncProperty(text, fc.array(fc.nat(40), { minLength: 1, maxLength: 20 }), async (text, sizes) => {
      const pieces: string[] = [];
      for (let at = 0; at < text.length; at += pieces.at(-1)!.length) {
        pieces.push(text.slice(at, at + 1 + sizes[pieces.length % sizes.length]!));
      }
      const [whole, streamed, other] = [
        await embed([text]),
        await embed(pieces),
        await embed(["some other text"]),
      ];
      assert.equal(streamed.tokens, whole.tokens);
      for (const metric of metrics) {
        assert.equal(await streamed.compare(other, metric), await whole.compare(other, metric));
      }
    }),
    { numRuns: 100 },
  );
});

test("similarities of any texts are symmetric and in their range, and unknown without words", async () => {
  const text = fc.oneof(fc.string({ unit: anyCharacter, maxLength: 60 }), fc.lorem({ maxCount: 30 }));
  await fc.assert(
    fc.asyncProperty(text, text, async (left, right) => {
      const [a, b] = [await embed([left]), await embed([right])];
      for (const metric of metrics) {
        const value = await a.compare(b, metric);
        assert.equal(value, await b.compare(a, metric));
        if (a.tokens === 0 || b.tokens === 0) assert.equal(value, undefined);
        // Two single words that share no column have nothing in common and nothing to divide by.
        else if (!Number.isNaN(value)) assert.ok(value! >= -1 - 1e-6 && value! <= 1 + 1e-6, `${value}`);
      }
      if (a.tokens > 1) assert.ok(await a.compare(a, "fcs")! as number > 1 - 1e-5);
    }),
    { numRuns: 200 },
  );
});

test("words beyond the bound are left out", async () => {
  const small = new LexicalEmbedder({ maxTokens: 3 });
  const embedding = small.open();
  await embedding.append("one two three four five six");
  assert.equal((await finish(embedding)).tokens, 3);
  embedding.close();
  embedding.close();
});
