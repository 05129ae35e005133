import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { VirtualClock } from "../../../base/clock.ts";
import { diversityOf } from "../../../bench/evaluation/diversity/diversity.ts";
import { embeddingSpread } from "../../../bench/evaluation/diversity/embedding_spread.ts";
import { selfBleu } from "../../../bench/evaluation/diversity/self_bleu.ts";
import type { EvalRecord } from "../../../bench/evaluation/eval_record.ts";
import { LexicalEmbedder } from "../../../scorer/embedders/lexical_embedder.ts";
import { distinctShare, textWords } from "../../../scorer/policy/diversity.ts";
import { InlineScorer } from "../../../scorer/thread/inline_scorer.ts";

/** Values of NLTK: `tests/fixtures/statistics/make_diversity.py`. */
const known: readonly {
  readonly texts: readonly string[];
  readonly selfBleu: number;
  readonly distinct: readonly number[];
}[] = JSON.parse(
  readFileSync(new URL("../../fixtures/statistics/diversity.json", import.meta.url), "utf8"),
);

test("Self-BLEU and distinct-n are NLTK's", () => {
  for (const { texts, selfBleu: expected, distinct } of known) {
    const own = selfBleu(texts.map((text) => textWords(text)));
    assert.ok(Math.abs(own - expected) < 1e-12, `${own} is not ${expected}: ${texts[0]}`);
    for (const [index, share] of distinct.entries()) {
      assert.ok(Math.abs((distinctShare(texts, index + 1) ?? NaN) - share) < 1e-12);
    }
  }
});

test("Self-BLEU is 1 where all say the same, 0 where nothing is in common, and nothing of one text", () => {
  const text = "one two three four five".split(" ");
  assert.equal(selfBleu([text, text, text]), 1);
  assert.equal(selfBleu([text, "six seven eight nine".split(" ")]), 0);
  assert.equal(selfBleu([text, []]), 0);
  assert.ok(Number.isNaN(selfBleu([text])));
});

async function withScorer<T>(use: (scorer: InlineScorer) => Promise<T>): Promise<T> {
  const clock = new VirtualClock();
  const scorer = new InlineScorer(new LexicalEmbedder({ maxTokens: 2048 }), { clock, maxQueued: 256 });
  return await clock.run(() => use(scorer).finally(() => scorer.close()));
}

test("The spread of embeddings is 0 for the same texts, larger for others, and texts without words are left out", async () => {
  await withScorer(async (scorer) => {
    const rain = "The rain sings on the roof of the old barn";
    const near = await embeddingSpread([rain, `${rain} today`, rain], scorer);
    const far = await embeddingSpread([rain, "Committees publish quarterly budgets", rain], scorer);
    assert.ok((await embeddingSpread([rain, rain], scorer)) < 1e-6);
    assert.ok(near < 0.2 && far > 2 * near, `${near} ${far}`);
    assert.ok(Number.isNaN(await embeddingSpread([rain, "…"], scorer)));
  });
});

const record = (mode: string, question: string, repeat: number, text: string) =>
  ({ set: "open", mode, question, repeat, text }) as EvalRecord;

test("A mode that says the same again is told from one that does not, prompt by prompt", async () => {
  const words = "rain roof night town song river stone light bread window garden letter".split(" ");
  const varied = (prompt: number, repeat: number) =>
    Array.from({ length: 12 }, (_, at) => words[(at * [1, 5, 7][repeat]! + prompt) % words.length])
      .join(" ");
  const records = Array.from({ length: 8 }, (_, prompt) =>
    Array.from({ length: 3 }, (_, repeat) => [
      record("tree", `p${prompt}`, repeat, varied(prompt, repeat)),
      record("exit", `p${prompt}`, repeat, varied(prompt, 0)),
    ])).flat(2);
  await withScorer(async (scorer) => {
    const { figures, differences: [one, ...more] } = await diversityOf(records, ["tree", "exit"], scorer);
    assert.deepEqual(figures.map(({ mode, prompts, answers, words }) => [mode, prompts, answers, words]), [
      ["tree", 8, 24, 12],
      ["exit", 8, 24, 12],
    ]);
    assert.equal(figures[1]!.selfBleu, 1);
    assert.deepEqual([one!.mode, one!.against, one!.prompts, more.length], ["exit", "tree", 8, 0]);
    const { distinct2, selfBleu: bleu } = one!.differences;
    assert.ok(distinct2.difference < -0.1 && distinct2.interval.high < 0 && distinct2.p < 0.05);
    assert.ok(bleu.difference > 0.1 && bleu.interval.low > 0);
    const once = await diversityOf(records.filter(({ repeat }) => repeat === 0), ["tree", "exit"], scorer);
    assert.deepEqual(once, { figures: [], differences: [] }, "one answer is unlike nothing");
  });
});
