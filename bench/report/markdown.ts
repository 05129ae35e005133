import type { Report, ReportTable } from "./report.ts";

/** A report as Markdown: its tables and notes, without the plot. */
export function markdownOf({ title, origin, tables, notes }: Report): string {
  return [
    `# ${marked(title)}`,
    marked(origin),
    ...tables.flatMap((table) => [`## ${marked(table.title)}`, markdownTable(table)]),
    "## Notes",
    notes.map((note) => `- ${marked(note)}`).join("\n"),
  ].map((block) => `${block}\n`).join("\n");
}

function markdownTable({ head, rows }: ReportTable): string {
  const line = (cells: readonly string[]) => `| ${cells.map(marked).join(" | ")} |`;
  return [line(head), line(head.map((_, index) => index === 0 ? "---" : "---:")), ...rows.map(line)].join(
    "\n",
  );
}

/** A text in which nothing is markup. */
function marked(text: string): string {
  return text.replaceAll(/[\\`*_[\]<>|#]/gu, "\\$&").replaceAll("\n", " ");
}
