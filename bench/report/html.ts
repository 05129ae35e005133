import type { Report, ReportPlot, ReportTable } from "./report.ts";
import { svgOf } from "./svg.ts";

/** A report as one page that needs nothing else: its tables, its plot, its notes. */
export async function htmlOf(report: Report): Promise<string> {
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>${escapedHtml(report.title)}</title>
<style>${STYLE}</style>
<h1>${escapedHtml(report.title)}</h1>
<p class="origin">${escapedHtml(report.origin)}</p>
${report.tables.slice(0, 1).map(tableOf).join("\n")}
<figure>${await svgOf(report)}</figure>
${report.tables.slice(1).map(tableOf).join("\n")}
${
    report.pages === undefined
      ? ""
      : `<p><a href="${escapedHtml(report.pages.path)}">${escapedHtml(report.pages.text)}</a></p>`
  }
${(await Promise.all((report.plots ?? []).map((one) => figureOf(report, one)))).join("\n")}
<h2>Notes</h2>
<ul>
${report.notes.map((note) => `<li>${escapedHtml(note)}</li>`).join("\n")}
</ul>
${
    (report.listings ?? []).map(({ title, text }) =>
      `<h2>${escapedHtml(title)}</h2>\n<pre>${escapedHtml(text)}</pre>`
    ).join("\n")
  }
</html>
`;
}

async function figureOf(report: Report, { title, plot }: ReportPlot): Promise<string> {
  return `<figure>${await svgOf({ ...report, title, plot })}</figure>`;
}

function tableOf({ title, head, rows }: ReportTable): string {
  const cells = (tag: "td" | "th", row: readonly string[]) =>
    `<tr>${row.map((cell) => `<${tag}>${escapedHtml(cell)}</${tag}>`).join("")}</tr>`;
  return `<h2>${escapedHtml(title)}</h2>
<div class="wide"><table>
<thead>${cells("th", head)}</thead>
<tbody>
${rows.map((row) => cells("td", row)).join("\n")}
</tbody>
</table></div>`;
}

/** A text in which nothing is markup. */
export function escapedHtml(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll(
    '"',
    "&quot;",
  );
}

/** How pages look. */
export const STYLE = `
body { font: 15px/1.5 Helvetica, Arial, sans-serif; color: #222; max-width: 70rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.6rem } h2 { font-size: 1.15rem; margin-top: 2rem }
.origin { color: #666 }
.wide { overflow-x: auto }
table { border-collapse: collapse; font-size: 13px }
th, td { padding: .25rem .7rem; text-align: right; white-space: nowrap; border-bottom: 1px solid #e8e8e8 }
th:first-child, td:first-child { text-align: left }
th { color: #666; font-weight: 600 }
pre { overflow-x: auto; font-size: 13px; background: #f6f6f6; padding: .7rem }
figure { margin: 1.5rem 0 } svg { max-width: 100%; height: auto }
`;
