import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { benchCommand } from "../../../cli/bench/bench.ts";
import { runCommand } from "../../../cli/kit/dispatch.ts";
import { fakeIo } from "../fake_io.ts";

async function questions(cwd: string, ...args: string[]) {
  const io = fakeIo({ cwd, columns: 200 });
  const code = await runCommand([benchCommand], ["bench", "questions", ...args], io);
  return { code, out: io.out.text, err: io.err.text };
}

test("bench questions lists the sets, shows samples as such, and writes questions that it reads again", async () => {
  const cwd = mkdtempSync(join(tmpdir(), "canopy-questions-"));
  try {
    assert.match((await questions(cwd)).out, /^gsm8k +GSM8K +1,319 +openai\/gsm8k@740312ad +MIT/m);
    const two = await questions(cwd, "gsm8k", "mmlu", "--samples", "2", "--out", "part.jsonl");
    assert.equal(two.code, 0, two.err);
    assert.match(two.out, /^GSM8K sample \(21 questions by Canopy, not the data set\)\n2 of 21 questions/m);
    assert.equal(readFileSync(join(cwd, "part.jsonl"), "utf8").trim().split("\n").length, 4);
    const again = await questions(cwd, "./part.jsonl");
    assert.match(again.out, /^4 of 4 questions; .*part\.jsonl, sha256 [0-9a-f]{12}$/m);
    assert.match(again.out, /^mmlu\/sample\/high_school/m);
    const one = await questions(cwd, "bbh", "--ids", "sample/navigate/11");
    assert.match(one.out, /^1 of 22 questions/m);
  } finally {
    rmSync(cwd, { recursive: true });
  }
});

test("bench questions says what it cannot do, and what to do instead", async () => {
  const refused: readonly (readonly [readonly string[], number, RegExp])[] = [
    [
      ["gsm9k"],
      2,
      /There is no data set "gsm9k": there are gsm8k, math500, .* and files of your own such as/,
    ],
    [["gsm8k", "--data", "none"], 1, /Cannot read questions from .*none: there is no such file or folder/],
    [["gsm8k", "mmlu", "--data", "x"], 2, /--data takes a file or a folder for one data set only/],
    [["gsm8k", "--ids", "x"], 1, /No question has the id "x": ids are such as "sample\/0"/],
    [
      ["ifbench", "--out", "x.jsonl"],
      1,
      /Cannot write 24 questions to x\.jsonl: programs check their answers/,
    ],
    [["gsm8k", "--data", "hub"], 1, /Cannot fetch openai\/gsm8k from https:\/\/huggingface\.co/],
  ];
  for (const [args, code, message] of refused) {
    const result = await questions("/", ...args);
    assert.equal(result.code, code, args.join(" "));
    assert.match(result.err, message);
  }
});
