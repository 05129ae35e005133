/**
 * Writes the laboratory's questions as JSON lines into a folder, for the trainer, and the files' hashes as
 * `sha256.json`: `deno run -A bench/laboratory/train/write_data.ts FOLDER`.
 */
import { createHash } from "node:crypto";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { laboratoryQuestions } from "../../datasets/laboratory/laboratory_questions.ts";
import type { LaboratorySplit } from "../../datasets/laboratory/question.ts";

/** Number of questions in a split's file. */
const COUNTS: Readonly<Record<LaboratorySplit, number>> = { train: 240_000, tune: 2_000, test: 4_000 };
const SEED = "1";

const folder = process.argv[2] ?? "laboratory-data";
mkdirSync(folder, { recursive: true });
const hashes: Record<string, string> = {};
for (const split of ["train", "tune", "test"] as const) {
  const questions = laboratoryQuestions({ split, count: COUNTS[split], seed: SEED });
  const text = questions.map((question) => `${JSON.stringify(question)}\n`).join("");
  writeFileSync(join(folder, `${split}.jsonl`), text);
  hashes[`${split}.jsonl`] = createHash("sha256").update(text).digest("hex");
}
writeFileSync(join(folder, "sha256.json"), `${JSON.stringify(hashes, null, 2)}\n`);
