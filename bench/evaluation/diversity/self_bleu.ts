import { meanOf } from "../../statistics/statistics.ts";

/** Longest n-grams that are counted. */
const LONGEST = 4;
/** Put in the place of no match at all, but for single words (Chen & Cherry 2014, method 1). */
const SMOOTHED = 0.1;

/**
 * Self-BLEU (Zhu et al. 2018, arXiv 1802.01886) of texts as words: the mean over texts of BLEU-4 with all others as
 * references, from 0, nothing in common, to 1, all the same. NaN of fewer than two texts.
 */
export function selfBleu(texts: readonly (readonly string[])[]): number {
  if (texts.length < 2) return NaN;
  const counted = texts.map(countsOf);
  return meanOf(
    counted.map((text, at) => bleu(text, counted.filter((_, other) => other !== at))),
  );
}

interface CountedText {
  readonly length: number;
  /** Times of each n-gram, for n from 1. */
  readonly grams: readonly ReadonlyMap<string, number>[];
}

function countsOf(words: readonly string[]): CountedText {
  const grams = Array.from({ length: LONGEST }, (_, index) => {
    const counts = new Map<string, number>();
    for (let at = 0; at + index < words.length; at++) {
      const gram = words.slice(at, at + index + 1).join(" ");
      counts.set(gram, (counts.get(gram) ?? 0) + 1);
    }
    return counts;
  });
  return { length: words.length, grams };
}

/** BLEU-4 of one text, as NLTK's `sentence_bleu` with smoothing method 1. */
function bleu({ length, grams }: CountedText, references: readonly CountedText[]): number {
  const logs = grams.map((counts, index) => {
    let [matches, all] = [0, 0];
    for (const [gram, count] of counts) {
      all += count;
      const most = Math.max(...references.map((reference) => reference.grams[index]!.get(gram) ?? 0));
      matches += Math.min(count, most);
    }
    if (index === 0 && matches === 0) return -Infinity;
    return Math.log((matches === 0 ? SMOOTHED : matches) / Math.max(1, all));
  });
  // Of references that are equally near the shorter one.
  const near = references.map((reference) => reference.length).sort((a, b) =>
    Math.abs(a - length) - Math.abs(b - length) || a - b
  )[0]!;
  const penalty = length > near ? 0 : length === 0 ? -Infinity : 1 - near / length;
  return Math.exp(penalty + meanOf(logs));
}
