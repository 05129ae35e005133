import { call, type Formula } from "../../../scorer/answers/maths/formula.ts";

type Matrix = Extract<Formula, { readonly kind: "matrix" }>;

/** A formula in which sums, differences and products of matrices are carried out, entry by entry; all else as it is. */
export function matrixValue(formula: Formula): Formula {
  if (formula.kind !== "call") return formula;
  const [a, b] = formula.of.map(matrixValue);
  if (a === undefined || b === undefined || (!isMatrix(a) && !isMatrix(b))) return formula;
  if (formula.name === "mul") return product(a, b) ?? formula;
  if ((formula.name !== "add" && formula.name !== "sub") || !isMatrix(a) || !isMatrix(b)) return formula;
  const [columns, otherColumns] = [columnsOf(a), columnsOf(b)];
  if (a.rows.length !== b.rows.length || columns === undefined || columns !== otherColumns) return formula;
  const { name } = formula;
  return {
    ...a,
    rows: a.rows.map((row, at) => row.map((entry, column) => call(name, entry, b.rows[at]![column]!))),
  };
}

function product(a: Formula, b: Formula): Formula | undefined {
  if (!isMatrix(a)) return isMatrix(b) ? scaled(b, a) : undefined;
  if (!isMatrix(b)) return scaled(a, b);
  const columns = columnsOf(b);
  if (columns === undefined || columnsOf(a) !== b.rows.length) return undefined;
  const entry = (row: readonly Formula[], column: number) =>
    row.map((factor, at) => call("mul", factor, b.rows[at]![column]!)).reduce((sum, term) =>
      call("add", sum, term)
    );
  return {
    ...a,
    rows: a.rows.map((row) => Array.from({ length: columns }, (_, column) => entry(row, column))),
  };
}

function scaled(matrix: Matrix, factor: Formula): Matrix {
  return { ...matrix, rows: matrix.rows.map((row) => row.map((entry) => call("mul", factor, entry))) };
}

/** Undefined where rows differ in length. */
function columnsOf({ rows }: Matrix): number | undefined {
  const count = rows[0]?.length;
  return rows.every((row) => row.length === count) ? count : undefined;
}

/** Bars make a number, the determinant, of it. */
function isMatrix(formula: Formula): formula is Matrix {
  return formula.kind === "matrix" && !formula.bars;
}
