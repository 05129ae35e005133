import { Random } from "../../../base/random.ts";
import { exactValue, PRIME, ratioOf, type Residue, sameResidue } from "./exact_value.ts";
import { call, type Comparison, type Formula, hasPart, variablesOf } from "./formula.ts";
import { numericValue, UNSURE } from "./numeric_value.ts";

/** Points at which two formulas are compared exactly: two different ones pass at all of them once in 10^50. */
const EXACT_POINTS = 3;
/** Points that are tried in floating point, and at how many of them both must have the same value. */
const NUMERIC_POINTS = 16;
const LEAST_POINTS = 6;
/** Relative difference of equal values in floating point. */
const TOLERANCE = 1e-12;
/** Most items of sets and unions that are compared in any order. */
const MAX_ITEMS = 16;

/**
 * True when two formulas are equal as far as can be told for sure: expressions that have the same value wherever they
 * are tried (at seeded points: exactly where both are rational, in floating point where not, to 12 digits), relations whose sides
 * differ by the same multiple, containers of equal items. Never true where it is in doubt. Bounded by the length of the
 * formulas: some hundred microseconds for the longest.
 */
export function equalFormulas(a: Formula, b: Formula): boolean {
  if (isExpression(a) && isExpression(b)) return equalExpressions(a, b);
  if (a.kind === "relation" && b.kind === "relation") return equalRelations(a.comparisons, b.comparisons);
  if (a.kind === "matrix" && b.kind === "matrix") {
    return a.bars === b.bars && a.rows.length === b.rows.length &&
      a.rows.every((row, index) => equalLists(row, b.rows[index]!));
  }
  const [first, second] = [regionOf(a), regionOf(b)];
  if (first.kind === "bracket" && second.kind === "bracket") {
    return first.open === second.open && first.close === second.close &&
      equalLists(first.items, second.items);
  }
  if (
    (first.kind === "union" && second.kind === "union") || (first.kind === "set" && second.kind === "set")
  ) {
    return matchAll(first.items, second.items, equalFormulas);
  }
  return false;
}

/** True when the items can be paired so that each pair is equal. */
export function matchAll<T>(a: readonly T[], b: readonly T[], equal: (a: T, b: T) => boolean): boolean {
  if (a.length !== b.length || a.length > MAX_ITEMS) return false;
  const open = [...b];
  return a.every((item) => {
    const place = open.findIndex((other) => equal(item, other));
    if (place >= 0) open.splice(place, 1);
    return place >= 0;
  });
}

/** Both branches of a formula with ±; the formula alone where it has none. */
export function branchesOf(formula: Formula): readonly Formula[] {
  const signed = (part: Formula) => part.kind === "call" && (part.name === "pm" || part.name === "mp");
  if (!hasPart(formula, signed)) return [formula];
  return [withSigns(formula, "add", "sub"), withSigns(formula, "sub", "add")];
}

/** x ≥ 5 and −2 ≤ x < 7 as intervals, where x is a variable alone and the bounds are without it; all else as it is. */
export function regionOf(formula: Formula): Formula {
  if (formula.kind !== "relation") return formula;
  const { comparisons } = formula;
  const [first, second] = comparisons;
  const infinity: Formula = { kind: "symbol", name: "infinity" };
  const interval = (lower: Formula, lowerSign: string, upper: Formula, upperSign: string): Formula => ({
    kind: "bracket",
    open: lowerSign === "≤" ? "[" : "(",
    close: upperSign === "≤" ? "]" : ")",
    items: [lower, upper],
  });
  if (
    first === undefined || comparisons.length > 2 ||
    !comparisons.every(({ sign }) => sign === "<" || sign === "≤")
  ) {
    return formula;
  }
  if (second === undefined) {
    if (isBounded(first.left, first.right)) {
      return interval(call("neg", infinity), "<", first.right, first.sign);
    }
    return isBounded(first.right, first.left) ? interval(first.left, first.sign, infinity, "<") : formula;
  }
  // A chain written with ≥ has its comparisons turned, each.
  const [low, high] = first.right === second.left ? [first, second] : [second, first];
  if (low.right !== high.left || !isBounded(low.right, low.left) || !isBounded(low.right, high.right)) {
    return formula;
  }
  return interval(low.left, low.sign, high.right, high.sign);
}

function isBounded(variable: Formula, bound: Formula): boolean {
  return variable.kind === "symbol" && isExpression(bound) && !variablesOf(bound).has(variable.name) &&
    variablesOf(variable).size === 1;
}

function isExpression(formula: Formula): boolean {
  return formula.kind === "number" || formula.kind === "symbol" || formula.kind === "call";
}

function equalLists(a: readonly Formula[], b: readonly Formula[]): boolean {
  return a.length === b.length && a.every((item, index) => equalFormulas(item, b[index]!));
}

function equalExpressions(a: Formula, b: Formula): boolean {
  const infinities = [signOfInfinity(a), signOfInfinity(b)];
  if (infinities.some((sign) => sign !== 0)) return infinities[0] === infinities[1];
  return equalExactly(a, b, sameResidue) ?? equalInNumbers(a, b, near);
}

