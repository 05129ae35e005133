/**
 * Rows of a CSV text (RFC 4180): quoted cells may hold commas, line ends and doubled quotes. Empty lines are left out.
 * Throws an error for a quote that does not end.
 */
export function csvRows(text: string): string[][] {
  const rows: string[][] = [];
  let row: string[] = [];
  const cells = /(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r\n|\n|\r|$)/y;
  const body = text.replace(/^\ufeff/, "");
  while (cells.lastIndex < body.length) {
    const start = cells.lastIndex;
    const cell = cells.exec(body);
    if (cell === null) {
      const line = body.slice(0, start).split(/\r\n|\n|\r/).length;
      throw new Error(`line ${line} has a quote in the wrong place, or one that does not end`);
    }
    row.push(cell[1]?.replaceAll('""', '"') ?? cell[2] ?? "");
    if (cell[3] === ",") {
      if (cells.lastIndex === body.length) row.push("");
      else continue;
    }
    if (row.length > 1 || row[0] !== "") rows.push(row);
    row = [];
  }
  return rows;
}
