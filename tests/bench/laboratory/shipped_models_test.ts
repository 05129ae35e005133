import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { laboratoryQuestions } from "../../../bench/datasets/laboratory/laboratory_questions.ts";

const folder = fileURLToPath(new URL("../../../models/laboratory", import.meta.url));
const NAMES = ["s", "m", "l", "embedding"];

test("the card of the laboratory's models names the weights that lie there", () => {
  const card = readFileSync(join(folder, "README.md"), "utf8");
  for (const name of NAMES) {
    const hash = createHash("sha256").update(readFileSync(join(folder, name, "model.safetensors"))).digest(
      "hex",
    );
    assert.match(card, new RegExp(`laboratory-${name} .*${hash}`));
  }
});

test("all of the laboratory's models share a tokenizer with one token a digit", () => {
  for (const name of NAMES) {
    const { model } = JSON.parse(readFileSync(join(folder, name, "tokenizer.json"), "utf8"));
    assert.deepEqual(Object.keys(model.vocab).filter((token) => /\d/.test(token)).sort(), [..."0123456789"]);
    assert.equal(JSON.stringify(model.vocab), JSON.stringify(vocabularyOf("s")));
  }
});

test("the laboratory's models take less than 30 MB, ONNX graphs included", () => {
  const bytes = readdirSync(folder, { recursive: true, encoding: "utf8" })
    .map((path) => statSync(join(folder, path))).filter((entry) => entry.isFile())
    .reduce((sum, { size }) => sum + size, 0);
  assert.ok(bytes < 30_000_000, String(bytes));
});

test("the figures of the card were measured on questions that the generator writes", () => {
  const { questions, greedy } = JSON.parse(readFileSync(join(folder, "training/evaluation.json"), "utf8"));
  const written = laboratoryQuestions({ split: "test", count: questions, seed: "1" });
  for (const kind of ["story", "choice"] as const) {
    assert.equal(greedy.l[kind].of, written.filter((question) => question.kind === kind).length);
  }
});

function vocabularyOf(name: string): unknown {
  return JSON.parse(readFileSync(join(folder, name, "tokenizer.json"), "utf8")).model.vocab;
}
