import { CanopyError, messageOf } from "../../base/errors.ts";
import { isJsonObject } from "../../base/json.ts";
import { readKeptLines } from "../records/kept_lines.ts";
import type { AnswerRun } from "./answer_run.ts";
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

/** A line of a file of records. */
export type KeptRecordLine = { readonly record: EvalRecord } | { readonly settings: string };

/** The lines of a file that `bench eval --records` has kept, as they are. Throws where it cannot be read. */
export function* recordLines(path: string): Generator<KeptRecordLine, void, undefined> {
  for (const line of readKeptLines<{ readonly record: EvalRecord }>(path)) {
    if ("settings" in line) yield { settings: String(line.settings) };
    else if (isRecord(line.record)) yield line;
  }
}

/**
 * Reads a file that `bench eval --records` has kept, without what a run's agents wrote. Throws 400 `no_records` where it
 * is none, or has no answer.
 */
export function readRecords(
  path: string,
  { mayBeEmpty = false }: { readonly mayBeEmpty?: boolean | undefined } = {},
): KeptRecords {
  let settings: string | undefined;
  const records = new Map<string, EvalRecord>();
  try {
    for (const line of recordLines(path)) {
      if ("settings" in line) settings ??= line.settings;
      else records.set(recordKey(line.record), withoutRunTexts(line.record));
    }
  } catch (cause) {
    throw noRecords(path, messageOf(cause), cause);
  }
  if (settings === undefined || (records.size === 0 && !mayBeEmpty)) {
    throw noRecords(path, "it has no answers of canopy bench eval --records");
  }
  return { settings, records: [...records.values()] };
}

/** A record with the times of its run, and nothing that was written in it: that of a tree is ten times its answer. */
export function withoutRunTexts(record: EvalRecord): EvalRecord {
  if (record.run === undefined) return record;
  const run: AnswerRun = {
    ...record.run,
    agents: record.run.agents.map((agent) => ({ ...agent, text: "" })),
    decisions: [],
  };
  return { ...record, run };
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
