import picocolors from "picocolors";
import type { Io, Output } from "./io.ts";

/** Functions that colour a text, or leave it as it is. */
export type Colors = ReturnType<typeof picocolors.createColors>;

/** Colours for an output: on a terminal only, and not when NO_COLOR is set or the terminal is dumb. */
export function colorsOf(output: Output, env: Io["env"]): Colors {
  const off = (env.NO_COLOR !== undefined && env.NO_COLOR !== "") || env.TERM === "dumb";
  return picocolors.createColors(output.isTerminal && !off);
}

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

/** Columns that a text takes on a terminal: 2 for East Asian wide characters and emoji, 0 for combining marks. */
export function widthOf(text: string): number {
  let width = 0;
  for (const char of text.replace(ESCAPES, "")) width += charWidth(char.codePointAt(0)!);
  return width;
}

function charWidth(code: number): number {
  if (code < 0x300) return 1;
  if (code <= 0x36f || code === 0x200b || code === 0x200d || (code >= 0xfe00 && code <= 0xfe0f)) return 0;
  const wide = (code >= 0x1100 && code <= 0x115f) || (code >= 0x2e80 && code <= 0xa4cf) ||
    (code >= 0xac00 && code <= 0xd7a3) || (code >= 0xf900 && code <= 0xfaff) ||
    (code >= 0xfe30 && code <= 0xfe6f) || (code >= 0xff00 && code <= 0xff60) ||
    (code >= 0xffe0 && code <= 0xffe6) || (code >= 0x1f300 && code <= 0x1faff) ||
    (code >= 0x20000 && code <= 0x3fffd);
  return wide ? 2 : 1;
}

/** At most `columns` wide, with `…` at the end of what was cut; uncoloured text only. */
export function truncate(text: string, columns: number): string {
  if (widthOf(text) <= columns) return text;
  let out = "";
  let width = 0;
  for (const char of text) {
    const next = charWidth(char.codePointAt(0)!);
    if (width + next > columns - 1) break;
    out += char;
    width += next;
  }
  return columns > 0 ? `${out}…` : "";
}

/** Exactly `columns` wide: cut or filled with spaces; uncoloured text only. */
export function fit(text: string, columns: number, align: "left" | "right" = "left"): string {
  const cut = truncate(text, columns);
  const fill = " ".repeat(Math.max(0, columns - widthOf(cut)));
  return align === "left" ? cut + fill : fill + cut;
}

/** Lines of at most `columns`, broken at spaces; line breaks of the text stay. */
export function wrap(text: string, columns: number): string[] {
  return text.split("\n").flatMap((line) => {
    const lines: string[] = [];
    let current = "";
    for (const word of line.split(" ")) {
      if (current !== "" && widthOf(current) + 1 + widthOf(word) > columns) {
        lines.push(current);
        current = word;
      } else current = current === "" ? word : `${current} ${word}`;
    }
    return [...lines, current];
  });
}

/** A table with a line under its head; the first column is aligned left, the others as told. */
export function table(
  head: readonly string[],
  rows: readonly (readonly string[])[],
  align: readonly ("left" | "right")[] = [],
): string[] {
  const widths = head.map((name, column) =>
    Math.max(widthOf(name), ...rows.map((row) => widthOf(row[column] ?? "")))
  );
  const line = (cells: readonly string[]) =>
    widths.map((width, column) => fit(cells[column] ?? "", width, align[column] ?? "left")).join("  ")
      .trimEnd();
  return [line(head), widths.map((width) => "─".repeat(width)).join("  "), ...rows.map(line)];
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

  /** Replaces the lines. Each must fit the width; what does not fit the height is left out. */
  draw(lines: readonly string[]): void {
    if (!this.live) return;
    const shown = lines.slice(0, Math.max(1, this.#output.rows - 1));
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
