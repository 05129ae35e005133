/** Way in which answers to a question are graded. */
export type GraderName = "number" | "maths" | "choice" | "exact" | "ifbench" | "code" | "open";

/** One question of a data set, in one shape for all of them. */
export interface EvalQuestion {
  /** Unique in its data set, the same in every run. */
  readonly id: string;
  /** As published, without options. */
  readonly question: string;
  /** Texts of the options (A), (B), … in their order; absent for open questions. */
  readonly options?: readonly string[] | undefined;
  /** True where the question's text lists the options itself. */
  readonly optionsInText?: boolean | undefined;
  /** As published; of options the letter; empty where checkers or tests decide, or nothing does. */
  readonly answer: string;
  readonly grader: GraderName;
  /** Subject, task or category; a part of the questions has its share of each. */
  readonly subject?: string | undefined;
  /** What else a grader needs: constraints, or a program's tests. */
  readonly extra?: Readonly<Record<string, unknown>> | undefined;
}

/** One row of a published file. */
export type Row = Readonly<Record<string, unknown>>;

/** Place of a row, from which questions without an id of their own get one. */
export interface RowPlace {
  /** Path of the file in its repository or folder. */
  readonly file: string;
  /** In its file, from 0. */
  readonly index: number;
  /** Seed of what is drawn when reading: the order of GPQA's options. */
  readonly seed: string;
  /** The row as it is written, of a JSONL file. */
  readonly line?: string | undefined;
}

/** A published file, with its SHA-256 where that is known. */
export interface PublishedFile {
  readonly path: string;
  readonly sha256?: string | undefined;
}

/** A data set as it is published on the Hub. */
export interface DataSet {
  readonly name: string;
  readonly title: string;
  /** Hub id. */
  readonly hub: string;
  /** Commit on the Hub. */
  readonly revision: string;
  readonly files: readonly PublishedFile[];
  /** Questions in these files together. */
  readonly count: number;
  readonly licence: string;
  /** True where the authors ask for consent first. */
  readonly gated?: boolean | undefined;
  /** Names of the columns of CSV files that have no line of names. */
  readonly columns?: readonly string[] | undefined;
  /** Questions of Canopy's own in the published shape: text of a JSONL or CSV file. */
  readonly sample: { readonly file: string; readonly text: string };
  /** Throws `RowError` for a row of another shape. */
  read(row: Row, place: RowPlace): EvalQuestion;
}

/** A row that is not what its data set publishes. */
export class RowError extends Error {
  override readonly name = "RowError";
}

/** A field that must be text; numbers are written out. Throws `RowError`. */
export function rowText(row: Row, ...names: readonly string[]): string {
  for (const name of names) {
    const value = row[name];
    if (typeof value === "string") return value;
    if (typeof value === "number" || typeof value === "bigint") return String(value);
  }
  throw new RowError(`it has no text in ${names.join(" or ")}`);
}

/** A field that must be a list of texts. Throws `RowError`. */
export function rowTexts(row: Row, name: string): string[] {
  const value = row[name];
  if (!Array.isArray(value) || !value.every((item) => typeof item === "string")) {
    throw new RowError(`its ${name} is no list of texts`);
  }
  return value;
}

/** A field that must be a whole number from 0 up to below a bound. Throws `RowError`. */
export function rowIndex(row: Row, name: string, bound: number): number {
  const value = row[name];
  const number = typeof value === "bigint" || typeof value === "string" ? Number(value) : value;
  if (typeof number === "number" && Number.isInteger(number) && number >= 0 && number < bound) return number;
  throw new RowError(`its ${name} is no whole number from 0 to ${bound - 1}`);
}

/** Letter of an option: A for 0. */
export function optionLetter(index: number): string {
  return String.fromCharCode(65 + index);
}
