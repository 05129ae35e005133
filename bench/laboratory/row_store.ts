import { existsSync } from "node:fs";
import { CanopyError } from "../../base/errors.ts";
import { KeptLines, readKeptLines } from "../records/kept_lines.ts";
import type { LaboratoryRow } from "./ask.ts";
import type { ProposalRow } from "./predictors.ts";

/** One line of a file of rows. */
type Line = { readonly row: LaboratoryRow } | { readonly proposals: ProposalRow };

/** The rows of an experiment; with a file they outlive the process, and the next one goes on behind them. */
export class RowStore {
  readonly #kept: KeptLines<Line>;
  readonly #rows = new Map<string, LaboratoryRow>();
  readonly #proposals = new Map<string, ProposalRow>();

  /** `settings` are those that rows depend on. Throws 400 `other_settings` for a file of other ones. */
  constructor(path: string | undefined, settings: string) {
    this.#kept = new KeptLines(path, settings, (read) => {
      if ("row" in read) this.#rows.set(keyOf(read.row), read.row);
      else this.#proposals.set(read.proposals.question, read.proposals);
    });
  }

  row(condition: string, question: string): LaboratoryRow | undefined {
    return this.#rows.get(keyOf({ condition, question }));
  }

  proposals(question: string): ProposalRow | undefined {
    return this.#proposals.get(question);
  }

  addRow(row: LaboratoryRow): void {
    this.#rows.set(keyOf(row), row);
    this.#kept.append({ row });
  }

  addProposals(proposals: ProposalRow): void {
    this.#proposals.set(proposals.question, proposals);
    this.#kept.append({ proposals });
  }
}

function keyOf({ condition, question }: Pick<LaboratoryRow, "condition" | "question">): string {
  return `${condition}\0${question}`;
}

/** The rows in a file of another experiment. Throws 400 `no_rows` when there are none. */
export function readRows(path: string): LaboratoryRow[] {
  const rows = existsSync(path)
    ? [...readKeptLines<Line>(path)].flatMap((line) => "row" in line ? [line.row] : [])
    : [];
  if (rows.length > 0) return rows;
  throw new CanopyError(`Cannot compare with ${path}: it has no rows of canopy bench laboratory --resume`, {
    code: "no_rows",
    status: 400,
  });
}
