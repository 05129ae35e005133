import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { CanopyError } from "../../base/errors.ts";
import type { LaboratoryRow } from "./ask.ts";
import type { ProposalRow } from "./predictors.ts";

/** One line of a file of rows. */
type Line =
  | { readonly settings: string }
  | { readonly row: LaboratoryRow }
  | { readonly proposals: ProposalRow };

/** The rows of an experiment; with a file they outlive the process, and the next one goes on behind them. */
export class RowStore {
  readonly #path: string | undefined;
  readonly #rows = new Map<string, LaboratoryRow>();
  readonly #proposals = new Map<string, ProposalRow>();

  /** `settings` are those that rows depend on. Throws 400 `other_settings` for a file of other ones. */
  constructor(path: string | undefined, settings: string) {
    this.#path = path;
    if (path === undefined) return;
    if (!existsSync(path)) this.#append({ settings });
    for (const read of linesOf(path)) {
      if ("settings" in read && read.settings !== settings) {
        throw new CanopyError(
          `Cannot go on with ${path}: it was begun with ${read.settings}, and now it is ${settings}; name another file`,
          { code: "other_settings", status: 400 },
        );
      }
      if ("row" in read) this.#rows.set(keyOf(read.row), read.row);
      if ("proposals" in read) this.#proposals.set(read.proposals.question, read.proposals);
    }
  }

  row(condition: string, question: string): LaboratoryRow | undefined {
    return this.#rows.get(keyOf({ condition, question }));
  }

  proposals(question: string): ProposalRow | undefined {
    return this.#proposals.get(question);
  }

  addRow(row: LaboratoryRow): void {
    this.#rows.set(keyOf(row), row);
    this.#append({ row });
  }

  addProposals(proposals: ProposalRow): void {
    this.#proposals.set(proposals.question, proposals);
    this.#append({ proposals });
  }

  #append(line: Line): void {
    if (this.#path !== undefined) appendFileSync(this.#path, `${JSON.stringify(line)}\n`);
  }
}

function keyOf({ condition, question }: Pick<LaboratoryRow, "condition" | "question">): string {
  return `${condition}\0${question}`;
}

/** The rows in a file of another experiment. Throws 400 `no_rows` when there are none. */
export function readRows(path: string): LaboratoryRow[] {
  const rows = existsSync(path) ? linesOf(path).flatMap((line) => "row" in line ? [line.row] : []) : [];
  if (rows.length > 0) return rows;
  throw new CanopyError(`Cannot compare with ${path}: it has no rows of canopy bench laboratory --resume`, {
    code: "no_rows",
    status: 400,
  });
}

function linesOf(path: string): Line[] {
  return readFileSync(path, "utf8").split("\n").flatMap((line) => parsed(line) ?? []);
}

/** Undefined for a line that was cut off. */
function parsed(line: string): Line | undefined {
  try {
    const read: Line = JSON.parse(line);
    return read;
  } catch {
    return undefined;
  }
}
