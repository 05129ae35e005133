import { announced, lastSentences } from "./anchors.ts";
import type { NumberForm } from "./answer_form.ts";
import { unitOf } from "./units.ts";

/** Longest number that is read, in characters. */
const MAX_LENGTH = 80;
const DIGITS = "\\d{1,3}(?:(?:,|\\{,\\}|\\\\,|\\\\!|,\\\\!| )\\d{3})+(?:\\.\\d+)?|\\d+(?:\\.\\d+)?|\\.\\d+";
const WHOLE = "\\d{1,3}(?:(?:,|\\{,\\})\\d{3})+|\\d+";
/** 7/2, 3 1/2, 1,000 / 3. */
const MIXED = new RegExp(`^(?:(\\d+) )?(${WHOLE})\\s?/\\s?(${WHOLE})(?![\\d.]|,\\d)`, "u");
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
  /^(?:and|or|to|plus|minus|times|divided|over|[xyznkie]|pi|sqrt|log|ln|sin|cos|tan|mod|factorial|dozen|half|halves|thirds|more|less|out|of|through|per cent of|followed|different|if|where|when|either|but)\b/u;
/** Words behind a number and its unit that make it another answer. */
const CONDITIONS = /\s(?:if|when|where|unless|otherwise|or|not|except|than|but)\s/u;
/** The name of a number before it. */
const NAME =
  /^(?:[a-zA-Z]|\\[a-zA-Z]+|[A-Z]{2,3}|\p{L}{3,}(?: \p{L}+){0,4})(?:\s?_\s?(?:\w|\{[\w\s,]{1,12}\}))?(?:\s?\([^()=<>]{1,20}\))?\s?=\s?(?=[^=]*$)/u;
