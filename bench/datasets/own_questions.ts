import {
  type DataSet,
  type EvalQuestion,
  type GraderName,
  optionLetter,
  type Row,
  RowError,
  rowText,
  rowTexts,
} from "./data_set.ts";

/** Graders that questions of users may name. */
const OWN_GRADERS: readonly GraderName[] = ["number", "maths", "choice", "exact", "open"];

/**
 * A question of a user's own file: `question`, `answer` and `grader`; `id`, `subject` and `options` where wanted.
 * With options the answer is a letter, and to an open-ended one (`open`) there is none. Throws `RowError`.
 */
export function ownQuestion(row: Row, { index }: { readonly index: number }): EvalQuestion {
  const name = row["grader"] === undefined ? undefined : rowText(row, "grader");
  const options = row["options"] === undefined ? undefined : rowTexts(row, "options");
  const grader = OWN_GRADERS.find((one) => one === (name ?? (options === undefined ? "exact" : "choice")));
  if (grader === undefined) {
    throw new RowError(`its grader must be one of ${OWN_GRADERS.join(", ")}: current value is "${name}"`);
  }
  const answer = grader === "open" ? "" : rowText(row, "answer");
  if (grader !== "open" && answer.trim() === "") throw new RowError("its answer is empty");
  if (grader === "choice") {
    const letters = options?.map((_, at) => optionLetter(at)) ?? [];
    if (letters.length === 0) throw new RowError("it has no options, which the grader choice needs");
    if (!letters.includes(answer)) {
      throw new RowError(
        `its answer must be one of the letters ${letters.join(", ")}: current value is "${answer}"`,
      );
    }
  }
  return {
    id: row["id"] === undefined ? String(index) : rowText(row, "id"),
    question: rowText(row, "question"),
    answer,
    grader,
    options,
    optionsInText: row["options_in_text"] === true ? true : undefined,
    subject: row["subject"] === undefined ? undefined : rowText(row, "subject"),
  };
}

/** A question in the form that `ownQuestion` reads; undefined for those whose grader is none of these. */
export function ownRow(question: EvalQuestion): Row | undefined {
  if (!OWN_GRADERS.includes(question.grader)) return undefined;
  const { id, question: text, options, optionsInText, answer, grader, subject } = question;
  return { id, question: text, options, options_in_text: optionsInText, answer, grader, subject };
}

/** Title, and reader of rows, of a user's own file. */
export function ownSet(path: string): Pick<DataSet, "name" | "title" | "read"> {
  return { name: path.replace(/^.*[/\\]/, "").replace(/\.\w+$/, ""), title: path, read: ownQuestion };
}
