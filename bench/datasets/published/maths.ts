import { type DataSet, RowError, rowText, rowTexts } from "../data_set.ts";
import aimeSample from "../samples/aime25.jsonl" with { type: "text" };
import hmmtSample from "../samples/hmmt.jsonl" with { type: "text" };
import mathSample from "../samples/math500.jsonl" with { type: "text" };

/** MATH-500 (Hendrycks et al., 2021; Lightman et al., 2023): competition problems with answers in LaTeX. */
export const MATH_500: DataSet = {
  name: "math500",
  title: "MATH-500",
  hub: "HuggingFaceH4/MATH-500",
  revision: "6e4ed1a2a79af7d8630a6b768ec859cb5af4d3be",
  files: [{
    path: "test.jsonl",
    sha256: "35dc41080a3680858b27fa7e0533d2d547825316fc5dafe5d316f4ccc5a06132",
  }],
  count: 500,
  licence: "MIT (source)",
  sample: { file: "math500.jsonl", text: mathSample },
  read: (row) => ({
    id: rowText(row, "unique_id"),
    question: rowText(row, "problem"),
    answer: rowText(row, "answer"),
    grader: "maths",
    subject: rowText(row, "subject"),
  }),
};

/** AIME 2025, both parts: the answer is a whole number from 0 to 999. */
export const AIME_2025: DataSet = {
  name: "aime25",
  title: "AIME 2025",
  hub: "math-ai/aime25",
  revision: "563bb8404243c5f09de6ec262f2db674fe5bce9b",
  files: [{
    path: "test.jsonl",
    sha256: "b4e273c02d3e7fe1b74b59eae768fc8230bfb0f79539890cb56f4361caac0331",
  }],
  count: 30,
  licence: "not stated; problems © MAA",
  sample: { file: "aime25.jsonl", text: aimeSample },
  read(row, { index }) {
    const answer = rowText(row, "answer").trim();
    if (!/^\d{1,3}$/.test(answer)) throw new RowError("its answer is no whole number from 0 to 999");
    return {
      id: row["id"] === undefined && row["problem_idx"] === undefined
        ? String(index)
        : rowText(row, "id", "problem_idx"),
      question: rowText(row, "problem", "question"),
      answer,
      grader: "number",
    };
  },
};

/** HMMT February 2025 as MathArena publishes it: answers in LaTeX, one of them an unordered list. */
export const HMMT_FEB_2025: DataSet = {
  name: "hmmt25",
  title: "HMMT Feb 2025",
  hub: "MathArena/hmmt_feb_2025",
  revision: "6fdc4277120810ff75aa22d2d5489b91f7a262a1",
  files: [{ path: "data/train-00000-of-00001.parquet" }],
  count: 30,
  licence: "CC BY-NC-SA 4.0",
  sample: { file: "hmmt.jsonl", text: hmmtSample },
  read: (row) => ({
    id: rowText(row, "problem_idx"),
    question: rowText(row, "problem"),
    answer: rowText(row, "answer"),
    grader: "maths",
    subject: row["problem_type"] === undefined ? undefined : rowTexts(row, "problem_type")[0],
  }),
};
