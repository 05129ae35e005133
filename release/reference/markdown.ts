import { wrap } from "../../cli/kit/terminal.ts";

/** Columns of a line, as `deno fmt` has them. */
const COLUMNS = 110;

/** A paragraph in lines of the project's width. */
export function paragraph(text: string): string {
  return wrap(text.replace(/\s+/g, " ").trim(), COLUMNS).join("\n");
}

/** A page's title and its first paragraphs. */
export function pageHead(title: string, ...paragraphs: readonly string[]): string {
  return [`# ${title}`, ...paragraphs.map(paragraph)].join("\n\n") + "\n";
}

/** A list in lines of the project's width. */
export function bulletList(items: readonly string[]): string {
  return items.map((item) => `- ${wrap(item, COLUMNS - 2).join("\n  ")}`).join("\n");
}

/** Text of a table's cell: on one line, its bars escaped. */
function cellText(text: string): string {
  return text.replace(/\s+/g, " ").replace(/(?<!\\)\|/g, "\\|").trim();
}

/** A Markdown table whose columns are as wide as their widest cell. */
export function markdownTable(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const cells = [head, ...rows].map((row) => row.map(cellText));
  const widths = head.map((_, at) => Math.max(3, ...cells.map((row) => (row[at] ?? "").length)));
  const lineOf = (row: readonly string[]) =>
    `| ${widths.map((width, at) => (row[at] ?? "").padEnd(width)).join(" | ")} |`;
  const [first = [], ...others] = cells;
  const rule = `| ${widths.map((width) => "-".repeat(width)).join(" | ")} |`;
  return [lineOf(first), rule, ...others.map(lineOf)].join("\n");
}

/** A piece of code inside of a line. */
export function code(text: string): string {
  return text.includes("`") ? `\`\` ${text} \`\`` : `\`${text}\``;
}

/** The anchor of a heading, as GitHub makes it. */
export function anchorOf(heading: string): string {
  return heading.toLowerCase().replaceAll(/[^\p{L}\p{N} _-]/gu, "").replaceAll(" ", "-");
}