/** Signs and words of an answer that is a range, or none. */
const BOUND =
  /[<>≤≥≠]|!=|\\(?:leq?|geq?|neq?|lt|gt)(?![a-z])|\b(?:at least|at most|more than|less than|fewer than|greater than|no more than|between|up to|cannot|isn't|is not|not equal)\b/iu;
/** The left side of an equation: a number of something, or letters that are calculated with. */
const EQUATION = /(?:\d\s?[a-z]|\b[a-z]\s?[-+*/^]\s?\w+|[-+*/^]\s?[a-z])(?:\s?\^\s?\w+)?\s*$/u;
/** One or two letters that, where they are no unit, are variables: 6 r^2, 2 xy. */
const LETTERS = /^(?!(?:am|pm|hp|px|pt|qt|cc|ha|bc|ad)$)\p{Ll}{1,2}(?:\s?\^?\{?\d\}?)?$/u;
const ATTACHED_UNITS =
  /^(?:%|°[CF]?|km|cm|mm|m|kg|mg|g|s|ms|h|hrs?|min|mins|mph|ft|in|lbs?|oz|l|ml|L|J|N|W|V|Hz|kWh|USD|EUR|€|£|元|个|個|円|人|台|天|岁|小时|米|公里|美元)$/u;

/**
 * A phrase that is one number, with or without a name before it (x = 5), currency and unit. Undefined for all else, and
 * for relations that are no name's value. `question`: whether percent is asked for.
 */
export function parseNumber(phrase: string, question: string): NumberForm | undefined {
  let text = bare(phrase);
  if (text === "" || text.length > MAX_LENGTH) return undefined;
  text = text.replace(NAME, "");
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
  const currency = /^(?:[$€£¥]|US\$|USD|EUR|Rs\.?)\s?/u.exec(text)?.[0] ?? "";
  const fraction = leadingFraction(text.slice(currency.length));
  if (fraction === undefined || !isUnit(fraction.rest)) return undefined;
  const { rest } = fraction;
  const { numerator, denominator } = scaled(fraction, rest);
  if (denominator === 0n) return undefined;
  const percent = /^\s*(?:%|per\s?cent(?:age)?\b|prozent)/iu.test(rest) && !asksForPercent(question);
  return {
    ...reduced(sign * numerator, percent ? denominator * 100n : denominator),
    unit: unitOf(currency.replace(/^US/u, "") || unitBehind(rest)),
  };
}

/** A number as text, without its unit: 18, -7/2. */
export function numberText({ top, bottom }: NumberForm): string {
  return `${top}${bottom === 1n ? "" : `/${bottom}`}`;
}

/** Number that a text states as its answer: announced, or said at its end when a number was asked for. */
export function findNumber(text: string, question: string): { text: string; number: NumberForm } | undefined {
  for (const phrase of announced(text)) {
    const number = parseNumber(phrase, question);
    if (number !== undefined) return { text: phrase, number };
    // A later answer that cannot be read is not one that was given before it.
    if (/\d/u.test(phrase)) return undefined;
  }
  if (!asksForNumber(question)) return undefined;
  for (const sentence of lastSentences(text, 3)) {
    const number = concludingNumber(sentence, question);
    if (number === "ambiguous") return undefined;
    if (number !== undefined) return { text: sentence, number };
  }
  return undefined;
}

/** True when a question asks for a quantity, in English or in a few other languages. */
export function asksForNumber(question: string): boolean {
  return /\bhow (?:many|much|long|old|far|tall|fast|often|big|heavy|deep|high|wide)\b|\bwhat (?:is|are|was|will be|would be) (?:the |his |her |its |their )?(?:\w+ ){0,3}(?:sum|total|number|value|price|cost|probability|percentage|percent|area|volume|ratio|average|mean|perimeter|length|remainder|difference|product|distance|speed|age|profit|amount|height|width|weight|time|root|quotient|median)\b|\bwhat(?:'s| is) [-\d(]|\b(?:calculate|compute|evaluate)\b|\b(?:find|determine) the (?:\w+ ){0,3}(?:sum|total|number|value|price|cost|probability|percentage|area|volume|ratio|average|perimeter|length|remainder|difference|product|distance|speed|age)\b|\bwie ?viele?\b|\bwie (?:lange|weit|alt|hoch)\b|\bcombien\b|\bcu[aá]nt[oa]s?\b|\bquanti?[eo]?\b|сколько|多少|几[个天人岁]|いくつ|何[人個円]/iu
    .test(question);
}

/** True when a question wants its answer in percent. */
function asksForPercent(question: string): boolean {
  return /%|\bper\s?cent|\bprozent|\bpour\s?cent|\bpor\s?ciento|百分/iu.test(question);
}

/** The one number that a sentence comes to; `ambiguous` when there are several and nothing tells which, or it is a bound. */
function concludingNumber(sentence: string, question: string): NumberForm | "ambiguous" | undefined {
  if (BOUND.test(sentence)) return "ambiguous";
  const bold = [...sentence.matchAll(/\*\*([^*]{1,60})\*\*/gu)].at(-1)?.[1];
  const inBold = bold === undefined ? undefined : parseNumber(bold.replace(/[.:]$/u, ""), question);
  if (inBold !== undefined) return inBold;
  const equals = sentence.lastIndexOf("=");
  // 3x = 12, x + y = 5: what stands behind is a side of an equation, not its answer.
  if (equals >= 0 && EQUATION.test(sentence.slice(Math.max(0, equals - 80), equals))) return "ambiguous";
  const from = equals >= 0 ? sentence.slice(equals + 1) : sentence;
  const numbers = [...from.matchAll(numberInText)].flatMap(([text]) => parseNumber(text, question) ?? []);
  const first = numbers[0];
  if (first === undefined) return /\d/u.test(from) ? "ambiguous" : undefined;
  const distinct = new Set(numbers.map(numberText));
  return equals < 0 && distinct.size > 1 ? "ambiguous" : first;
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
  const mixed = MIXED.exec(text);
  if (mixed !== null) {
    const [whole = 0n, top = 0n, denominator = 0n] = mixed.slice(1).map((part) =>
      BigInt((part ?? "0").replaceAll(/\D/gu, ""))
    );
    const numerator = top + whole * denominator;
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
  const trimmed = rest.trim().replace(/[.,;:?]$/u, "");
  if (trimmed === "" || ATTACHED_UNITS.test(trimmed) || /^\^\{?\\circ\}?$|^degrees?$/u.test(trimmed)) {
    return true;
  }
  // A remark in words, not the rest of a product.
  if (/^\([^()\d+*^=-]{2,40}\)$/u.test(trimmed) && /\p{L}{2}/u.test(trimmed)) return true;
  // A unit in words needs a blank, so that 5x is no five of x.
  if (!/^\s/u.test(rest)) {
    if (!/^[-]?[a-z]{3,}/u.test(rest)) return false;
  } // What begins with a sign goes on with the formula: 4 - x, 2 / x.
  else if (!/^[\p{L}%°€£$'²³]/u.test(trimmed)) return false;
  if (LETTERS.test(trimmed) && unitOf(trimmed) === undefined) return false;
  if (NOT_UNITS.test(trimmed.toLowerCase()) || CONDITIONS.test(trimmed.toLowerCase())) return false;
  return trimmed.split(/\s+/u).length <= 8 && /^[\p{L}%°€£$/'^{}\-\s()²³.]+(?:\^?[23])?$/u.test(trimmed) &&
    !/\s[-+]\s|\/\s?\d$/u.test(trimmed);
}

function scaled({ numerator, denominator }: Fraction, rest: string): Omit<Fraction, "rest"> {
  const exponent = MAGNITUDES[/^\s*([a-z]+)/u.exec(rest.toLowerCase())?.[1] ?? ""];
  return { numerator: exponent === undefined ? numerator : numerator * 10n ** BigInt(exponent), denominator };
}

/** The text behind a number without its magnitude and what only remarks on it. */
function unitBehind(rest: string): string {
  const words = rest.trim().replace(/[.,;:?]$/u, "").replace(
    /^(?:hundred|thousand|million|billion|trillion)\b\s*/iu,
    "",
  );
  return words.replace(/^\^\{?\\circ\}?/u, "°");
}

function reduced(numerator: bigint, denominator: bigint): Omit<NumberForm, "unit"> {
  let [a, b] = [numerator < 0n ? -numerator : numerator, denominator];
  while (b !== 0n) [a, b] = [b, a % b];
  const divisor = a === 0n ? denominator : a;
  return { kind: "number", top: numerator / divisor, bottom: denominator / divisor };
}

/** eighteen, twenty-five dollars. */
function numberWord(text: string): NumberForm | undefined {
  const match = /^([a-z]+)(?:[- ]([a-z]+))?((?:\s\S+){0,4})$/iu.exec(text);
  if (match === null) return undefined;
  const [first, second] = [match[1]!.toLowerCase(), match[2]?.toLowerCase()];
  const ten = tens.indexOf(first);
  const unit = second === undefined ? -1 : words.indexOf(second);
  const behind = (match[3] ?? "").trim();
  if (ten >= 0 && unit > 0 && unit < 10) return wordForm(20 + 10 * ten + unit, behind);
  if (second !== undefined && (second in MAGNITUDES || NOT_UNITS.test(second))) return undefined;
  const things = `${match[2] ?? ""} ${behind}`.trim();
  if (ten >= 0) return wordForm(20 + 10 * ten, things);
  const word = words.indexOf(first);
  return word >= 0 ? wordForm(word, things) : undefined;
}

function wordForm(value: number, things: string): NumberForm {
  return { kind: "number", top: BigInt(value), bottom: 1n, unit: unitOf(things) };
}

/** Without LaTeX's wrappings and closing marks. */
function bare(phrase: string): string {
  const text = phrase.slice(0, 4 * MAX_LENGTH);
  // In pairs they enclose a formula, alone they are dollars.
  const enclosing = (text.match(/(?<!\\)\$/gu)?.length ?? 0) % 2 === 0;
  return text
    .replaceAll(
      /\\(?:left|right|displaystyle|quad|,|;|:)(?![a-z])/gu,
      (space) => space === "\\," ? "{,}" : " ",
    )
    .replaceAll(/\{,\}(?!\d{3})/gu, " ")
    .replaceAll(/\\[dtc]frac/gu, "\\frac")
    .replaceAll(/\\(?:text|mathrm|textbf|mathbf|operatorname)\s*\{([^{}]{0,60})\}/gu, " $1 ")
    .replaceAll(/\\\(|\\\)|\\\[|\\\]|\*\*|`/gu, " ")
    .replaceAll(enclosing ? /(?<!\\)\$/gu : /(?<!\\)\$(?!\d)/gu, " ")
    .replaceAll(/\\([$%])/gu, "$1")
    .replaceAll(/\s+/gu, " ")
    .trim()
    .replace(/[.,;?:。！？；，]+$|(?<=\p{L}{2})!+$/u, "")
    .trim();
}
