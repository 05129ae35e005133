import type { AnswerForm } from "../../../scorer/answers/answer_form.ts";
import { equalAnswers } from "../../../scorer/answers/equal_answers.ts";
import { type FoundAnswer, MAX_ANSWER_LENGTH } from "../../../scorer/answers/final_answer.ts";
import { answerList, readAnswer } from "../../../scorer/answers/read_answer.ts";
import { matrixValue } from "./matrix_value.ts";
import { plainMaths } from "./plain_maths.ts";

/** A left side that only names what stands on the right: lengths, angles, ratios of these, tuples of variables, f(x). */
const NAME_SIDE =
  /^(?:\(\s*[a-z](?:_\{?\w\}?)?(?:\s*,\s*[a-z](?:_\{?\w\}?)?)*\s*\)|(?:\\(?:frac|angle|overline|triangle|text|widehat|measuredangle|odot)|[A-Z\d\s|:_{}'])*[A-Z](?:\\(?:frac|angle|overline|text)|[A-Z\d\s|:_{}'])*|[a-zA-Z]\s*\(\s*[a-z]\s*\))$/u;
const OTHER_RELATION = /[<>≤≥≠∈]|\\(?:leq?|geq?|neq?|lt|gt|in|equiv)(?:slant)?(?![a-z])|!=/u;
/** Digits of a decimal number that say what exact number it was calculated from. */
const ENOUGH_DIGITS = 10;

/**
 * True when a stated answer is the right one in another notation, for sure. `stated` may be a list; `question` decides
 * whether percents may go without their sign. A decimal number is equal to the exact number that it was rounded from
 * only with ten digits or more.
 */
export function equalMaths(gold: string, stated: readonly string[], question: string): boolean {
  const right = readMaths([gold], question);
  const [only = "", ...more] = stated;
  // A comma before two digits or one is that of decimals in half of the world, unless a list is asked for.
  const decimal = more.length === 0 && right?.form.kind === "number" && !gold.includes(",") &&
    /^\s*-?\d+,\d{1,2}\s*$/u.test(only);
  const found = readMaths(decimal ? [only.replace(",", ".")] : stated, question);
  if (right === undefined || found === undefined) return false;
  if (equalLists(right, found)) return true;
  if (!gold.includes("%")) return false;
  // The right answer is said to be in percent: the sign may be left out.
  const [bare, other] = [readMaths([gold], "percent?"), readMaths(stated, "percent?")];
  return bare !== undefined && other !== undefined && equalLists(bare, other);
}

/** The answer that formulas state together; undefined where they cannot be read. */
export function readMaths(texts: readonly string[], question: string): FoundAnswer | undefined {
  const read = texts.map((text) => withMatrices(readAnswer(valuePart(text), question)));
  const found = read.filter((answer) => answer !== undefined);
  if (found.length < read.length || found.length === 0) return undefined;
  return found.length === 1 ? found[0] : answerList(found, ",");
}

function withMatrices(answer: FoundAnswer | undefined): FoundAnswer | undefined {
  if (answer?.form.kind !== "formula") return answer;
  return { ...answer, form: { ...answer.form, formula: matrixValue(answer.form.formula) } };
}

