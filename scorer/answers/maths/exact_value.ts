import type { Formula } from "./formula.ts";

/** The prime 2^61 − 1: two different polynomials of degree d have the same value at a random point at most d times in it. */
export const PRIME = (1n << 61n) - 1n;

/** A fraction modulo `PRIME`, not reduced; the denominator is not 0. */
export type Residue = readonly [top: bigint, bottom: bigint];

/**
 * The value modulo `PRIME` of a formula of numbers, symbols, + − · / and whole powers (Schwartz and Zippel's test of
 * identities); pi and e are symbols like others, being no roots of any polynomial. Undefined for every other formula
 * and where it divides by zero.
 */
export function exactValue(formula: Formula, at: (symbol: string) => bigint): Residue | undefined {
  if (formula.kind === "number") return residue(formula.top % PRIME, formula.bottom % PRIME);
  if (formula.kind === "symbol") return formula.name === "infinity" ? undefined : [at(formula.name), 1n];
  if (formula.kind !== "call") return undefined;
  const [first, second] = formula.of;
  const a = first === undefined ? undefined : exactValue(first, at);
  if (a === undefined) return undefined;
  if (formula.name === "neg") return residue(-a[0], a[1]);
  if (second === undefined) return undefined;
  if (formula.name === "pow") {
    const exponent = wholeOf(second);
    if (exponent === undefined) return undefined;
    const [top, bottom] = exponent < 0n ? [a[1], a[0]] : a;
    const size = exponent < 0n ? -exponent : exponent;
    return residue(power(top, size), power(bottom, size));
  }
  const b = exactValue(second, at);
  return b === undefined ? undefined : combined(formula.name, a, b);
}

/** True for two names of the same fraction. */
export function sameResidue([top, bottom]: Residue, [otherTop, otherBottom]: Residue): boolean {
  return modulo(top * otherBottom) === modulo(otherTop * bottom);
}

/** a / b; undefined where b is 0. */
export function ratioOf(a: Residue, b: Residue): Residue | undefined {
  return combined("div", a, b);
}

function combined(name: string, a: Residue, b: Residue): Residue | undefined {
  switch (name) {
    case "add":
      return residue(a[0] * b[1] + b[0] * a[1], a[1] * b[1]);
    case "sub":
      return residue(a[0] * b[1] - b[0] * a[1], a[1] * b[1]);
    case "mul":
      return residue(a[0] * b[0], a[1] * b[1]);
    case "div":
      return residue(a[0] * b[1], a[1] * b[0]);
    default:
      return undefined;
  }
}

function wholeOf(formula: Formula): bigint | undefined {
  if (formula.kind === "number") {
    return formula.top % formula.bottom === 0n ? formula.top / formula.bottom : undefined;
  }
  if (formula.kind !== "call" || formula.name !== "neg") return undefined;
  const value = wholeOf(formula.of[0]!);
  return value === undefined ? undefined : -value;
}

function residue(top: bigint, bottom: bigint): Residue | undefined {
  const below = modulo(bottom);
  return below === 0n ? undefined : [modulo(top), below];
}

function modulo(value: bigint): bigint {
  const rest = value % PRIME;
  return rest < 0n ? rest + PRIME : rest;
}

function power(base: bigint, exponent: bigint): bigint {
  let result = 1n;
  let square = base;
  for (let rest = exponent; rest > 0n; rest >>= 1n) {
    if ((rest & 1n) === 1n) result = result * square % PRIME;
    square = square * square % PRIME;
  }
  return result;
}