/** 1 and −1 for plus and minus infinity alone, 0 for all else. */
function signOfInfinity(formula: Formula): number {
  if (formula.kind === "symbol") return formula.name === "infinity" ? 1 : 0;
  return formula.kind === "call" && formula.name === "neg" ? -signOfInfinity(formula.of[0]!) : 0;
}

function equalRelations(a: readonly Comparison[], b: readonly Comparison[]): boolean {
  return matchAll(a, b, (first, second) => first.sign === second.sign && equalComparisons(first, second));
}

function equalComparisons(a: Comparison, b: Comparison): boolean {
  if (
    a.sign === "∈" || !isExpression(a.left) || !isExpression(a.right) || !isExpression(b.left) ||
    !isExpression(b.right)
  ) {
    return equalFormulas(a.left, b.left) && equalFormulas(a.right, b.right);
  }
  return areProportional(
    call("sub", a.left, a.right),
    call("sub", b.left, b.right),
    a.sign === "<" || a.sign === "≤",
  );
}

/** True when one formula is the other times a number, which is not zero, and above it where `positive`. */
function areProportional(a: Formula, b: Formula, positive: boolean): boolean {
  if (variablesOf(a).size === 0 || variablesOf(b).size === 0) return false;
  const ratio = someRatio(a, b);
  if (ratio === undefined || (positive && ratio < 0)) return false;
  let exactRatio: Residue | undefined;
  const proportional = (top: Residue, bottom: Residue) => {
    const found = ratioOf(top, bottom);
    exactRatio ??= found;
    return found !== undefined && exactRatio !== undefined && sameResidue(found, exactRatio);
  };
  return equalExactly(a, b, proportional) ?? equalInNumbers(a, b, (top, bottom) => near(top, bottom * ratio));
}

/** Compares the values modulo a prime; undefined where one of the formulas is not rational. */
function equalExactly(
  a: Formula,
  b: Formula,
  equal: (a: Residue, b: Residue) => boolean,
): boolean | undefined {
  for (let point = 0; point < EXACT_POINTS; point++) {
    const at = memoized((symbol) => {
      const random = new Random(`${point} ${symbol}`);
      return ((BigInt(random.uint32()) << 32n) | BigInt(random.uint32())) % PRIME;
    });
    const first = exactValue(a, at);
    const second = first === undefined ? undefined : exactValue(b, at);
    if (first === undefined || second === undefined) return undefined;
    if (!equal(first, second)) return false;
  }
  return true;
}

/** Compares the values in floating point, wherever they can be had; false where only one formula has one. */
function equalInNumbers(a: Formula, b: Formula, equal: (a: number, b: number) => boolean): boolean {
  let compared = 0;
  for (const [first, second, constant] of valuesOf(a, b)) {
    if (Number.isNaN(first) !== Number.isNaN(second)) return false;
    if (Number.isNaN(first)) continue;
    if (!equal(first, second)) return false;
    if (++compared === LEAST_POINTS || constant) return true;
  }
  return false;
}

/** a / b at a point where neither is zero. */
function someRatio(a: Formula, b: Formula): number | undefined {
  for (const [first, second] of valuesOf(a, b)) {
    const ratio = first / second;
    if (Number.isFinite(ratio) && ratio !== 0) return ratio;
  }
  return undefined;
}

/** Values of both at points where both are sure. */
function* valuesOf(a: Formula, b: Formula): Generator<readonly [a: number, b: number, constant: boolean]> {
  const constant = variablesOf(a).size + variablesOf(b).size === 0;
  for (let point = 0; point < (constant ? 1 : NUMERIC_POINTS); point++) {
    const at = memoized((symbol) => pointOf(new Random(`${point} ${symbol}`), point));
    const first = numericValue(a, at);
    const second = first === UNSURE ? UNSURE : numericValue(b, at);
    if (second !== UNSURE) yield [first, second, constant];
  }
}

function memoized<Value>(valueOf: (symbol: string) => Value): (symbol: string) => Value {
  const values = new Map<string, Value>();
  return (symbol) => {
    const value = values.get(symbol) ?? valueOf(symbol);
    values.set(symbol, value);
    return value;
  };
}

/** Of either sign and from 0.3 to 10; at every third point all are positive. */
function pointOf(random: Random, point: number): number {
  const size = 10 ** (random.next() * 1.5 - 0.5);
  return point % 3 === 0 || random.next() < 0.5 ? size : -size;
}

function near(a: number, b: number): boolean {
  return Math.abs(a - b) <= TOLERANCE * Math.max(Math.abs(a), Math.abs(b));
}

function withSigns(formula: Formula, pm: string, mp: string): Formula {
  if (formula.kind !== "call") return formula;
  const name = formula.name === "pm" ? pm : formula.name === "mp" ? mp : formula.name;
  return { kind: "call", name, of: formula.of.map((part) => withSigns(part, pm, mp)) };
}