/** Without what only names the value, and, of a chain of equations, its end. */
function valuePart(text: string): string {
  if (text.length > MAX_ANSWER_LENGTH) return text;
  let value = plainMaths(text).trim()
    .replace(/^(?:\\\(|\\\[|\$+)([\s\S]*?)(?:\\\)|\\\]|\$+)\.?$/u, "$1").trim()
    .replace(/^\\boxed\s*\{([\s\S]*)\}$/u, "$1").trim()
    .replace(/^(?:\\quad\s*)+/u, "").replaceAll(/(?<=,|;)\s*\\q?quad\s*/gu, " ").trim()
    .replace(/\.$/u, "")
    .replace(/^\(\s*[a-z]\w?(?:\s*,\s*[a-z]\w?)+\s*\)\s*=\s*(?=\()/u, "");
  // = 1/3 ≈ 0.33: the first of them is exact.
  const approximated = /^(.*?)(?:\\approx(?![a-z])|≈)(.*)$/su.exec(value);
  if (approximated !== null) {
    const [, before = "", after = ""] = approximated;
    value = /=/u.test(before) || /^[\s\d.\\{}/fracsqrt]+$/u.test(before)
      ? before.trim()
      : `${before.trim()} = ${after.trim()}`;
  }
  // 0 < f(x) < 1 bounds values, whatever their name.
  if (/[<>]|\\[lg](?:t|eq?)(?![a-z])/u.test(value)) {
    value = value.replaceAll(/(?<![a-zA-Z])[a-z]\([a-z]\)/gu, "y");
  }
  value = tuplesOf(value) ?? value;
  const sides = value.split("=").map((side) => side.trim());
  if (
    sides.length < 2 || sides.some((side) => side === "") || OTHER_RELATION.test(value) ||
    /\b(?:and|or)\b/u.test(value) || /[,;∧∨]/u.test(topLevel(value))
  ) {
    return value;
  }
  const last = sides.at(-1)!;
  if (NAME_SIDE.test(sides[0]!) || sides.length > 2) return last;
  return value;
}

/** p = 5, q = 2; p = 7, q = 2 as the pairs (5, 2), (7, 2). */
function tuplesOf(text: string): string | undefined {
  const groups = text.split(";").map((group) =>
    group.split(",").map((item) => /^\s*([a-z](?:_\w)?)\s*=\s*(-?[\w.\\{}/]+)\s*$/u.exec(item))
  );
  if (groups.length < 2 || groups[0]!.length < 2) return undefined;
  const names = groups.map((group) => group.map((item) => item?.[1] ?? "").join());
  if (names.some((one) => one !== names[0] || /^,|,,|,$/u.test(one))) return undefined;
  return groups.map((group) => `(${group.map((item) => item?.[2]).join()})`).join(", ");
}

/** A text without what stands in brackets. */
function topLevel(text: string): string {
  let before = text;
  for (;;) {
    const after = before.replaceAll(/\\?[([{][^()[\]{}]*\\?[)\]}]/gu, " ");
    if (after === before) return after;
    before = after;
  }
}

/** Equality in which items that a list repeats count once. */
function equalLists(a: FoundAnswer, b: FoundAnswer): boolean {
  return equalAnswers(a, b) || equalAnswers(once(a), once(b)) || isRounded(a, b);
}

function once(answer: FoundAnswer): FoundAnswer {
  const { form } = answer;
  if (form.kind !== "list" || form.join === "sequence") return answer;
  const items: AnswerForm[] = [];
  for (const item of form.items) if (!items.some((other) => equalForms(item, other))) items.push(item);
  return { ...answer, form: { ...form, items } };
}

/** Equality of forms alone: their texts differ. */
function equalForms(a: AnswerForm, b: AnswerForm): boolean {
  return equalAnswers({ text: "one", value: "", form: a }, { text: "other", value: "", form: b });
}

/** True for a fraction and a decimal number of enough digits that it is rounded, or cut off, to. */
function isRounded(gold: FoundAnswer, stated: FoundAnswer): boolean {
  if (gold.form.kind !== "number" || stated.form.kind !== "number") return false;
  const decimals = /^-?\d*\.(\d+)$/u.exec(stated.text.replaceAll(/[$\s]/gu, ""))?.[1];
  if (decimals === undefined || decimals.replace(/^0+/u, "").length < ENOUGH_DIGITS) return false;
  const [a, b] = [gold.form, stated.form];
  const difference = a.top * b.bottom - b.top * a.bottom;
  const size = difference < 0n ? -difference : difference;
  return size * 10n ** BigInt(decimals.length) < a.bottom * b.bottom;
}
