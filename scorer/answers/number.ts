import { announced, lastSentences } from "./anchors.ts";
import type { FoundAnswer } from "./final_answer.ts";

/** Longest number that is read, in characters. */
const MAX_LENGTH = 80;
const DIGITS = "\\d{1,3}(?:(?:,|\\{,\\}|\\\\,|\\\\!|,\\\\!| )\\d{3})+(?:\\.\\d+)?|\\d+(?:\\.\\d+)?|\\.\\d+";
const numberInText = new RegExp(
  `(?<![\\w.\\\\^_])[-+]?[$€£¥]?(?:\\d{1,3}(?:,\\d{3})+(?:\\.\\d+)?|\\d+(?:\\.\\d+)?)(?:/\\d+)?(?![\\w^]|\\.\\d|,\\d)`,
  "gu",
);
const MAGNITUDES: Readonly<Record<string, number>> = {
  hundred: 2,
  thousand: 3,
  million: 6,
  billion: 9,
  trillion: 12,
};
const words =
  "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen"
    .split(" ");
const tens = "twenty thirty forty fifty sixty seventy eighty ninety".split(" ");
/** Behind a number these make it something else than that number of things. */
const NOT_UNITS =
  /^(?:and|or|to|plus|minus|times|divided|x|y|z|n|k|i|e|more|less|out|of|through|per cent of|followed|different|if|where|when|either|but)\b/u;
const ATTACHED_UNITS =
  /^(?:%|°[CF]?|km|cm|mm|m|kg|mg|g|s|ms|h|hrs?|min|mins|mph|ft|in|lbs?|oz|l|ml|L|J|N|W|V|Hz|kWh|USD|EUR|€|£|元|个|個|円|人|台|天|岁|小时|米|公里|美元)$/u;

/** A phrase that is one number, with or without currency and unit; as a reduced fraction. Undefined for all else. */
export function parseNumber(phrase: string): string | undefined {
  let text = bare(phrase);
  if (text === "" || text.length > MAX_LENGTH) return undefined;
  const equals = text.lastIndexOf("=");
  // "x = 2 or x = 1" is a list, not an equation.
  if (/=.*(?:\b(?:or|and)\b|[,;]).*=/u.test(text)) return undefined;
  if (equals >= 0) text = text.slice(equals + 1).trim();
  text = text.replace(
    /^(?:approximately|about|around|roughly|exactly|only|just|a total of|\\approx|≈|~)\s*/iu,
    "",
  );
  const wordy = numberWord(text);
  if (wordy !== undefined) return wordy;
  let sign = 1n;
  const signed = /^\(?([-+])\s?/u.exec(text);
  if (signed !== null) {
    if (signed[1] === "-") sign = -1n;
    text = text.slice(signed[0].length).replace(/\)$/u, "");
  }
  text = text.replace(/^(?:[$€£¥]|US\$|USD|EUR|Rs\.?)\s?/u, "");
  const fraction = leadingFraction(text);
  if (fraction === undefined || !isUnit(fraction.rest)) return undefined;
  const { numerator, denominator } = scaled(fraction, fraction.rest);
  return denominator === 0n ? undefined : reduced(sign * numerator, denominator);
}

/** Number that a text states as its answer: announced, or said at its end when a number was asked for. */
export function findNumber(text: string, question: string): FoundAnswer | undefined {
  for (const phrase of announced(text)) {
    const value = parseNumber(phrase);
    if (value !== undefined) return { text: phrase, value };
  }
  if (!asksForNumber(question)) return undefined;
  for (const sentence of lastSentences(text, 3)) {
    const found = concludingNumber(sentence);
    if (found === "ambiguous") return undefined;
    if (found !== undefined) return { text: sentence, value: found };
  }
  return undefined;
}

