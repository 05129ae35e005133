import assert from "node:assert/strict";
import { appendFileSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import type { LaboratoryRow } from "../../../bench/laboratory/ask.ts";
import { RowStore } from "../../../bench/laboratory/row_store.ts";
import { KeptLines } from "../../../bench/records/kept_lines.ts";

const inFile = (use: (path: string) => void) => {
  const folder = mkdtempSync(join(tmpdir(), "canopy-lines-"));
  try {
    use(join(folder, "lines.jsonl"));
  } finally {
    rmSync(folder, { recursive: true });
  }
};

test("a line that was cut off by a kill is left out, and does not swallow the one behind it", () => {
  inFile((path) => {
    new KeptLines<{ row: number }>(path, "a").append({ row: 1 });
    appendFileSync(path, '{"row": 2, "answ');
    const next = new KeptLines<{ row: number }>(path, "a");
    assert.deepEqual(next.before, [{ row: 1 }]);
    next.append({ row: 3 });
    assert.deepEqual(new KeptLines<{ row: number }>(path, "a").before, [{ row: 1 }, { row: 3 }]);
    assert.throws(() => new KeptLines(path, "b"), /it was begun with a, and now it is b; name another file/);
  });
});

test("the laboratory's rows are whole after a kill in the middle of one", () => {
  inFile((path) => {
    const row = (question: string): LaboratoryRow => ({
      condition: "l",
      question,
      right: true,
      stated: "1",
      latencyMs: 1,
      promptTokens: 1,
      completionTokens: 1,
      wastedTokens: 0,
      savedTokens: 0,
      decisions: 0,
      exits: 0,
      leaves: 1,
      differentAnswers: 1,
      rightAmongLeaves: true,
    });
    new RowStore(path, "a").addRow(row("one"));
    appendFileSync(path, '{"row": {"condition": "l", "quest');
    new RowStore(path, "a").addRow(row("two"));
    const store = new RowStore(path, "a");
    assert.deepEqual(["one", "two"].map((question) => store.row("l", question)?.question), ["one", "two"]);
  });
});
