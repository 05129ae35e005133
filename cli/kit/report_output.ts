import { writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { CanopyError, messageOf } from "../../base/errors.ts";
import { htmlOf } from "../../bench/report/html.ts";
import { markdownOf } from "../../bench/report/markdown.ts";
import type { Report } from "../../bench/report/report.ts";
import { svgOf } from "../../bench/report/svg.ts";
import type { Io } from "./io.ts";
import { colorsOf, table, tableColumns } from "./terminal.ts";
import { version } from "./version.ts";

/** Options of all commands that print a report. */
export const REPORT_OPTIONS = {
  json: { type: "text", value: "FILE", help: "Write all figures to this file as JSON" },
  svg: { type: "text", value: "FILE", help: "Write a plot to this file as SVG; further ones beside it" },
  markdown: { type: "text", value: "FILE", help: "Write the tables to this file as Markdown" },
} as const;

/** Prints a report and writes its files; gives the exit code. Throws `cannot_write` (500). */
export async function writeReport(
  report: Report,
  files: {
    readonly json: string | undefined;
    readonly svg: string | undefined;
    readonly html?: string | undefined;
    readonly markdown?: string | undefined;
  },
  io: Io,
): Promise<number> {
  const colors = colorsOf(io.out, io.env);
  const lines = [colors.bold(report.title), colors.yellow(report.origin)];
  for (const { title, head, rows } of report.tables) {
    const align = head.map((_, i) => i === 0 ? "left" as const : "right" as const);
    lines.push("", colors.bold(title), ...table(head, rows, align, tableColumns(io.out)));
  }
  lines.push("", ...report.notes.map((note) => colors.dim(note)));
  io.out.write(lines.map((line) => `${line}\n`).join(""));
  if (files.json !== undefined) {
    writeResult(files.json, `${JSON.stringify({ canopy: version, ...report.data }, null, 2)}\n`, io);
  }
  if (files.svg !== undefined) {
    writeResult(files.svg, await svgOf(report), io);
    for (const { name, title, plot } of report.plots ?? []) {
      writeResult(besideSvg(files.svg, name), await svgOf({ ...report, title, plot }), io);
    }
  }
  if (files.markdown !== undefined) writeResult(files.markdown, markdownOf(report), io);
  if (files.html !== undefined) writeResult(files.html, await htmlOf(report), io);
  return 0;
}

/** `eval.svg` → `eval.fig4-i.svg`. */
function besideSvg(path: string, name: string): string {
  return `${path.replace(/\.svg$/i, "")}.${name}.svg`;
}

/** Writes a file, seen from the working folder, and says so. Throws 500 `cannot_write`. */
export function writeResult(path: string, text: string, io: Io): void {
  writeQuietly(path, text, io);
  io.err.write(`Wrote ${path}\n`);
}

/** Writes a file, seen from the working folder. Throws 500 `cannot_write`. */
export function writeQuietly(path: string, text: string, { cwd }: Pick<Io, "cwd">): void {
  try {
    writeFileSync(resolve(cwd, path), text);
  } catch (cause) {
    throw new CanopyError(`Cannot write ${path}: ${messageOf(cause)}`, {
      code: "cannot_write",
      status: 500,
      cause,
    });
  }
}
