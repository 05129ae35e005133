import cliTruncate from "cli-truncate";
import picocolors from "picocolors";
import stringWidth from "string-width";
import wrapAnsi from "wrap-ansi";
import type { Io, Output } from "./io.ts";

/** Functions that colour a text, or leave it as it is. */
export type Colors = ReturnType<typeof picocolors.createColors>;

/** Colours for an output: on a terminal only, and not when NO_COLOR is set or the terminal is dumb. */
export function colorsOf(output: Output, env: Io["env"]): Colors {
  const off = (env.NO_COLOR !== undefined && env.NO_COLOR !== "") || env.TERM === "dumb";
  return picocolors.createColors(output.isTerminal && !off);
}

/** Longer lines are hard to read. */
const MAX_TEXT_COLUMNS = 120;
/** On terminals that are narrower still, lines run over the edge. */
const MIN_TEXT_COLUMNS = 20;

// deno-lint-ignore no-control-regex
const ESCAPES = /\u001b(?:\[[0-9:;<=>?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\))/g;
// deno-lint-ignore no-control-regex
const CONTROL = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g;

/** A text from outside made safe to print: no escape sequences, no control characters but line breaks and tabs. */
export function printable(text: string): string {
  return text.replace(ESCAPES, "").replace(CONTROL, "");
}

/** A text from outside on one line. */
export function oneLine(text: string): string {
  return printable(text.replace(/\s+/g, " ")).trim();
}

/** Columns that a text takes on a terminal; colours count as none. */
export function widthOf(text: string): number {
  return stringWidth(text);
}

/** A text cut to `columns`, with `…` in the place of its end, or of its start; colours stay. */
export function truncate(text: string, columns: number, cut: "end" | "start" = "end"): string {
  return cliTruncate(text, columns, { position: cut });
}

/** A text of exactly `columns`: cut, or filled with spaces. */
export function fit(text: string, columns: number, align: "left" | "right" = "left"): string {
  const shown = truncate(text, columns);
  const fill = " ".repeat(Math.max(0, columns - widthOf(shown)));
  return align === "left" ? shown + fill : fill + shown;
}

/** Lines of at most `columns`, broken at spaces, where words are not longer; line breaks of the text stay. */
export function wrap(text: string, columns: number): string[] {
  return wrapAnsi(text, Math.max(1, columns)).split("\n");
}

/** Names and what they mean in two columns, the left one as wide as its widest name. */
export function definitions(rows: readonly (readonly [string, string])[], columns = Infinity): string {
  const width = Math.max(...rows.map(([name]) => widthOf(name)));
  const indent = " ".repeat(width + 4);
  const room = Math.max(MIN_TEXT_COLUMNS, columns - indent.length);
  return rows.map(([name, text]) => {
    const lines = columns === Infinity ? [text] : wrap(text, room);
    return `  ${fit(name, width)}  ${lines.join(`\n${indent}`)}`;
  }).join("\n");
}

/**
 * Paragraphs broken anew at `columns`. Lines that begin with a space stand alone: where one is too long, a command goes
 * on behind a backslash, and what a name means goes on below itself.
 */
export function paragraphs(text: string, columns = Infinity): string {
  if (columns === Infinity) return text;
  const flowing = (line: string | undefined) => line !== undefined && line !== "" && !line.startsWith(" ");
  const joined: string[] = [];
  for (const line of text.split("\n")) {
    if (flowing(line) && flowing(joined.at(-1))) joined.push(`${joined.pop()} ${line}`);
    else joined.push(line);
  }
  return joined.flatMap((line) => flowing(line) ? wrap(line, columns) : indented(line, columns)).join("\n");
}

/** What goes on stands so much further right. */
const DEEPER = 4;

/** A line that begins with a space, in lines of at most `columns` where its words are not longer. */
function indented(line: string, columns: number): string[] {
  if (widthOf(line) <= columns) return [line];
  const [, indent = "", name = "", gap = "", meaning = ""] = /^( *)(\S.*?)(?:( {2,})(\S.*))?$/.exec(line) ??
    [];
  const below = indent + " ".repeat(DEEPER);
  if (meaning === "") {
    const isCommand = name.startsWith("canopy ");
    // An option and its value stay together.
    const kept = isCommand ? name.replaceAll(/(--\S+) (?=[^-|>])/g, "$1\u00a0") : name;
    const [first = "", ...rest] = wrap(kept, columns - below.length - (isCommand ? 2 : 0));
    return [indent + first, ...rest.map((part) => below + part)].map((part, at) =>
      (isCommand && at < rest.length ? `${part} \\` : part).replaceAll("\u00a0", " ")
    );
  }
  const column = widthOf(indent + name + gap);
  if (column > columns / 2) {
    return [...indented(indent + name, columns), ...indented(below + meaning, columns)];
  }
  const [first = "", ...rest] = wrap(meaning, columns - column);
  return [indent + name + gap + first, ...rest.map((part) => " ".repeat(column) + part)];
}

/** Columns that a text may take on an output; without end where no person looks at it. */
export function textColumns(output: Output): number {
  return output.isTerminal ? Math.min(output.columns, MAX_TEXT_COLUMNS) : Infinity;
}

/** Columns that a table may take on an output; without end where no person looks at it. */
export function tableColumns(output: Output): number {
  return output.isTerminal ? output.columns : Infinity;
}

/** Stands between two columns of a table. */
const GAP = "  ";
/** No column of a table is made narrower. */
const MIN_CELL_COLUMNS = 6;

/**
 * A table with a line under its head; the first column is aligned left, the others as told. Where it is wider than
 * `columns`, its widest columns are broken, cell by cell.
 */
export function table(
  head: readonly string[],
  rows: readonly (readonly string[])[],
  align: readonly ("left" | "right")[] = [],
  columns = Infinity,
): string[] {
  const natural = head.map((name, column) =>
    Math.max(widthOf(name), ...rows.map((row) => widthOf(row[column] ?? "")))
  );
  const widths = narrowed(natural, columns - GAP.length * (head.length - 1));
  const lines = (cells: readonly string[]): string[] => {
    const broken = widths.map((width, column) => brokenCell(cells[column] ?? "", width));
    const height = Math.max(...broken.map(({ length }) => length));
    return Array.from(
      { length: height },
      (_, at) =>
        widths.map((width, column) => fit(broken[column]?.[at] ?? "", width, align[column] ?? "left")).join(
          GAP,
        )
          .trimEnd(),
    );
  };
  const rule = widths.map((width) => "─".repeat(width)).join(GAP);
  return [...lines(head), rule, ...rows.flatMap(lines)];
}

/** The widths of columns that take no more than `room` together, as far as the narrowest allow it: the widest give way. */
function narrowed(natural: readonly number[], room: number): number[] {
  const widths = [...natural];
  let excess = widths.reduce((sum, width) => sum + width, 0) - room;
  while (excess > 0) {
    const widest = widths.indexOf(Math.max(...widths));
    if (widths[widest]! <= MIN_CELL_COLUMNS) break;
    widths[widest]!--;
    excess--;
  }
  return widths;
}

function brokenCell(text: string, width: number): string[] {
  return widthOf(text) <= width ? [text] : wrapAnsi(text, width, { hard: true }).split("\n");
}

/**
 * Lines at the bottom of a terminal that are drawn over and over. Where there is no terminal `draw` prints nothing,
 * so that only what `print` is given is seen: plain lines, one after the other.
 */
export class LiveRegion {
  readonly #output: Output;
  #drawn = 0;

  constructor(output: Output) {
    this.#output = output;
  }

  /** True when `draw` shows something. */
  get live(): boolean {
    return this.#output.isTerminal;
  }

  /** Replaces the lines; what does not fit the width or the height is left out. */
  draw(lines: readonly string[]): void {
    if (!this.live) return;
    const { columns, rows } = this.#output;
    // A line that runs over the edge takes two, and could not be erased as one.
    const shown = lines.slice(0, Math.max(1, rows - 1)).map((line) => truncate(line, columns));
    this.#output.write(`${this.#erase()}${shown.map((line) => `${line}\n`).join("")}`);
    this.#drawn = shown.length;
  }

  /** Prints a line above the region, for good. */
  print(line: string): void {
    this.#output.write(`${this.#erase()}${line}\n`);
    this.#drawn = 0;
  }

  /** Takes the region away. */
  clear(): void {
    if (this.#drawn > 0) this.#output.write(this.#erase());
    this.#drawn = 0;
  }

  #erase(): string {
    return this.#drawn === 0 ? "" : `\x1b[${this.#drawn}A\r\x1b[J`;
  }
}
