import type { Report, ReportTable } from "./report.ts";

/** A report as Markdown: its tables, notes and listings, without the plot. */
export function markdownOf({ title, origin, tables, notes, listings = [] }: Report): string {
  return [
    `# ${marked(title)}`,
    marked(origin),
    ...tables.flatMap((table) => [`## ${marked(table.title)}`, markdownTable(table)]),
    "## Notes",
    notes.map((note) => `- ${marked(note)}`).join("\n"),
    ...listings.flatMap((one) => [`## ${marked(one.title)}`, fenced(one.text)]),
  ].map((block) => `${block}\n`).join("\n");
}

function markdownTable({ head, rows }: ReportTable): string {
  const line = (cells: readonly string[]) => `| ${cells.map(marked).join(" | ")} |`;
  return [line(head), line(head.map((_, index) => index === 0 ? "---" : "---:")), ...rows.map(line)].join(
    "\n",
  );
}

/** A text as it is, between fences that are longer than any in it. */
function fenced(text: string): string {
  const fence = "`".repeat(Math.max(3, ...[...text.matchAll(/`+/g)].map(([run]) => run.length + 1)));
  return `${fence}\n${text.replace(/\n$/, "")}\n${fence}`;
}

/** A text in which nothing is markup. */
function marked(text: string): string {
  return text.replaceAll(/[\\`*_[\]<>|#]/gu, "\\$&").replaceAll("\n", " ");
}
