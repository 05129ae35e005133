import { parquetReadObjects } from "hyparquet";
import { csvRows } from "./csv.ts";
import type { Row } from "./data_set.ts";

/** Endings of the files that can be read. */
export const READABLE = [".jsonl", ".json", ".parquet", ".csv"] as const;

/**
 * Rows of a file: JSONL, JSON (a list, or `examples` in an object), CSV or Parquet, by the ending of its name.
 * `columns`: names for a CSV file whose first line has none of them. Throws an error that says what is wrong.
 */
export async function fileRows(
  name: string,
  bytes: Uint8Array,
  columns?: readonly string[],
): Promise<Row[]> {
  if (name.endsWith(".parquet")) return await parquetRows(bytes);
  const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  if (name.endsWith(".csv")) return namedRows(csvRows(text), columns);
  if (name.endsWith(".jsonl")) return jsonLines(text);
  if (!name.endsWith(".json")) throw new Error(`it is none of ${READABLE.join(", ")}`);
  const read: unknown = JSON.parse(text);
  const list = isRow(read) ? read["examples"] : read;
  if (!Array.isArray(list)) throw new Error("it has no list of questions");
  return list.map((row, index) => rowOf(row, `entry ${index + 1}`));
}

function jsonLines(text: string): Row[] {
  return text.split("\n").flatMap((line, index) => {
    if (line.trim() === "") return [];
    try {
      const read: unknown = JSON.parse(line);
      return [rowOf(read, `line ${index + 1}`)];
    } catch (cause) {
      if (!(cause instanceof SyntaxError)) throw cause;
      throw new Error(`line ${index + 1} is no JSON: ${cause.message}`, { cause });
    }
  });
}

async function parquetRows(bytes: Uint8Array): Promise<Row[]> {
  const file = new Uint8Array(bytes).buffer;
  return await parquetReadObjects({ file });
}

function namedRows(rows: readonly string[][], columns: readonly string[] | undefined): Row[] {
  const [first = []] = rows;
  const unnamed = columns !== undefined && !first.some((cell) => columns.includes(cell));
  const names = unnamed ? columns : first;
  return rows.slice(unnamed ? 0 : 1).map((row, index) => {
    if (row.length !== names.length) {
      throw new Error(`row ${index + 1} has ${row.length} cells, and there are ${names.length} columns`);
    }
    return Object.fromEntries(names.map((name, column) => [name, row[column]]));
  });
}

function rowOf(value: unknown, where: string): Row {
  if (isRow(value)) return value;
  throw new Error(`${where} is no object`);
}

function isRow(value: unknown): value is Row {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
