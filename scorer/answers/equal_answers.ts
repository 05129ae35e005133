import type { AnswerForm } from "./answer_form.ts";
import type { FoundAnswer } from "./final_answer.ts";
import { equalFormulas, matchAll, regionOf } from "./maths/equal_formulas.ts";
import { call, type Formula } from "./maths/formula.ts";
import { normalText } from "./normal_text.ts";
import type { Unit } from "./units.ts";

/**
 * Equality of final answers, whatever their notation and kind: reflexive and symmetric; never true where it is in doubt.
 * Takes well under 5 ms whatever the answers are.
 */
export function equalAnswers(a: FoundAnswer, b: FoundAnswer): boolean {
  return a.text === b.text || equalForms(a.form, b.form) || normalTextOf(a) === normalTextOf(b);
}

const NORMAL_TEXTS = new WeakMap<FoundAnswer, string>();

/** `normalText` of an answer, kept with it: each is compared with all others of its run, again and again. */
function normalTextOf(answer: FoundAnswer): string {
  let text = NORMAL_TEXTS.get(answer);
  if (text === undefined) NORMAL_TEXTS.set(answer, text = normalText(answer.text));
  return text;
}

function equalForms(a: AnswerForm, b: AnswerForm): boolean {
  if (a.kind === "assigned" && b.kind === "assigned") {
    return equalForms(a.value, b.value) ||
      (a.formula !== undefined && b.formula !== undefined && equalFormulas(a.formula, b.formula));
  }
  if (a.kind === "assigned") return equalToAssigned(a, b);
  if (b.kind === "assigned") return equalToAssigned(b, a);
  if (a.kind === "text" || b.kind === "text") {
    return a.kind === "text" && b.kind === "text" && a.text === b.text;
  }
  if (a.kind === "list" || b.kind === "list") return equalLists(a, b);
  if (a.kind === "number" && b.kind === "number") return equalNumbers(a, b);
  if (a.unit !== undefined && b.unit !== undefined && a.unit.dimension !== b.unit.dimension) return false;
  return equalFormulas(withUnit(a, b.unit), withUnit(b, a.unit));
}

type Assigned = AnswerForm & { readonly kind: "assigned" };
type Single = AnswerForm & { readonly kind: "number" | "formula" };
type List = AnswerForm & { readonly kind: "list" };

/** y = 2x + 3 is 2x + 3, and is the equation 2x − y + 3 = 0. */
function equalToAssigned({ formula, value }: Assigned, other: AnswerForm): boolean {
  if (other.kind === "formula" && other.formula.kind === "relation") {
    return formula !== undefined && equalFormulas(formula, other.formula);
  }
  return equalForms(value, other);
}

function equalLists(a: AnswerForm, b: AnswerForm): boolean {
  if (a.kind === "list" && b.kind === "list") {
    const sequences = [a.join, b.join].filter((join) => join === "sequence").length;
    if (sequences === 1) return false;
    if (sequences === 2) {
      return a.items.length === b.items.length && a.items.every((item, at) => equalItems(item, b.items[at]!));
    }
    // x < 1 and x > 2 is something else than x < 1 or x > 2.
    if (a.join !== b.join && [...a.items, ...b.items].some(isRelation)) return false;
    return matchAll(a.items, b.items, equalItems);
  }
  const [list, other] = a.kind === "list" ? [a, b] : [b, a];
  if (list.kind !== "list" || other.kind !== "formula") return false;
  const region = unionOf(list);
  return region !== undefined && equalFormulas(region, other.formula);
}

/** Items of lists: where both have names these are equal, too. */
function equalItems(a: AnswerForm, b: AnswerForm): boolean {
  if (a.kind === "assigned" && b.kind === "assigned" && a.name !== b.name) return false;
  return equalForms(a, b);
}

function isRelation(form: AnswerForm): boolean {
  return form.kind === "formula" && form.formula.kind === "relation";
}

/** x < 1 or x > 2 as a union of intervals; of the same variable only. */
function unionOf({ items, join }: List): Formula | undefined {
  if (join !== "∨") return undefined;
  const regions = items.map((item) => item.kind === "formula" ? regionOf(item.formula) : undefined);
  if (!regions.every((region) => region?.kind === "bracket")) return undefined;
  return { kind: "union", items: regions.filter((region) => region !== undefined) };
}

function equalNumbers(a: Single & { kind: "number" }, b: Single & { kind: "number" }): boolean {
  if (a.unit === undefined || b.unit === undefined) return a.top * b.bottom === b.top * a.bottom;
  if (a.unit.dimension !== b.unit.dimension) return false;
  return a.top * a.unit.top * b.bottom * b.unit.bottom === b.top * b.unit.top * a.bottom * a.unit.bottom;
}

/** The value in base units where the other one has a unit, too. */
function withUnit(form: Single, other: Unit | undefined): Formula {
  const { unit } = form;
  const formula: Formula = form.kind === "formula" ? form.formula : numberFormula(form.top, form.bottom);
  if (unit === undefined || other === undefined) return formula;
  return call("mul", formula, numberFormula(unit.top, unit.bottom));
}

function numberFormula(top: bigint, bottom: bigint): Formula {
  const digits = Math.max(significant(top), significant(bottom));
  return { kind: "number", top, bottom, digits };
}

function significant(value: bigint): number {
  return value.toString().replace("-", "").replace(/0+$/, "").length;
}
