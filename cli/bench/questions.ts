import { DATA_SETS } from "../../bench/datasets/catalog.ts";
import { OPEN_ENDED } from "../../bench/datasets/open_ended.ts";
import { ownRow } from "../../bench/datasets/own_questions.ts";
import { CanopyError } from "../../base/errors.ts";
import { defineCommand } from "../kit/command.ts";
import type { Io } from "../kit/io.ts";
import { writeResult } from "../kit/report_output.ts";
import { colorsOf, oneLine, table, tableColumns, truncate } from "../kit/terminal.ts";
import { type PickedSet, pickedSets, QUESTION_OPTIONS } from "./question_source.ts";

/** Characters of a question that are shown. */
const SHOWN_LENGTH = 70;

/** `canopy bench questions`: what data sets there are, and what they ask. */
export const benchQuestionsCommand = defineCommand({
  name: "bench questions",
  summary: "List the data sets, or show questions of them in the order in which they would be asked",
  arguments: "[SET…]",
  maxArguments: DATA_SETS.length + 1,
  options: {
    ...QUESTION_OPTIONS,
    out: {
      type: "text",
      value: "FILE",
      help: "Write the questions to this file, in the form that files of your own have",
    },
  },
  details:
    `Without SET the data sets are listed. A file of your own is JSONL with "question", "answer" and "grader" (number,
maths, choice, exact, or open for prompts without a right answer), and where wanted "id", "subject" and "options"; of
options the answer is a letter.

With --data hub the published files are fetched at a pinned revision, and read from the Hub's cache when they are there.
Environment: HF_HOME or HF_HUB_CACHE (where the cache is), HF_ENDPOINT (a mirror), HF_TOKEN (for data sets whose authors
ask for consent), HF_HUB_OFFLINE.

Examples:
  canopy bench questions gsm8k math500 --samples 3
  canopy bench questions mmlu --data hub --samples 100 --out part.jsonl`,
  run: async (values, names, io) => {
    if (names.length === 0) {
      io.out.write(setsText(io));
      return 0;
    }
    const sets = await pickedSets(names, values, io);
    for (const set of sets) io.out.write(questionsText(set, io));
    if (values.out !== undefined) writeQuestions(values.out, sets, io);
    return 0;
  },
});

function setsText(io: Io): string {
  const colors = colorsOf(io.out, io.env);
  const rows = DATA_SETS.map(({ name, title, count, hub, revision, licence, gated }) => [
    name,
    title,
    count.toLocaleString("en-US"),
    `${hub}@${revision.slice(0, 8)}`,
    licence + (gated === true ? "; authors ask for consent" : ""),
  ]);
  const head = ["set", "title", "questions", "on the Hub", "licence"];
  return [
    colors.bold("Data sets"),
    ...table(head, rows, ["left", "left", "right", "left", "left"], tableColumns(io.out)),
    "",
    `${OPEN_ENDED}: prompts of Canopy's own that have no right answer, for how unlike answers are.`,
    "Without --data hub, or files of yours, samples are asked: questions by Canopy in the same shape, not the data sets.",
  ].map((line) => `${line}\n`).join("");
}

function questionsText(set: PickedSet, io: Io): string {
  const colors = colorsOf(io.out, io.env);
  const rows = set.questions.map(({ id, subject = "–", grader, answer, question }) => [
    id,
    truncate(oneLine(subject), 24),
    grader,
    truncate(oneLine(answer), 20),
    truncate(oneLine(question), SHOWN_LENGTH),
  ]);
  return [
    colors.bold(set.label),
    `${set.questions.length} of ${set.count} questions; ${set.source}`,
    ...table(["id", "subject", "grader", "answer", "question"], rows, [], tableColumns(io.out)),
    "",
  ].map((line) => `${line}\n`).join("");
}

function writeQuestions(path: string, sets: readonly PickedSet[], io: Io): void {
  const rows = sets.flatMap((set) => set.questions.map((question) => ({ set, row: ownRow(question) })));
  const missing = rows.filter(({ row }) => row === undefined).length;
  if (missing > 0) {
    throw new CanopyError(
      `Cannot write ${missing} questions to ${path}: programs check their answers, which files of your own cannot name`,
      { code: "no_own_form", status: 400 },
    );
  }
  const text = rows.map(({ set, row = {} }) =>
    `${JSON.stringify(sets.length > 1 ? { ...row, id: `${set.name}/${String(row["id"])}` } : row)}\n`
  ).join("");
  writeResult(path, text, io);
}
