import type { AnswerForm, ListJoin, NumberForm } from "./answer_form.ts";
import { choiceValue } from "./choice.ts";
import { equalAnswers } from "./equal_answers.ts";
import { type FoundAnswer, MAX_ANSWER_LENGTH, textAnswer } from "./final_answer.ts";
import { branchesOf } from "./maths/equal_formulas.ts";
import { variablesOf } from "./maths/formula.ts";
import { parseFormula } from "./maths/parse_formula.ts";
import { normalText, plainText } from "./normal_text.ts";
import { numberText, parseNumber } from "./number.ts";
import { unitOf } from "./units.ts";

/** Longest list; what has more items is compared letter by letter. */
const MAX_ITEMS = 16;
/** A name before an equals sign: x, x_1, \theta, AB, area, total cost, f(x), P(A). */
const NAMED =
  /^((?:[a-zA-Z]|\\[a-zA-Z]+|[A-Z]{2,3}|\p{L}{3,}(?: \p{L}+){0,4})(?:\s?_\s?(?:\w|\{[\w\s,]{1,12}\}))?'?(?:\^\s?\{?-1\}?)?(?:\s?\([^()=<>]{1,20}\))?)\s?(=|∈|\\in(?![a-z]))\s?(?!=)(.+)$/u;
/** A date in figures, the year first or last. */
const DATE = /^(?:[12]\d{3}([-/.])\d{1,2}\1\d{1,2}|\d{1,2}([-/.])\d{1,2}\2[12]\d{3})$/u;
/** A calculation in parentheses behind an answer and a blank. */
const REMARKED = /^([^()]*[^\s()]) \(([^()]*[-+*/×·÷^][^()]*)\)$/u;
const RELATION = /[=<>≤≥≠≈∈]|\\(?:leq?|geq?|neq?|lt|gt|in|approx|equiv|sim|to)(?:slant)?(?![a-z])/u;

/**
 * The final answer that a short text is: a number, a choice, a formula, a list of them, else words. `question`: whether
 * percent is asked for. Undefined for what is empty or too long.
 */
export function readAnswer(text: string, question: string): FoundAnswer | undefined {
  if (text.length > MAX_ANSWER_LENGTH) return undefined;
  const number = parseNumber(text, question);
  if (number !== undefined) return numberAnswer(text, number);
  const choice = choiceValue(text);
  if (choice !== undefined) return textAnswer(text, `choice:${choice}`);
  const plain = plainText(text);
  if (plain === "") return undefined;
  if (DATE.test(plain)) return textAnswer(text, `expression:${normalText(plain)}`);
  const set = /^\\?\{(.*?)\\?\}$/u.exec(plain)?.[1];
  const { items, join } = listItems(set ?? plain);
  const answer = items.length < 2
    ? itemOf(plain, question)
    : listOf(items.map((item) => itemOf(item, question)), join);
  return { ...answer, text };
}

/** An answer of several that a text gives one after the other; `sequence` where they answer different parts. */
export function answerList(answers: readonly FoundAnswer[], join: "," | "sequence"): FoundAnswer {
  return { ...listOf(answers, join), text: answers.map(({ text }) => text).join(", ") };
}

/** An answer that is a number. */
export function numberAnswer(text: string, number: NumberForm): FoundAnswer {
  return { text, value: `number:${numberText(number)}`, form: number };
}

/** One item of a list, or all of an answer that is none. */
function itemOf(plain: string, question: string): FoundAnswer {
  const [, name, sign, rest = ""] = NAMED.exec(plain) ?? [];
  if (name === undefined) {
    const number = parseNumber(plain, question);
    if (number !== undefined) return numberAnswer(plain, number);
    const remarked = valueWithRemark(plain, question);
    if (remarked !== undefined) return remarked;
    // 6 + 8 = 14 says 14.
    const value = plain.includes("=") ? valueOfChain(plain, question) : undefined;
    return value?.form.kind === "number" ? value : formulaOf(plain);
  }
  if (sign !== "=") return itemOf(rest, question);
  const value = valueOfChain(rest, question);
  if (value === undefined) return formulaOf(plain);
  const form: AnswerForm = {
    kind: "assigned",
    name: normalText(name),
    formula: parseFormula(plain),
    value: value.form,
  };
  return { text: plain, value: value.value, form };
}

/** Of 12 (3 + 9) the number, which what is in parentheses comes to; undefined where it does not: a product. */
function valueWithRemark(plain: string, question: string): FoundAnswer | undefined {
  const [, before, remark] = REMARKED.exec(plain) ?? [];
  if (before === undefined || remark === undefined) return undefined;
  const number = parseNumber(before, question);
  if (number === undefined) return undefined;
  const answer = numberAnswer(before, number);
  return equalAnswers(answer, itemOf(remark, question)) ? answer : undefined;
}

/** Of 3 + 4 = 7 the end, when both sides are equal; undefined for any other relation. */
function valueOfChain(text: string, question: string): FoundAnswer | undefined {
  if (!RELATION.test(text)) return itemOf(text, question);
  const sides = text.split("=").map((side) => side.trim());
  if (sides.length > 4 || sides.some((side) => side === "" || RELATION.test(side) || /[<>!:]$/u.test(side))) {
    return undefined;
  }
  const read = sides.map((side) => itemOf(side, question));
  const last = read.at(-1)!;
  return read.every((side) => equalAnswers(side, last)) ? last : undefined;
}

function formulaOf(plain: string): FoundAnswer {
  const value = `expression:${normalText(plain)}`;
  // A word alone is a word, whatever formula its letters could be.
  if (/^[\p{L}\s]{2,}$/u.test(plain)) return textAnswer(plain, value);
  const [, before, unitText = ""] = /^(.*\S)\s([a-zA-Z°][\w\s/^°]{0,30})$/u.exec(plain) ?? [];
  const unit = unitOf(unitText);
  const measured = before === undefined || unit === undefined ? undefined : parseFormula(before);
  if (measured !== undefined && variablesOf(measured).size === 0) {
    return { text: plain, value, form: { kind: "formula", formula: measured, unit } };
  }
  const formula = parseFormula(plain);
  if (formula === undefined) return textAnswer(plain, value);
  const branches = branchesOf(formula).map((formula): AnswerForm => ({ kind: "formula", formula }));
  const form: AnswerForm = branches.length === 1
    ? branches[0]!
    : { kind: "list", items: branches, join: "," };
  return { text: plain, value, form };
}

function listOf(items: readonly FoundAnswer[], join: ListJoin): FoundAnswer {
  const names = new Set(items.flatMap(({ form }) => form.kind === "assigned" ? [form.name] : []));
  // x = 1 or x = 2: the name says nothing more; x = 1, y = 2: it does.
  const single = names.size < 2 && join !== "sequence";
  const forms = items.map(({ form }) => single && form.kind === "assigned" ? form.value : form);
  const values = items.map(({ form, value }) =>
    !single && form.kind === "assigned" ? `${form.name}=${value}` : value
  );
  return {
    text: "",
    value: join === "sequence" ? `sequence:${values.join(",")}` : `list:${values.sort().join(",")}`,
    form: {
      kind: "list",
      items: forms.flatMap((form) => join !== "sequence" && form.kind === "list" ? form.items : [form]),
      join,
    },
  };
}

/** Parts of a list at its top level; parentheses of a tuple keep it in one piece. */
function listItems(plain: string): { items: string[]; join: ListJoin } {
  const items: string[] = [];
  let join: ListJoin = ",";
  let depth = 0;
  let start = 0;
  for (let at = 0; at < plain.length; at++) {
    const char = plain[at]!;
    if ("([{".includes(char)) depth++;
    else if (")]}".includes(char)) depth--;
    // Braces that are no pair: not a set but {1} ∪ {2}.
    if (depth < 0) return { items: [], join };
    if (depth > 0 || !",;∧∨".includes(char)) continue;
    items.push(plain.slice(start, at).trim());
    if (char === "∨" || (char === "∧" && join !== "∨")) join = char;
    start = at + 1;
  }
  items.push(plain.slice(start).trim());
  return { items: items.length <= MAX_ITEMS && items.every((item) => item !== "") ? items : [], join };
}
