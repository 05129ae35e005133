import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { benchCommand } from "../../../cli/bench/bench.ts";
import { runCommand } from "../../../cli/kit/dispatch.ts";
import { fakeIo } from "../fake_io.ts";

async function grade(answers: string, ...args: string[]) {
  const cwd = mkdtempSync(join(tmpdir(), "canopy-grade-"));
  try {
    writeFileSync(join(cwd, "answers.jsonl"), answers);
    const io = fakeIo({ cwd, columns: 120 });
    const code = await runCommand([benchCommand], ["bench", "grade", ...args], io);
    const verdicts = args.includes("--out") && code === 0 ? readFileSync(join(cwd, "out.jsonl"), "utf8") : "";
    return { code, out: io.out.text, err: io.err.text, verdicts };
  } finally {
    rmSync(cwd, { recursive: true });
  }
}

test("bench grade counts right, wrong and ungradable answers, and writes each verdict", async () => {
  const answers = [
    { id: "sample/0", text: "#### 25" },
    { id: "sample/3", text: "The answer is 42." },
    { id: "sample/13", text: "I would have to think." },
  ].map((line) => JSON.stringify(line)).join("\n");
  const { code, out, err, verdicts } = await grade(answers, "gsm8k", "answers.jsonl", "--out", "out.jsonl");
  assert.equal(code, 0, err);
  assert.match(out, /^GSM8K sample \(21 questions by Canopy, not the data set\)/);
  assert.match(out, /^ +3 +1 +1 +1 +33\.3 % +6\.1 % – 79\.2 %$/m);
  assert.deepEqual(verdicts.trim().split("\n").map((line) => JSON.parse(line)), [
    { id: "sample/0", outcome: "right", stated: "25", answer: "25" },
    { id: "sample/3", outcome: "wrong", stated: "42", answer: "24" },
    { id: "sample/13", outcome: "ungradable", stated: null, answer: "96" },
  ]);
});

test("bench grade says which line it cannot use, and refuses sets whose grader is not there", async () => {
  const refused: readonly (readonly [string, string, number, RegExp])[] = [
    [
      '{"id":"sample/0"}',
      "gsm8k",
      1,
      /Line 1 of answers\.jsonl is no JSON object with the texts "id" and "text"/,
    ],
    [
      '{"id":"x","text":""}',
      "gsm8k",
      1,
      /Line 1 of answers\.jsonl answers "x", which is no question of GSM8K sample/,
    ],
    ["", "gsm8k", 1, /answers\.jsonl has no answers/],
  ];
  for (const [answers, set, code, message] of refused) {
    const result = await grade(answers, set, "answers.jsonl");
    assert.equal(result.code, code);
    assert.match(result.err, message);
  }
  assert.match((await grade("", "gsm8k")).err, /Needs a data set and a file of answers/);
});

test("bench grade reports IFBench's four accuracies, and how many answers could not be checked", async () => {
  const answers = [
    { id: "sample/9", text: "Sure:\n**No**" },
    { id: "sample/6", text: "a-leaf-in-hot-water" },
    { id: "sample/21", text: "the old fe" },
    // The sixth mark ends a sentence only where Punkt's table says so.
    { id: "sample/18", text: "He is J. Moon. Tides rise." },
  ].map((line) => JSON.stringify(line)).join("\n");
  const { code, out, err, verdicts } = await grade(answers, "ifbench", "answers.jsonl", "--out", "out.jsonl");
  assert.equal(code, 0, err);
  assert.match(out, /^ +4 +2 +1 +1 +66\.7 % /m);
  assert.match(out, /^strict +3 +33\.3 % +3 +33\.3 % +1$/m);
  assert.match(out, /^loose +3 +66\.7 % +3 +66\.7 % +1$/m);
  assert.match(
    out,
    /^1 ungradable, in no share: sentence:keyword: where its sentences end depends on words/m,
  );
  const lines = verdicts.trim().split("\n").map((line) => JSON.parse(line));
  assert.deepEqual(lines[0].parts, { strict: [false], loose: [true] });
});

test("bench grade runs no program where there is no sandbox, and says why", async () => {
  const answer = JSON.stringify({
    id: "sample/Program/0",
    text: "def clamp_all(values, low, high): return []",
  });
  const { code, out, err } = await grade(answer, "humanevalplus", "answers.jsonl");
  assert.equal(code, 0, err);
  assert.match(out, /^ +1 +0 +0 +1 +– /m);
  assert.match(
    out,
    /^1 ungradable, in no share: programs run only in bubblewrap, and there is no bwrap here/m,
  );
});

test("bench grade takes the records of bench eval as they are: a row for each mode, over questions, and says what changed", async () => {
  const right = { outcome: "right", stated: "25", unchecked: null, parts: null };
  const record = (mode: string, question: string, text: string, more: object = {}) => ({
    record: {
      ...right,
      set: "gsm8k",
      question,
      mode,
      repeat: 0,
      readings: { canopy: right },
      text,
      latencyMs: 1,
      completionTokens: 1,
      ...more,
    },
  });
  const file = [
    { settings: '{"seed":"canopy"}' },
    record("tree", "sample/0", "#### 25"),
    record("tree", "sample/0", "#### 25", { repeat: 1 }),
    record("tree", "sample/3", "The answer is 42."),
    record("tree", "sample/3", "The answer is 42.", { repeat: 1 }),
    record("large", "sample/0", "Hm."),
    record("large", "sample/0", "#### 25"),
    record("large", "sample/3", "#### 24", { warmUp: true }),
    record("large", "1", "x", { set: "mmlu" }),
  ].map((line) => JSON.stringify(line)).join("\n");
  const { code, out, err, verdicts } = await grade(file, "gsm8k", "answers.jsonl", "--out", "out.jsonl");
  assert.equal(code, 0, err);
  // Two questions, not four answers: Wilson's interval of one of two.
  assert.match(out, /^tree +4 +2 +2 +0 +50\.0 % +9\.5 % – 90\.5 %$/m);
  assert.match(
    out,
    /^large +1 +1 +0 +0 +100\.0 % /m,
    "the last of two answers to the same question and repeat",
  );
  assert.match(out, /^not graded, since they are answers to other sets: 1$/m);
  assert.match(out, /^not graded, since they are of the warm-up: 1$/m);
  assert.match(out, /^other verdicts than in the file of records: 2$/m);
  const lines = verdicts.trim().split("\n").map((line) => JSON.parse(line));
  assert.deepEqual(lines[1], {
    id: "sample/0",
    mode: "tree",
    repeat: 1,
    outcome: "right",
    stated: "25",
    answer: "25",
  });
  const other = await grade(file, "bbh", "answers.jsonl");
  assert.match(other.err, /answers\.jsonl has no answers to bbh: it has some to gsm8k, mmlu/);
});