/** True when a question asks for a quantity, in English or in a few other languages. */
export function asksForNumber(question: string): boolean {
  return /\bhow (?:many|much|long|old|far|tall|fast|often|big|heavy|deep|high|wide)\b|\bwhat (?:is|are|was|will be|would be) (?:the |his |her |its |their )?(?:\w+ ){0,3}(?:sum|total|number|value|price|cost|probability|percentage|percent|area|volume|ratio|average|mean|perimeter|length|remainder|difference|product|distance|speed|age|profit|amount|height|width|weight|time|root|quotient|median)\b|\bwhat(?:'s| is) [-\d(]|\b(?:calculate|compute|evaluate)\b|\b(?:find|determine) the (?:\w+ ){0,3}(?:sum|total|number|value|price|cost|probability|percentage|area|volume|ratio|average|perimeter|length|remainder|difference|product|distance|speed|age)\b|\bwie ?viele?\b|\bwie (?:lange|weit|alt|hoch)\b|\bcombien\b|\bcu[aá]nt[oa]s?\b|\bquanti?[eo]?\b|сколько|多少|几[个天人岁]|いくつ|何[人個円]/iu
    .test(question);
}

/** The one number that a sentence comes to; `ambiguous` when there are several and nothing tells which. */
function concludingNumber(sentence: string): string | "ambiguous" | undefined {
  const bold = [...sentence.matchAll(/\*\*([^*]{1,60})\*\*/gu)].at(-1)?.[1];
  const inBold = bold === undefined ? undefined : parseNumber(bold.replace(/[.:]$/u, ""));
  if (inBold !== undefined) return inBold;
  const equals = sentence.lastIndexOf("=");
  const from = equals >= 0 ? sentence.slice(equals + 1) : sentence;
  const numbers = [...from.matchAll(numberInText)].map(([text]) => parseNumber(text));
  const distinct = [...new Set(numbers)];
  if (equals >= 0 && distinct.length > 0) return distinct[0] ?? "ambiguous";
  return distinct.length > 1 ? "ambiguous" : distinct[0];
}

interface Fraction {
  readonly numerator: bigint;
  readonly denominator: bigint;
  readonly rest: string;
}

/** The number at the start of a text: decimal, fraction, mixed number or power of ten. */
function leadingFraction(text: string): Fraction | undefined {
  const latex = /^(?:(\d+)\s*)?\\frac\s*(?:\{(-?\d+)\}|(\d))\s*(?:\{(\d+)\}|(\d))/u.exec(text);
  if (latex !== null) {
    const whole = BigInt(latex[1] ?? 0);
    const denominator = BigInt(latex[4] ?? latex[5]!);
    const numerator = BigInt(latex[2] ?? latex[3]!) + whole * denominator;
    return { numerator, denominator, rest: text.slice(latex[0].length) };
  }
  const mixed = /^(?:(\d+) )?(\d+)\s?\/\s?(\d+)(?![\d.])/u.exec(text);
  if (mixed !== null) {
    const denominator = BigInt(mixed[3]!);
    const numerator = BigInt(mixed[2]!) + BigInt(mixed[1] ?? 0) * denominator;
    return { numerator, denominator, rest: text.slice(mixed[0].length) };
  }
  const match = new RegExp(
    `^(${DIGITS})(?![\\d]|[.,]\\d)(?:\\s?(?:\\\\times|\\\\cdot|×|\\*|x)\\s?10\\^\\{?(-?\\d{1,2})\\}?|[eE]([-+]?\\d{1,2})(?!\\w))?`,
    "u",
  ).exec(text);
  if (match === null) {
    const power = /^10\^\{?(\d{1,2})\}?/u.exec(text);
    if (power === null) return undefined;
    return { numerator: 10n ** BigInt(power[1]!), denominator: 1n, rest: text.slice(power[0].length) };
  }
  const rest = text.slice(match[0].length);
  // 10^2 is a power, 5^2 an expression, not a number with a unit.
  if (rest.startsWith("^") && !/^\^\{?\\circ\}?/u.test(rest)) {
    const power = match[1] === "10" ? /^10\^\{?(\d{1,2})\}?/u.exec(text) : null;
    if (power === null) return undefined;
    return { numerator: 10n ** BigInt(power[1]!), denominator: 1n, rest: text.slice(power[0].length) };
  }
  const [whole = "", decimals = ""] = match[1]!.replaceAll(/[^\d.]/gu, "").split(".");
  const exponent = Number(match[2] ?? match[3] ?? 0) - decimals.length;
  const value = BigInt(whole + decimals);
  return exponent >= 0
    ? { numerator: value * 10n ** BigInt(exponent), denominator: 1n, rest }
    : { numerator: value, denominator: 10n ** BigInt(-exponent), rest };
}

/** True for what may stand behind a number without changing it. */
function isUnit(rest: string): boolean {
  const trimmed = rest.trim().replace(/[.,;:!?]$/u, "");
  if (trimmed === "" || ATTACHED_UNITS.test(trimmed) || /^\^\{?\\circ\}?$|^degrees?$/u.test(trimmed)) {
    return true;
  }
  if (/^\([^()\d]{1,40}\)$/u.test(trimmed)) return true;
  // A unit in words needs a blank, so that 5x is no five of x.
  if (!/^\s/u.test(rest) && !/^[-]?[a-z]{3,}/u.test(rest)) return false;
  if (NOT_UNITS.test(trimmed.toLowerCase())) return false;
  return trimmed.split(/\s+/u).length <= 8 && /^[\p{L}%°€£$/'^{}\-\s()²³.]+(?:\^?[23])?$/u.test(trimmed) &&
    !/\s[-+]\s/u.test(trimmed);
}

function scaled({ numerator, denominator }: Fraction, rest: string): Omit<Fraction, "rest"> {
  const exponent = MAGNITUDES[/^\s*([a-z]+)/u.exec(rest.toLowerCase())?.[1] ?? ""];
  return { numerator: exponent === undefined ? numerator : numerator * 10n ** BigInt(exponent), denominator };
}

function reduced(numerator: bigint, denominator: bigint): string {
  let [a, b] = [numerator < 0n ? -numerator : numerator, denominator];
  while (b !== 0n) [a, b] = [b, a % b];
  const divisor = a === 0n ? denominator : a;
  const bottom = denominator / divisor;
  return `${numerator / divisor}${bottom === 1n ? "" : `/${bottom}`}`;
}

/** eighteen, twenty-five dollars. */
function numberWord(text: string): string | undefined {
  const match = /^([a-z]+)(?:[- ]([a-z]+))?((?:\s\S+){0,4})$/iu.exec(text);
  if (match === null) return undefined;
  const [first, second] = [match[1]!.toLowerCase(), match[2]?.toLowerCase()];
  const ten = tens.indexOf(first);
  const unit = second === undefined ? -1 : words.indexOf(second);
  if (ten >= 0 && unit > 0 && unit < 10) return String(20 + 10 * ten + unit);
  if (second !== undefined && (second in MAGNITUDES || NOT_UNITS.test(second))) return undefined;
  if (ten >= 0) return String(20 + 10 * ten);
  const word = words.indexOf(first);
  return word >= 0 ? String(word) : undefined;
}

/** Without LaTeX's wrappings and closing marks. */
function bare(phrase: string): string {
  return phrase.slice(0, 4 * MAX_LENGTH)
    .replaceAll(
      /\\(?:left|right|displaystyle|quad|,|;|:)(?![a-z])/gu,
      (space) => space === "\\," ? "{,}" : " ",
    )
    .replaceAll(/\{,\}(?!\d{3})/gu, " ")
    .replaceAll(/\\[dtc]frac/gu, "\\frac")
    .replaceAll(/\\(?:text|mathrm|textbf|mathbf|operatorname)\s*\{([^{}]{0,60})\}/gu, " $1 ")
    .replaceAll(/\\\(|\\\)|\\\[|\\\]|(?<!\\)\$(?!\d)|\*\*|`/gu, " ")
    .replaceAll(/\\([$%])/gu, "$1")
    .replaceAll(/\$(?=\d[^$]*$)/gu, "")
    .replaceAll(/\s+/gu, " ")
    .trim()
    .replace(/[.,;!?:。！？；，]+$/u, "")
    .trim();
}
