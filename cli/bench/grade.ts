import { readFileSync, writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { CanopyError, messageOf } from "../../base/errors.ts";
import type { EvalQuestion } from "../../bench/datasets/data_set.ts";
import { gradeAnswer } from "../../bench/grading/grade_answer.ts";
import type { AnswerGrade } from "../../bench/grading/answer_grade.ts";
import { partShares, uncheckedReasons } from "../../bench/grading/part_shares.ts";
import { shareText } from "../../bench/report/report.ts";
import { sumOf, wilsonInterval } from "../../bench/statistics/statistics.ts";
import { isJsonObject } from "../../base/json.ts";
import { UsageError } from "../kit/args.ts";
import { defineCommand } from "../kit/command.ts";
import type { Io } from "../kit/io.ts";
import { colorsOf, table } from "../kit/terminal.ts";
import { sandboxSource } from "./sandbox_source.ts";
import { pickedSets, QUESTION_OPTIONS } from "./question_source.ts";

/** `canopy bench grade`: verdicts on answers that are there. */
export const benchGradeCommand = defineCommand({
  name: "bench grade",
  summary: "Grade answers in a file: right, wrong or ungradable, without asking any model",
  arguments: "SET FILE",
  maxArguments: 2,
  options: {
    data: QUESTION_OPTIONS.data,
    seed: {
      ...QUESTION_OPTIONS.seed,
      help: "Of the order of GPQA's options when it was asked; canopy by default",
    },
    out: { type: "text", value: "FILE", help: "Write each verdict to this file as JSONL" },
  },
  details:
    `SET is a data set (see bench questions) or a JSONL file of your own questions. FILE has a line of JSON for each
answer, with the "id" of the question and the "text". An answer that states nothing is ungradable, and never right.

Examples:
  canopy bench grade gsm8k answers.jsonl
  canopy bench grade math500 answers.jsonl --data hub --out verdicts.jsonl`,
  run: async (values, [name, file], io) => {
    if (name === undefined || file === undefined) {
      throw new UsageError("Needs a data set and a file of answers: canopy bench grade SET FILE");
    }
    const [set] = await pickedSets([name], { ...values, samples: undefined, ids: [] }, io);
    const byId = new Map(set!.questions.map((question) => [question.id, question]));
    const openSandbox = sandboxSource(io);
    const graded: GradedAnswer[] = [];
    for (const [index, { id, text }] of answersIn(file, io).entries()) {
      const question = byId.get(id);
      if (question === undefined) {
        throw failure(
          "no_question",
          `Line ${index + 1} of ${file} answers "${id}", which is no question of ${set!.label}`,
        );
      }
      graded.push({ question, verdict: await gradeAnswer(question, text, openSandbox) });
    }
    io.out.write(resultText(set!.label, graded, io));
    if (values.out !== undefined) writeVerdicts(values.out, graded, io);
    return 0;
  },
});

interface GradedAnswer {
  readonly question: EvalQuestion;
  readonly verdict: AnswerGrade;
}

function answersIn(file: string, io: Io): { readonly id: string; readonly text: string }[] {
  const lines = readLines(file, io);
  const answers = lines.flatMap((line, index) => {
    if (line.trim() === "") return [];
    const read = parsed(line);
    const { id, text } = isJsonObject(read) ? read : {};
    if (typeof id === "string" && typeof text === "string") return [{ id, text }];
    throw failure(
      "bad_answers",
      `Line ${index + 1} of ${file} is no JSON object with the texts "id" and "text"`,
    );
  });
  if (answers.length > 0) return answers;
  throw failure("bad_answers", `${file} has no answers`);
}

function readLines(file: string, io: Io): string[] {
  try {
    return readFileSync(pathOf(file, io), "utf8").split("\n");
  } catch (cause) {
    throw failure("bad_answers", `Cannot read answers from ${file}: ${messageOf(cause)}`);
  }
}

function parsed(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}

function resultText(label: string, graded: readonly GradedAnswer[], io: Io): string {
  const colors = colorsOf(io.out, io.env);
  const verdicts = graded.map(({ verdict }) => verdict);
  const count = (outcome: AnswerGrade["outcome"]) =>
    verdicts.filter((verdict) => verdict.outcome === outcome).length;
  const reasons = uncheckedReasons(verdicts);
  // What could not be checked is in no share.
  const checked = verdicts.length - sumOf(reasons.map(([, number]) => number));
  const [right, { low, high }] = [count("right"), wilsonInterval(count("right"), checked)];
  const row = [verdicts.length, right, count("wrong"), count("ungradable")].map(String);
  const parts = partShares(verdicts).map((one) => [
    one.way,
    `${one.answers}`,
    shareText(one.allMet),
    `${one.parts}`,
    shareText(one.met),
    `${one.unchecked}`,
  ]);
  return [
    colors.bold(label),
    ...table(
      ["answers", "right", "wrong", "ungradable", "accuracy", "95 %"],
      [[...row, shareText(right / checked), `${shareText(low)} – ${shareText(high)}`]],
      row.map(() => "right"),
    ),
    ...parts.length === 0
      ? []
      : table(["checked", "answers", "all met", "parts", "met", "not checked"], parts, [
        "left",
        "right",
        "right",
        "right",
        "right",
        "right",
      ]),
    ...reasons.map(([reason, number]) => `${number} ungradable, in no share: ${reason}`),
  ].map((line) => `${line}\n`).join("");
}

function writeVerdicts(path: string, graded: readonly GradedAnswer[], io: Io): void {
  const lines = graded.map(({ question: { id, answer }, verdict }) =>
    `${JSON.stringify({ id, ...verdict, stated: verdict.stated ?? null, answer })}\n`
  );
  try {
    writeFileSync(pathOf(path, io), lines.join(""));
  } catch (cause) {
    throw new CanopyError(`Cannot write ${path}: ${messageOf(cause)}`, {
      code: "cannot_write",
      status: 500,
      cause,
    });
  }
  io.err.write(`Wrote ${path}\n`);
}

function pathOf(path: string, io: Io): string {
  return resolve(io.cwd, path);
}

function failure(code: string, message: string): CanopyError {
  return new CanopyError(message, { code, status: 400 });
}
