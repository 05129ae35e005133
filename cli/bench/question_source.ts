import { resolve } from "node:path";
import { DATA_SETS } from "../../bench/datasets/catalog.ts";
import type { EvalQuestion } from "../../bench/datasets/data_set.ts";
import { type LoadedSet, loadFiles, loadPublished, loadSample } from "../../bench/datasets/load_questions.ts";
import { loadOpenEnded, OPEN_ENDED } from "../../bench/datasets/open_ended.ts";
import { ownSet } from "../../bench/datasets/own_questions.ts";
import { pickQuestions } from "../../bench/datasets/pick_questions.ts";
import { UsageError } from "../kit/args.ts";
import type { OptionValues } from "../kit/command.ts";
import type { Io } from "../kit/io.ts";
import { Progress } from "../kit/progress.ts";
import { progressOf } from "../kit/pull_progress.ts";

/** Options that say which questions are meant. */
export const QUESTION_OPTIONS = {
  data: {
    type: "text",
    value: "SOURCE",
    help:
      "Where data sets are read from: sample (Canopy's own questions, the default), hub, a file or a folder",
  },
  samples: { type: "number", value: "N", min: 1, help: "Questions of each set at most; all by default" },
  seed: { type: "text", value: "TEXT", help: "Fixes the order of the questions; canopy by default" },
  ids: { type: "list", value: "ID", help: "Only this question; may be given several times" },
} as const;

export const DEFAULT_SEED = "canopy";

/** A set of which a part was picked. */
export interface PickedSet extends LoadedSet {
  /** Questions before some were picked. */
  readonly count: number;
  readonly questions: readonly EvalQuestion[];
}

/** Questions of the sets that are named: data sets, or files of a user's own. Throws `UsageError`, and as their loaders. */
export async function pickedSets(
  names: readonly string[],
  values: OptionValues<typeof QUESTION_OPTIONS>,
  io: Io,
): Promise<PickedSet[]> {
  const { data = "sample", samples, seed = DEFAULT_SEED, ids } = values;
  if (data !== "sample" && data !== "hub" && names.length > 1) {
    throw new UsageError("Option --data takes a file or a folder for one data set only: name one");
  }
  if (ids.length > 0 && names.length > 1) {
    throw new UsageError("Option --ids needs one data set only: ids are unique in theirs");
  }
  const progress = new Progress(io);
  const sets: PickedSet[] = [];
  try {
    for (const name of new Set(names)) {
      const loaded = await loadedSet(name, { data, seed, progress }, io);
      const questions = pickQuestions(loaded.questions, { samples, seed, ids });
      sets.push({ ...loaded, count: loaded.questions.length, questions });
    }
  } finally {
    progress.end();
  }
  return sets;
}

/** Refuses a name that is neither a data set nor a file of a user's own. Throws `UsageError`. */
export function checkSetName(name: string): void {
  const names = [...DATA_SETS.map((one) => one.name), OPEN_ENDED];
  if (names.includes(name) || /[./\\]/.test(name)) return;
  throw new UsageError(
    `There is no data set "${name}": there are ${
      names.join(", ")
    }, and files of your own such as ./questions.jsonl`,
  );
}

/** The name that records give a set. */
export function setNameOf(name: string): string {
  return /[./\\]/.test(name) ? ownSet(name).name : name;
}

async function loadedSet(
  name: string,
  { data, seed, progress }: { readonly data: string; readonly seed: string; readonly progress: Progress },
  io: Io,
): Promise<LoadedSet> {
  const pathOf = (path: string) => resolve(io.cwd, path);
  checkSetName(name);
  if (name === OPEN_ENDED) {
    if (data === "sample") return await loadOpenEnded(seed);
    throw new UsageError(
      `${OPEN_ENDED} are prompts of Canopy's own, published nowhere: leave out --data; prompts of yours are a file of ` +
        'their own, with "grader": "open"',
    );
  }
  const set = DATA_SETS.find((one) => one.name === name);
  if (set === undefined) return { ...await loadFiles(ownSet(name), pathOf(name), seed), label: name };
  if (data === "sample") return await loadSample(set, seed);
  if (data !== "hub") return await loadFiles(set, pathOf(data), seed);
  const { transport, clock, stop: signal, env } = io;
  return await loadPublished(set, seed, {
    transport,
    clock,
    signal,
    env,
    onProgress: progressOf(progress, io),
  });
}
