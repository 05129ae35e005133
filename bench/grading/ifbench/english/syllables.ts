import { SYLLABLE_EXCEPTIONS } from "./syllable_exceptions.ts";

const VOWELS = new Set("aeiouy");

/** Syllables of a word in small letters without marks, as SyllaPy counts them; 0 for one with a digit. */
export function syllablesOf(word: string): number {
  if (/\p{Nd}/u.test(word)) return 0;
  const known = SYLLABLE_EXCEPTIONS.get(word);
  if (known !== undefined) return known;
  const letters = Array.from(word);
  const isVowel = (index: number) => VOWELS.has(letters[index] ?? "");
  let count = letters.filter((_, index) => isVowel(index) && !isVowel(index - 1)).length;
  if (word.endsWith("e")) count--;
  if (word.endsWith("le") && letters.length > 2 && !isVowel(letters.length - 3)) count++;
  return count === 0 ? 1 : count;
}
