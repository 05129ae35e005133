import { CanopyError } from "../../base/errors.ts";
import type { EvalQuestion } from "../../bench/datasets/data_set.ts";
import { gradeAnswer } from "../../bench/grading/grade_answer.ts";
import type { AnswerGrade } from "../../bench/grading/answer_grade.ts";
import { partShares, uncheckedReasons } from "../../bench/grading/part_shares.ts";
import { shareText } from "../../bench/report/report.ts";
import { clusteredInterval } from "../../bench/statistics/clustered_share.ts";
import { UsageError } from "../kit/args.ts";
import { defineCommand } from "../kit/command.ts";
import type { Io } from "../kit/io.ts";
import { writeResult } from "../kit/report_output.ts";
import { colorsOf, table, tableColumns } from "../kit/terminal.ts";
import { type GivenAnswer, givenAnswers } from "./graded_answers.ts";
import { sandboxSource } from "./sandbox_source.ts";
import { checkSetName, pickedSets, QUESTION_OPTIONS, setNameOf } from "./question_source.ts";

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
      help: "Of the order of GPQA's options when it was asked; of records theirs by default, else canopy",
    },
    out: { type: "text", value: "FILE", help: "Write each verdict to this file as JSONL" },
  },
  details:
    `SET is a data set (see bench questions) or a JSONL file of your own questions. FILE has a line of JSON for each
answer, with the "id" of the question and the "text", or it is a file of bench eval --records, as it is: then there is a
line for each mode. An answer that states nothing is ungradable, and never right.

Examples:
  canopy bench grade gsm8k answers.jsonl
  canopy bench grade math500 records.jsonl
  canopy bench grade math500 answers.jsonl --data hub --out verdicts.jsonl`,
  run: async (values, [name, file], io) => {
    if (name === undefined || file === undefined) {
      throw new UsageError("Needs a data set and a file of answers: canopy bench grade SET FILE");
    }
    checkSetName(name);
    const { answers, seed, notes } = givenAnswers(file, setNameOf(name), io);
    const source = { ...values, seed: values.seed ?? seed, samples: undefined, ids: [] };
    const [set] = await pickedSets([name], source, io);
    const byId = new Map(set!.questions.map((question) => [question.id, question]));
    const openSandbox = sandboxSource(io);
    const graded: GradedAnswer[] = [];
    for (const answer of answers) {
      const question = byId.get(answer.id);
      if (question === undefined) {
        throw new CanopyError(
          `${answer.place} answers "${answer.id}", which is no question of ${set!.label}`,
          { code: "no_question", status: 400 },
        );
      }
      graded.push({ answer, question, verdict: await gradeAnswer(question, answer.text, openSandbox) });
    }
    io.out.write(resultText(set!.label, graded, [...notes, ...changeNotes(graded)], io));
    if (values.out !== undefined) writeResult(values.out, graded.map(verdictLine).join(""), io);
    return 0;
  },
});

interface GradedAnswer {
  readonly answer: GivenAnswer;
  readonly question: EvalQuestion;
  readonly verdict: AnswerGrade;
}

/** What these verdicts have otherwise than the file of records. */
function changeNotes(graded: readonly GradedAnswer[]): string[] {
  const changed = graded.filter(({ answer: { record }, verdict }) => {
    const before = record?.readings["canopy"]?.outcome ?? record?.outcome;
    return before !== undefined && before !== verdict.outcome;
  }).length;
  return changed === 0 ? [] : [`other verdicts than in the file of records: ${changed}`];
}

function resultText(
  label: string,
  graded: readonly GradedAnswer[],
  notes: readonly string[],
  io: Io,
): string {
  const colors = colorsOf(io.out, io.env);
  const verdicts = graded.map(({ verdict }) => verdict);
  const modes = Map.groupBy(graded, ({ answer: { record } }) => record?.mode);
  const isByMode = !modes.has(undefined);
  const head = ["answers", "right", "wrong", "ungradable", "accuracy", "95 %"];
  const rows = [...modes].map(([mode, own]) => [...mode === undefined ? [] : [mode], ...countsRow(own)]);
  const parts = [...modes].flatMap(([mode, own]) =>
    partShares(own.map(({ verdict }) => verdict)).map((one) => [
      ...mode === undefined ? [] : [mode],
      one.way,
      `${one.answers}`,
      shareText(one.allMet),
      `${one.parts}`,
      shareText(one.met),
      `${one.unchecked}`,
    ])
  );
  const named = <T>(list: readonly T[], first: T) => isByMode ? [first, ...list] : [...list];
  const right = (row: readonly string[]) => row.map(() => "right" as const);
  return [
    colors.bold(label),
    ...table(named(head, "mode"), rows, named(right(head), "left"), tableColumns(io.out)),
    ...parts.length === 0 ? [] : table(
      named(["checked", "answers", "all met", "parts", "met", "not checked"], "mode"),
      parts,
      named(["left", "right", "right", "right", "right", "right"] as const, "left"),
      tableColumns(io.out),
    ),
    ...uncheckedReasons(verdicts).map(([reason, number]) => `${number} ungradable, in no share: ${reason}`),
    ...notes,
  ].map((line) => `${line}\n`).join("");
}

/** What could not be checked is in no share; answers to one question are not independent. */
function countsRow(graded: readonly GradedAnswer[]): string[] {
  const count = (outcome: AnswerGrade["outcome"]) =>
    graded.filter(({ verdict }) => verdict.outcome === outcome).length;
  const checked = graded.filter(({ verdict }) => verdict.unchecked === undefined);
  const questions = [...Map.groupBy(checked, ({ question }) => question.id).values()];
  const { low, high } = clusteredInterval(
    questions.map((own) => ({
      hits: own.filter(({ verdict }) => verdict.outcome === "right").length,
      count: own.length,
    })),
  );
  return [
    ...[graded.length, count("right"), count("wrong"), count("ungradable")].map(String),
    shareText(count("right") / checked.length),
    `${shareText(low)} – ${shareText(high)}`,
  ];
}

function verdictLine({ answer: { record }, question: { id, answer }, verdict }: GradedAnswer): string {
  const of = record === undefined ? {} : { mode: record.mode, repeat: record.repeat };
  return `${JSON.stringify({ id, ...of, ...verdict, stated: verdict.stated ?? null, answer })}\n`;
}
