import assert from "node:assert/strict";
import { appendFileSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import type { LaboratoryRow } from "../../../bench/laboratory/ask.ts";
import { RowStore } from "../../../bench/laboratory/row_store.ts";
import { KeptLines, readKeptLines } from "../../../bench/records/kept_lines.ts";
import { fc } from "../../properties.ts";

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
    const opened = () => {
      const before: { row: number }[] = [];
      return { before, kept: new KeptLines<{ row: number }>(path, "a", (line) => before.push(line)) };
    };
    opened().kept.append({ row: 1 });
    appendFileSync(path, '{"row": 2, "answ');
    const next = opened();
    assert.deepEqual(next.before, [{ row: 1 }]);
    next.kept.append({ row: 3 });
    assert.deepEqual(opened().before, [{ row: 1 }, { row: 3 }]);
    assert.throws(
      () => new KeptLines(path, "b", () => {}),
      /it was begun with a, and now it is b; name another file/,
    );
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

test("lines are read in pieces: long ones, characters at a piece's end, and files without a last line's end", () => {
  fc.assert(
    fc.property(
      fc.array(
        fc.record({
          text: fc.string({ unit: "grapheme", maxLength: 40 }),
          times: fc.integer({ min: 1, max: 60_000 }),
        }),
        {
          maxLength: 6,
        },
      ),
      fc.boolean(),
      (rows, endsWhole) => {
        inFile((path) => {
          const lines = rows.map(({ text, times }) => ({ row: text.repeat(times).slice(0, 3_000_000) }));
          const all = [{ settings: "a" }, ...lines].map((line) => JSON.stringify(line)).join("\n");
          writeFileSync(path, all + (endsWhole ? "\n" : ""));
          assert.deepEqual([...readKeptLines(path)], [{ settings: "a" }, ...lines]);
        });
      },
    ),
    { numRuns: 30 },
  );
});
