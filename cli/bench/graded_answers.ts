import { existsSync, readFileSync } from "node:fs";
import { resolve } from "node:path";
import { CanopyError, messageOf } from "../../base/errors.ts";
import { isJsonObject } from "../../base/json.ts";
import type { EvalRecord } from "../../bench/evaluation/eval_record.ts";
import { readRecords } from "../../bench/evaluation/read_records.ts";
import { readKeptLines } from "../../bench/records/kept_lines.ts";
import type { Io } from "../kit/io.ts";

/** An answer of a file that is graded. */
export interface GivenAnswer {
  readonly id: string;
  readonly text: string;
  /** Of an answer that bench eval has kept. */
  readonly record?: EvalRecord | undefined;
  /** In the file, for people. */
  readonly place: string;
}

/** Answers of a file. */
export interface GivenAnswers {
  readonly answers: readonly GivenAnswer[];
  /** Seed with which bench eval has asked; undefined for other files. */
  readonly seed?: string | undefined;
  /** What of the file is not graded; sentences. */
  readonly notes: readonly string[];
}

/**
 * The answers to a set's questions in a file: lines with `id` and `text`, or the records of bench eval. Throws 400
 * `bad_answers`.
 */
export function givenAnswers(file: string, set: string, io: Pick<Io, "cwd">): GivenAnswers {
  const path = resolve(io.cwd, file);
  if (isRecordFile(path)) return recordedAnswers({ path, file, set });
  const answers = linesOf(path, file).flatMap((line, index): GivenAnswer[] => {
    if (line.trim() === "") return [];
    const read = parsed(line);
    const { id, text } = isJsonObject(read) ? read : {};
    const place = `Line ${index + 1} of ${file}`;
    if (typeof id === "string" && typeof text === "string") return [{ id, text, place }];
    throw badAnswers(`${place} is no JSON object with the texts "id" and "text"`);
  });
  if (answers.length > 0) return { answers, notes: [] };
  throw badAnswers(`${file} has no answers`);
}

/** True for a file that begins as those of bench eval do. */
function isRecordFile(path: string): boolean {
  if (!existsSync(path)) return false;
  for (const first of readKeptLines(path)) return "settings" in first;
  return false;
}

function recordedAnswers(
  { path, file, set }: { readonly path: string; readonly file: string; readonly set: string },
): GivenAnswers {
  const { records, settings } = readRecords(path);
  const own = records.filter((record) => record.set === set);
  if (own.length === 0) {
    const sets = [...new Set(records.map((record) => record.set))].join(", ");
    throw badAnswers(`${file} has no answers to ${set}: it has some to ${sets}`);
  }
  const answers = own.filter(({ warmUp }) => warmUp !== true).map((record): GivenAnswer => ({
    id: record.question,
    text: record.text,
    record,
    place: file,
  }));
  const others = records.length - own.length;
  const warmUp = own.length - answers.length;
  return {
    answers,
    seed: seedIn(settings),
    notes: [
      ...others === 0 ? [] : [`not graded, since they are answers to other sets: ${others}`],
      ...warmUp === 0 ? [] : [`not graded, since they are of the warm-up: ${warmUp}`],
    ],
  };
}

function seedIn(settings: string): string | undefined {
  const read = parsed(settings);
  const seed = isJsonObject(read) ? read["seed"] : undefined;
  return typeof seed === "string" ? seed : undefined;
}

function linesOf(path: string, file: string): string[] {
  try {
    return readFileSync(path, "utf8").split("\n");
  } catch (cause) {
    throw badAnswers(`Cannot read answers from ${file}: ${messageOf(cause)}`);
  }
}

function parsed(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}

function badAnswers(message: string): CanopyError {
  return new CanopyError(message, { code: "bad_answers", status: 400 });
}
