import assert from "node:assert/strict";
import { test } from "node:test";
import { parquetWriteBuffer } from "hyparquet-writer";
import { DATA_SETS } from "../../../bench/datasets/catalog.ts";
import type { DataSet } from "../../../bench/datasets/data_set.ts";
import { loadSample } from "../../../bench/datasets/load_questions.ts";
import { fileRows } from "../../../bench/datasets/file_rows.ts";

function setOf(name: string): DataSet {
  const set = DATA_SETS.find((one) => one.name === name);
  assert.ok(set !== undefined, name);
  return set;
}

const place = { file: "test.jsonl", index: 7, seed: "canopy" };

for (const set of DATA_SETS) {
  test(`The sample of ${set.title} has at least twenty questions in the published shape, and says what it is`, async () => {
    const { questions, label, sample } = await loadSample(set, "canopy");
    assert.ok(questions.length >= 20, `${questions.length} questions`);
    assert.ok(sample);
    assert.match(label, /sample \(\d+ questions by Canopy, not the data set\)/);
    for (const { id, question, answer, grader, options = [] } of questions) {
      assert.match(id, /^sample\//);
      assert.ok(question.length > 10);
      assert.equal(answer === "", grader === "ifbench" || grader === "code", id);
      if (grader !== "choice") continue;
      assert.ok(options.length >= 3 && new Set(options).size === options.length, id);
      assert.ok(answer.charCodeAt(0) - 65 < options.length, id);
    }
  });
}

test("Questions of MMLU are read from Parquet, whose whole numbers are 64 bits wide", async () => {
  const bytes = parquetWriteBuffer({
    columnData: [
      { name: "question", data: ["Is it?", "Was it?"], type: "STRING" },
      { name: "subject", data: ["logic", "history"], type: "STRING" },
      { name: "choices", data: [["a", "b", "c", "d"], ["e", "f", "g", "h"]], type: "JSON" },
      { name: "answer", data: [2n, 0n], type: "INT64" },
    ],
  });
  const rows = await fileRows("all/test.parquet", new Uint8Array(bytes));
  const [first, second] = rows.map((row, index) => setOf("mmlu").read(row, { ...place, index }));
  assert.deepEqual(first, {
    id: "logic/0",
    question: "Is it?",
    options: ["a", "b", "c", "d"],
    answer: "C",
    grader: "choice",
    subject: "logic",
  });
  assert.equal(second?.answer, "A");
});

test("MMLU's first files are read too: a subject each, a letter or an index, with or without a line of names", async () => {
  const { columns, read } = setOf("mmlu");
  const rowsOf = (text: string) => fileRows("x.csv", new TextEncoder().encode(text), columns);
  const [letter] = await rowsOf('"A ""b"", c?",1,2,3,4,D\r\n');
  const [index] = await rowsOf("question,choice0,choice1,choice2,choice3,answer\nWhy?,1,2,3,4,1\n");
  const at = { ...place, file: "test/college_physics_test.csv" };
  assert.equal(read(letter!, at).question, 'A "b", c?');
  assert.deepEqual([read(letter!, at).answer, read(index!, at).answer], ["D", "B"]);
  assert.equal(read(index!, at).subject, "college_physics");
});

test("The options of a GPQA question have the same order in every run with a seed, and the letter follows the right one", () => {
  const row = {
    "Record ID": "rec1",
    "Question": "Which?",
    "Correct Answer": "right ",
    "Incorrect Answer 1": "one",
    "Incorrect Answer 2": "two [title]x",
    "Incorrect Answer 3": "three",
    "High-level domain": "Physics",
  };
  const { read } = setOf("gpqa-diamond");
  const seeds = Array.from({ length: 20 }, (_, seed) => read(row, { ...place, seed: String(seed) }));
  assert.ok(seeds.every(({ options = [], answer }) => options[answer.charCodeAt(0) - 65] === "right"));
  assert.equal(new Set(seeds.map(({ answer }) => answer)).size, 4);
  assert.deepEqual(read(row, { ...place, index: 3 }), read(row, place));
  assert.ok(seeds[0]?.options?.includes("two. x"));
});

test("Rows of another shape are refused, and the reason is named", () => {
  const wrong: readonly (readonly [string, Readonly<Record<string, unknown>>, RegExp])[] = [
    ["gsm8k", { question: "?", answer: "it is 5" }, /does not end with "#### "/],
    ["aime25", { problem: "?", answer: "1000" }, /no whole number from 0 to 999/],
    ["math500", { problem: "?", answer: "5" }, /no text in unique_id/],
    ["mmlu", { question: "?", choices: ["a", "b", "c"], answer: 1 }, /it has 3 choices/],
    ["mmlu", { question: "?", choices: ["a", "b", "c", "d"], answer: 4 }, /no whole number from 0 to 3/],
    ["mmlu-prox-lite", { option_0: "a", option_2: "b", answer_index: 0, answer: "A" }, /option is missing/],
    ["mmlu-prox-lite", { option_0: "a", option_1: "b", answer_index: 1, answer: "A" }, /that of B/],
    ["ifbench", { key: "1", prompt: "?", instruction_id_list: ["a:b"], kwargs: [] }, /differ in length/],
  ];
  for (const [name, row, message] of wrong) assert.throws(() => setOf(name).read(row, place), message);
});

test("A BBH answer is a letter, a number, or a text, and its task is the file's name on the Hub and on GitHub", () => {
  const { read } = setOf("bbh");
  const letter = read(
    { input: "Which?\nOptions:\n(A) one\n(B) two", target: "(B)" },
    { ...place, file: "snarks/test-00000-of-00001.parquet" },
  );
  assert.deepEqual([letter.answer, letter.grader, letter.options], ["B", "choice", ["one", "two"]]);
  assert.equal(letter.subject, "snarks");
  const number = read({ input: "1 + 1 =", target: "2" }, { ...place, file: "multistep_arithmetic_two.json" });
  assert.deepEqual([number.grader, number.id], ["number", "multistep_arithmetic_two/7"]);
  assert.equal(read({ input: "?", target: "Yes" }, { ...place, file: "bbh/navigate.json" }).grader, "exact");
});
