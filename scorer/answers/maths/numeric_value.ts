import type { Formula } from "./formula.ts";

/** Most significant digits of a number in a formula that is compared in floating point: no fraction of two is so near to a root. */
const MAX_DIGITS = 6;
/** Summands further apart than this lose digits that tell formulas apart. */
const LEAST_SHARE = 1e-4;
/** Arguments of functions beyond these bounds saturate, or lose digits. */
const ARGUMENTS = { least: 1e-4, most: 1e4 };
/** Below this share of its summands a sum is taken for zero. */
const ZERO = 1e-13;
/** The value of a formula that cannot be calculated to enough digits. */
export const UNSURE = Infinity;

type Operation = (a: number, b: number) => number;

const BINARY: Readonly<Record<string, Operation>> = {
  add,
  sub: (a, b) => add(a, -b),
  mul: (a, b) => a * b,
  div: (a, b) => b === 0 ? NaN : a / b,
  binomial,
  root: (index, of) => root(of, index),
};
const UNARY: Readonly<Record<string, (x: number) => number>> = {
  neg: (x) => -x,
  abs: Math.abs,
  sin: (x) => snapped(Math.sin(x)),
  cos: (x) => snapped(Math.cos(x)),
  tan: (x) => snapped(Math.cos(x)) === 0 ? NaN : snapped(Math.tan(x)),
  cot: (x) => snapped(Math.sin(x)) === 0 ? NaN : snapped(Math.cos(x) / Math.sin(x)),
  sec: (x) => snapped(Math.cos(x)) === 0 ? NaN : 1 / Math.cos(x),
  csc: (x) => snapped(Math.sin(x)) === 0 ? NaN : 1 / Math.sin(x),
  arcsin: Math.asin,
  arccos: Math.acos,
  arctan: Math.atan,
  ln: Math.log,
  lg: Math.log10,
  // Of a base that is not said: some number that is in no relation to others.
  log: (x) => Math.log(x) * 0.8137264519,
  exp: Math.exp,
  factorial: (x) => binomialTop(x, Infinity),
};

/**
 * The value of a formula in floating point, to some 12 digits; NaN where it has none, `UNSURE` where so many digits
 * cannot be promised: long numbers, summands of very different size, arguments of functions that are very small or large.
 */
export function numericValue(formula: Formula, at: (symbol: string) => number): number {
  if (formula.kind === "number") {
    return formula.digits > MAX_DIGITS ? UNSURE : Number(formula.top) / Number(formula.bottom);
  }
  if (formula.kind === "symbol") return symbolValue(formula.name, at);
  if (formula.kind !== "call") return NaN;
  const [first, second] = formula.of;
  const a = first === undefined ? NaN : numericValue(first, at);
  if (a === UNSURE) return UNSURE;
  const b = second === undefined ? NaN : numericValue(second, at);
  if (b === UNSURE) return UNSURE;
  if (formula.name === "pow") return sound(power(a, b, formula.of[1]!), a !== 0);
  const binary = BINARY[formula.name];
  if (binary !== undefined) {
    return sound(binary(a, b), formula.name !== "add" && formula.name !== "sub" && a !== 0 && b !== 0);
  }
  const unary = UNARY[formula.name];
  if (unary === undefined) return NaN;
  if (formula.name !== "neg" && formula.name !== "abs" && !usable(a)) return Number.isNaN(a) ? NaN : UNSURE;
  return sound(unary(a), false);
}

function symbolValue(name: string, at: (symbol: string) => number): number {
  if (name === "pi") return Math.PI;
  if (name === "e") return Math.E;
  return name === "infinity" ? NaN : at(name);
}

/** Unsure of what is too large or too small, and of a zero that only underflow can have made. */
function sound(value: number, nonzero: boolean): number {
  if (Number.isNaN(value)) return NaN;
  const size = Math.abs(value);
  return size > 1e200 || (size < 1e-200 && (nonzero || size !== 0)) ? UNSURE : value;
}

function usable(argument: number): boolean {
  const size = Math.abs(argument);
  return size === 0 || (size >= ARGUMENTS.least && size <= ARGUMENTS.most);
}

function add(a: number, b: number): number {
  if (a === 0 || b === 0) return a + b;
  const [small, large] = Math.abs(a) < Math.abs(b) ? [Math.abs(a), Math.abs(b)] : [Math.abs(b), Math.abs(a)];
  if (small < large * LEAST_SHARE) return UNSURE;
  const sum = a + b;
  return Math.abs(sum) < large * ZERO ? 0 : sum;
}

/** Of sine and cosine at multiples of π / 2. */
function snapped(value: number): number {
  return Math.abs(value) < ZERO ? 0 : value;
}

/** The real root; of a negative number only the odd ones. */
function root(of: number, index: number): number {
  if (index < 1) return NaN;
  if (index === 2) return Math.sqrt(of);
  if (of >= 0) return of ** (1 / index);
  return index % 2 === 1 ? -((-of) ** (1 / index)) : NaN;
}

function power(base: number, exponent: number, formula: Formula): number {
  if (Number.isNaN(base) || Number.isNaN(exponent) || (base === 0 && exponent <= 0)) return NaN;
  if (!usable(exponent) || (!Number.isInteger(exponent) && !usable(base))) return UNSURE;
  if (base >= 0 || Number.isInteger(exponent)) return base ** exponent;
  // x^{1/3} of a negative x is its cube root.
  if (formula.kind !== "call" || formula.name !== "div") return NaN;
  const [top, bottom] = formula.of;
  if (top?.kind !== "number" || bottom?.kind !== "number" || bottom.top % 2n === 0n || bottom.bottom !== 1n) {
    return NaN;
  }
  return root(base, Number(bottom.top)) ** Number(top.top);
}

function binomial(n: number, k: number): number {
  if (!Number.isInteger(k) || k < 0 || k > 20 || !Number.isInteger(n) || n < k) return NaN;
  return binomialTop(n, k) / binomialTop(k, Infinity);
}

/** n(n − 1)…, `factors` of them at most. */
function binomialTop(n: number, factors: number): number {
  if (!Number.isInteger(n) || n < 0 || (n > 20 && factors > 20)) return NaN;
  let product = 1;
  for (let factor = n; factor > 1 && n - factor < factors; factor--) product *= factor;
  return product;
}
