import { pythonMatch } from "./python_text.ts";

const ONES = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"];
const TEENS = [
  "ten",
  "eleven",
  "twelve",
  "thirteen",
  "fourteen",
  "fifteen",
  "sixteen",
  "seventeen",
  "eighteen",
  "nineteen",
];
const TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"];
const SCALES: readonly (readonly [string, number])[] = [["billion", 1e9], ["million", 1e6], [
  "thousand",
  1e3,
]];
const VALUES: ReadonlyMap<string, number> = new Map([
  ...ONES.map((word, index) => [word, index] as const),
  ...TEENS.map((word, index) => [word, 10 + index] as const),
  ...TENS.map((word, index) => [word, 20 + 10 * index] as const),
  ["hundred", 100],
  ...SCALES,
]);
// Which words lm-eval's pattern knows: those from six to nine only within a longer number, and none with a hyphen.
const KNOWN = "zero|one|two|three|four|five";
const STEMS = "(?:twen|thir|for|fif|six|seven|nine)";
const LARGE = "ten|eleven|twelve|fourteen|hundred|thousand|(?:m|b|tr)illion";
const LAST = `(?:${KNOWN}|${STEMS}(?:teen|ty)|eight(?:een|y)|${LARGE})`;
const FIRST = `(?:${KNOWN}|${STEMS}(?:teen|ty)|eight(?:|een|y)|${LARGE})`;
const MIDDLE = `(?:${KNOWN}|${STEMS}(?:|teen|ty)|eight(?:een|y)|${LARGE}|[^\\S\\r\\n]|,|and|&)`;
const NUMBER_WORDS = new RegExp(`(?:${FIRST}${MIDDLE}+)?${LAST}`, "gu");

/** The last run of digits and minus signs; else the last number in English words, as word2number reads it. */
export function lastNumber(text: string): string | undefined {
  const digits = pythonMatch(/[-0-9]+/gu, text, "last");
  if (digits !== undefined) return digits;
  const words = pythonMatch(NUMBER_WORDS, text.toLowerCase(), "last");
  const value = words === undefined
    ? undefined
    : numberOf(words.split(/\s+/u).filter((word) => VALUES.has(word)));
  return value === undefined ? undefined : String(value);
}

/** The number that words stand for; undefined where word2number refuses them. */
function numberOf(words: readonly string[]): number | undefined {
  if (words.length === 1) return VALUES.get(words[0]!);
  let sum = 0;
  let rest = words;
  for (const [scale, factor] of SCALES) {
    const at = rest.indexOf(scale);
    if (at < 0) continue;
    const group = groupOf(rest.slice(0, at));
    if (group === undefined) return undefined;
    sum += group * factor;
    rest = rest.slice(at + 1);
  }
  if (rest.some((word) => SCALES.some(([scale]) => scale === word))) return undefined;
  if (rest.length === 0) return words.length === 0 ? undefined : sum;
  const group = groupOf(rest);
  return group === undefined ? undefined : sum + group;
}

/** "two hundred sixty one" and shorter. */
function groupOf(words: readonly string[]): number | undefined {
  const [a, b = 0, c = 0, d = 0] = words.map((word) => VALUES.get(word)!);
  if (a === undefined || words.length === 1 || words.length > 4) return a;
  if (words.length === 2) return words.includes("hundred") ? a * b : a + b;
  return a * b + c + d;
}
