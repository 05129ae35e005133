import { CanopyError } from "../../../base/errors.ts";
import type { Scorer } from "../../../scorer/scorer.ts";
import { meanOf } from "../../statistics/statistics.ts";

/** Longest wait for a comparison, in ms: models on processors take seconds for a long text. */
const COMPARISON_MS = 600_000;

/**
 * How far texts are apart: the mean over their pairs of one less the cosine of their embeddings, from 0 for the same.
 * NaN of fewer than two texts; texts without words are left out. Rejects with 500 `not_compared` where the scorer fails.
 */
export async function embeddingSpread(texts: readonly string[], scorer: Scorer): Promise<number> {
  const said = texts.filter((text) => /\p{L}|\p{N}/u.test(text));
  const feeds = said.map((text, at) => {
    const feed = scorer.open(`answer ${at}`);
    feed.append(text);
    feed.end();
    return feed;
  });
  try {
    const distances: number[] = [];
    for (let a = 0; a < said.length; a++) {
      for (let b = a + 1; b < said.length; b++) distances.push(await distance(scorer, a, b));
    }
    return meanOf(distances);
  } finally {
    for (const feed of feeds) feed.close();
  }
}

async function distance(scorer: Scorer, a: number, b: number): Promise<number> {
  const { value, reason } = await scorer.similarity(`answer ${a}`, `answer ${b}`, "cosine", COMPARISON_MS);
  if (value !== undefined) return Math.max(0, 1 - value);
  throw new CanopyError(`Cannot compare answers: ${reason ?? "the scorer gives no reason"}`, {
    code: "not_compared",
    status: 500,
  });
}
