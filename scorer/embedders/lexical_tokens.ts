import { fnv1a } from "../../base/random.ts";

/** One place of a sparse row. */
export interface Feature {
  /** In [0, h). */
  readonly column: number;
  readonly value: number;
}

/** Scripts that put no blanks between words: each pair of neighbouring characters is a token. */
const UNSPACED =
  /^[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}]/u;
const WORDS = /[\p{L}\p{N}\p{M}]+/gu;
const RUNS =
  /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}]+|[^\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}]+/gu;
/** Longest token that is looked at, in characters. */
const MAX_TOKEN_LENGTH = 32;

/** The tokens of a text: words, in scripts without blanks pairs of characters. */
export function lexicalTokens(text: string): string[] {
  const tokens: string[] = [];
  for (const [word] of text.normalize("NFKC").toLowerCase().matchAll(WORDS)) {
    for (const [run] of word.matchAll(RUNS)) {
      if (!UNSPACED.test(run)) {
        tokens.push(run.slice(0, MAX_TOKEN_LENGTH));
        continue;
      }
      const characters = [...run];
      if (characters.length === 1) tokens.push(run);
      for (let i = 1; i < characters.length; i++) tokens.push(characters[i - 1]! + characters[i]!);
    }
  }
  return tokens;
}

/** The row of a token: itself and its parts of three characters (one, without blanks), hashed, with signs; of length 1. */
export function lexicalFeatures(token: string, dimensions: number): Feature[] {
  const parts = partsOf(token);
  const values = new Map<number, number>();
  const add = (part: string, weight: number) => {
    const hash = fnv1a(part);
    const column = hash % dimensions;
    values.set(column, (values.get(column) ?? 0) + (hash & 0x80000000 ? -weight : weight));
  };
  add(token, 1);
  for (const part of parts) add(part, 1 / Math.sqrt(parts.length));
  // Parts of equal weight and opposite signs cancel each other out.
  const kept = [...values].filter(([, value]) => value !== 0);
  const norm = Math.sqrt(kept.reduce((sum, [, value]) => sum + value * value, 0));
  return kept.map(([column, value]) => ({ column, value: value / norm }));
}

function partsOf(token: string): string[] {
  if (UNSPACED.test(token)) return [...token];
  const padded = [..."^" + token + "$"];
  return padded.slice(2).map((_, index) => padded.slice(index, index + 3).join(""));
}

/** Short words of alphabets are mostly those that any text has: a word of less than six letters counts for less. */
export function lexicalWeight(token: string): number {
  return /^[^\u0530-\u{10ffff}]+$/u.test(token) ? Math.min(1, token.length / 6) : 1;
}
