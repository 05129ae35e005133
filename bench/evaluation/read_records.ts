import { readFileSync } from "node:fs";
import { CanopyError, messageOf } from "../../base/errors.ts";
import { isJsonObject } from "../../base/json.ts";
import { readKeptLines } from "../records/kept_lines.ts";
import type { EvalRecord } from "./eval_record.ts";

/** The answers of one evaluation, as its file has them. */
export interface KeptRecords {
  /** What they depend on, as it was written. */
  readonly settings: string;
  /** The last one of each set, question, mode and repeat. */
  readonly records: readonly EvalRecord[];
}

/** What tells the answers of an evaluation apart. */
export type RecordKey = Pick<EvalRecord, "set" | "question" | "mode" | "repeat">;

/** The key as a text. */
export function recordKey({ set, question, mode, repeat }: RecordKey): string {
  return [set, question, mode, repeat].join("\0");
}

/** Reads a file that `bench eval --records` has kept. Throws 400 `no_records` where it is none, or has no answer. */
export function readRecords(
  path: string,
  { mayBeEmpty = false }: { readonly mayBeEmpty?: boolean | undefined } = {},
): KeptRecords {
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (cause) {
    throw noRecords(path, messageOf(cause), cause);
  }
  const lines = readKeptLines<{ readonly record: EvalRecord }>(text);
  let settings: string | undefined;
  const records = new Map<string, EvalRecord>();
  for (const line of lines) {
    if ("settings" in line) settings ??= String(line.settings);
    else if (isRecord(line.record)) records.set(recordKey(line.record), line.record);
  }
  if (settings === undefined || (records.size === 0 && !mayBeEmpty)) {
    throw noRecords(path, "it has no answers of canopy bench eval --records");
  }
  return { settings, records: [...records.values()] };
}

function isRecord(record: unknown): record is EvalRecord {
  return isJsonObject(record) && typeof record["set"] === "string" &&
    typeof record["question"] === "string" &&
    typeof record["mode"] === "string" && typeof record["repeat"] === "number" &&
    typeof record["outcome"] === "string" && typeof record["latencyMs"] === "number" &&
    typeof record["completionTokens"] === "number";
}

function noRecords(path: string, why: string, cause?: unknown): CanopyError {
  return new CanopyError(`Cannot read the answers of ${path}: ${why}`, {
    code: "no_records",
    status: 400,
    cause,
  });
}
