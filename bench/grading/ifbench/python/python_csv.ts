/**
 * Rows of a text as Python's `csv.reader` reads them, not strictly: a quote opens a quoted cell only at its start, what
 * follows the closing one belongs to the cell, and an empty line is an empty row. Undefined where it raises an error.
 */
export function pythonCsvRows(text: string, delimiter: "," | "\t"): string[][] | undefined {
  const rows: string[][] = [];
  let row: string[] = [];
  let cell = "";
  let state: "row" | "cell" | "plain" | "quoted" | "quote" | "return" = "row";
  const endCell = () => {
    row.push(cell);
    cell = "";
  };
  const endRow = () => {
    rows.push(row);
    row = [];
    state = "row";
  };
  for (const char of text) {
    if (state === "return") {
      // A carriage return that no line ends with: only one line may be read at a time.
      if (char !== "\n") return undefined;
      endRow();
      continue;
    }
    if (state === "quoted") {
      if (char === '"') state = "quote";
      else cell += char;
      continue;
    }
    if (char === "\n" || char === "\r") {
      if (state !== "row") endCell();
      if (char === "\n") endRow();
      else state = "return";
    } else if (char === delimiter) {
      endCell();
      state = "cell";
    } else if (char === '"' && state !== "plain") {
      if (state === "quote") cell += char;
      state = "quoted";
    } else {
      cell += char;
      state = "plain";
    }
  }
  if (state === "return") endRow();
  else if (state !== "row") {
    endCell();
    endRow();
  }
  return rows;
}
