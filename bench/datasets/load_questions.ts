import { createHash } from "node:crypto";
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join, relative, sep } from "node:path";
import { CanopyError, messageOf } from "../../base/errors.ts";
import { snapshotFolder } from "../../ml/hub/cache.ts";
import { hubCache } from "../../ml/hub/environment.ts";
import { pullModel, type PullOptions } from "../../ml/hub/pull.ts";
import { type DataSet, type EvalQuestion, type PublishedFile, RowError } from "./data_set.ts";
import { fileRows, READABLE } from "./file_rows.ts";

/** Questions, and where they are from. */
export interface LoadedSet {
  readonly name: string;
  /** For people: names the data set, and says where these questions are from. */
  readonly label: string;
  /** Identifies these questions in a report. */
  readonly source: string;
  /** True for questions of Canopy's own, which are no data set. */
  readonly sample: boolean;
  readonly questions: readonly EvalQuestion[];
}

type ReadableSet = Pick<DataSet, "name" | "title" | "read"> & Partial<Pick<DataSet, "columns" | "files">>;

/** The questions that come with Canopy: written for it in the shape of the data set, and no part of it. */
export async function loadSample(
  set: ReadableSet & Pick<DataSet, "sample">,
  seed: string,
): Promise<LoadedSet> {
  const { file, text } = set.sample;
  const questions = await questionsOf(set, [{ path: file, bytes: new TextEncoder().encode(text) }], seed);
  return {
    name: set.name,
    label: `${set.title} sample (${questions.length} questions by Canopy, not the data set)`,
    source: `sample of Canopy, sha256 ${sha256(new TextEncoder().encode(text)).slice(0, 12)}`,
    sample: true,
    questions: questions.map((question) => ({ ...question, id: `sample/${question.id}` })),
  };
}

/**
 * The questions of files on this machine: one file, or a folder with the published files or with others of their kind.
 * Throws 400 `no_questions` and `bad_question`.
 */
export async function loadFiles(set: ReadableSet, path: string, seed: string): Promise<LoadedSet> {
  const files = filesAt(path, set.files ?? []).map((file) => ({
    path: file === path ? file.replaceAll(sep, "/") : relative(path, file).replaceAll(sep, "/"),
    bytes: new Uint8Array(readFileSync(file)),
  }));
  if (files.length === 0) {
    throw failure("no_questions", `${path} has no file with questions (${READABLE.join(", ")})`);
  }
  const questions = await questionsOf(set, files, seed);
  const hash = createHash("sha256");
  for (const { bytes } of files) hash.update(bytes);
  return {
    name: set.name,
    label: set.title === path ? path : `${set.title} from ${path}`,
    source: `${path}, sha256 ${hash.digest("hex").slice(0, 12)}`,
    sample: false,
    questions,
  };
}

/** The way to the Hub. */
export type HubAccess = Pick<PullOptions, "transport" | "clock" | "signal" | "env" | "onProgress">;

/**
 * The published questions, from the cache on this machine or from the Hub, at the pinned revision. Throws as
 * `pullModel`, 502 `checksum_mismatch` for a file with other bytes, and 400 `bad_question`.
 */
export async function loadPublished(set: DataSet, seed: string, access: HubAccess): Promise<LoadedSet> {
  const { hub, revision } = set;
  const cached = await snapshotFolder(hubCache(access.env), hub, revision, "dataset");
  const whole = cached !== undefined && set.files.every(({ path }) => isFile(join(cached, path)));
  const folder = whole ? cached : (await pullModel({
    ...access,
    model: hub,
    kind: "dataset",
    revision,
    choose: () => set.files.map(({ path }) => path),
  })).folder;
  const files = set.files.map(({ path, sha256: expected }) => {
    const bytes = new Uint8Array(readFileSync(join(folder, path)));
    if (expected === undefined || sha256(bytes) === expected) return { path, bytes };
    throw new CanopyError(
      `Cannot use ${path} of ${hub} in ${folder}: its SHA-256 is ${
        sha256(bytes)
      }, and that of the published file ` +
        `is ${expected}; remove it, and run this again`,
      { code: "checksum_mismatch", status: 502 },
    );
  });
  const questions = await questionsOf(set, files, seed);
  if (questions.length !== set.count) {
    throw failure(
      "bad_question",
      `${hub} has ${questions.length} questions at ${revision}, and ${set.title} has ${set.count}`,
    );
  }
  return {
    name: set.name,
    label: set.title,
    source: `${hub} at ${revision.slice(0, 12)}`,
    sample: false,
    questions,
  };
}

interface ReadFile {
  readonly path: string;
  readonly bytes: Uint8Array;
}

async function questionsOf(
  set: ReadableSet,
  files: readonly ReadFile[],
  seed: string,
): Promise<EvalQuestion[]> {
  const questions: EvalQuestion[] = [];
  const ids = new Set<string>();
  for (const { path, bytes } of files) {
    const rows = await fileRows(path, bytes, set.columns).catch((cause: unknown) => {
      throw failure("bad_question", `Cannot read ${path}: ${messageOf(cause)}`);
    });
    const lines = path.endsWith(".jsonl")
      ? new TextDecoder().decode(bytes).split("\n").filter(isNoBlank)
      : [];
    for (const [index, row] of rows.entries()) {
      try {
        const question = set.read(row, { file: path, index, seed, line: lines[index] });
        if (ids.has(question.id)) throw new RowError(`its id "${question.id}" is that of another one`);
        ids.add(question.id);
        questions.push(question);
      } catch (error) {
        if (!(error instanceof RowError)) throw error;
        throw failure(
          "bad_question",
          `Cannot read question ${index + 1} of ${path} as one of ${set.title}: ${error.message}`,
        );
      }
    }
  }
  return questions;
}

function filesAt(path: string, published: readonly PublishedFile[]): string[] {
  if (!isFolder(path)) {
    if (isFile(path)) return [path];
    throw failure("no_questions", `Cannot read questions from ${path}: there is no such file or folder`);
  }
  const own = published.map((file) => join(path, file.path));
  if (own.length > 0 && own.every(isFile)) return own;
  return readdirSync(path, { recursive: true, withFileTypes: true })
    .filter((entry) => !entry.isDirectory() && READABLE.some((ending) => entry.name.endsWith(ending)))
    .map((entry) => join(entry.parentPath, entry.name)).sort();
}

function isNoBlank(line: string): boolean {
  return line.trim() !== "";
}

function isFile(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isFile() === true;
}

function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
}

function sha256(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}

function failure(code: string, message: string): CanopyError {
  return new CanopyError(message, { code, status: 400 });
}
