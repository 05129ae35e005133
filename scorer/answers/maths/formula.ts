/** Sign between two sides of a relation; `>` and `≥` are read as `<` and `≤` with the sides exchanged. */
export type RelationSign = "=" | "≠" | "<" | "≤" | "∈";

/** Two sides and the sign between them. */
export interface Comparison {
  readonly sign: RelationSign;
  readonly left: Formula;
  readonly right: Formula;
}

/** A formula as it was read, not simplified. */
export type Formula =
  /** `digits`: significant digits as written. */
  | { readonly kind: "number"; readonly top: bigint; readonly bottom: bigint; readonly digits: number }
  /** A variable, or one of the constants `pi`, `e` and `infinity`. */
  | { readonly kind: "symbol"; readonly name: string }
  /** An operation (`add`, `sub`, `mul`, `div`, `neg`, `pow`, `root`, `pm`, `mp`, …) or a function. */
  | { readonly kind: "call"; readonly name: string; readonly of: readonly Formula[] }
  /** A chain such as −2 ≤ x ≤ 7 has several comparisons, all of which hold. */
  | { readonly kind: "relation"; readonly comparisons: readonly Comparison[] }
  /** A tuple, a point or an interval: (1, 2), [0, 1). */
  | {
    readonly kind: "bracket";
    readonly open: string;
    readonly close: string;
    readonly items: readonly Formula[];
  }
  | { readonly kind: "set"; readonly items: readonly Formula[] }
  | { readonly kind: "union"; readonly items: readonly Formula[] }
  /** `bars`: a determinant. */
  | { readonly kind: "matrix"; readonly bars: boolean; readonly rows: readonly (readonly Formula[])[] };

/** Names of all variables of a formula, constants left out, into `names`. */
export function variablesOf(formula: Formula, names: Set<string> = new Set()): Set<string> {
  if (formula.kind === "symbol" && !CONSTANTS.has(formula.name)) names.add(formula.name);
  for (const part of partsOf(formula)) variablesOf(part, names);
  return names;
}

/** True when a formula has a part of which `test` is true. */
export function hasPart(formula: Formula, test: (part: Formula) => boolean): boolean {
  return test(formula) || partsOf(formula).some((part) => hasPart(part, test));
}

/** The operation or function of these formulas. */
export function call(name: string, ...of: readonly Formula[]): Formula {
  return { kind: "call", name, of };
}

/** The whole number. */
export function whole(value: number): Formula {
  return { kind: "number", top: BigInt(value), bottom: 1n, digits: String(value).length };
}

const CONSTANTS: ReadonlySet<string> = new Set(["pi", "e", "infinity"]);

function partsOf(formula: Formula): readonly Formula[] {
  switch (formula.kind) {
    case "number":
    case "symbol":
      return [];
    case "call":
      return formula.of;
    case "relation":
      return formula.comparisons.flatMap(({ left, right }) => [left, right]);
    case "matrix":
      return formula.rows.flat();
    default:
      return formula.items;
  }
}
