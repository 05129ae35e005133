import assert from "node:assert/strict";
import { test } from "node:test";
import picocolors from "picocolors";
import { drawnRun } from "../../../cli/demo/drawn_run.ts";
import { drawRun } from "../../../cli/kit/run_view/tree_view.ts";
import { widthOf } from "../../../cli/kit/terminal.ts";
import { seconds } from "../../../cli/kit/units.ts";
import { DENSE, recordOf, TREE } from "../run_records.ts";

const plain = picocolors.createColors(false);
const coloured = picocolors.createColors(true);

const LIVE = recordOf(TREE, {
  "l1.c1.a1": {
    state: "done",
    tokens: 120,
    startedAtMs: 5,
    firstTokenAtMs: 25,
    endedAtMs: 625,
    text: "So it is 18.",
  },
  "l1.c1.a2": {
    state: "running",
    tokens: 41,
    startedAtMs: 5,
    firstTokenAtMs: 45,
    text: "First we collect what is given,\nthen we calculate: 16 - 7 = 9 eggs are left for the market",
  },
  "l1.c2.a1": { state: "queued", startedAtMs: 5 },
  "l1.c2.a2": {
    state: "failed",
    startedAtMs: 5,
    endedAtMs: 305,
    error: "Worker http://127.0.0.1:1 cannot be reached",
  },
});

const TREE_AT_80 = [
  "moa 0.84 s · 1/7 done · 1 prefill · 1 decode · 3 wait · 161 tokens",
  "l3.c1.a1      32b  ○ waits 0/2",
  "├ l2.c1.a1    4b   ○ waits 1/2",
  "│ ├ l1.c1.a1  4b   ● done      120 tok   198/s  0.62 s  So it is 18.",
  "│ └ l1.c1.a2  32b  ◑ decodes    41 tok    50/s  0.84 s  …are left for the market",
  "└ l2.c1.a2    32b  ○ waits 1/2",
  "  ├ l1.c2.a1  4b   ◔ prefills                   0.84 s",
  "  └ l1.c2.a2  32b  ✗ failed     Worker http://127.0.0.1:1 cannot be reached",
];

const DENSE_AT_80 = [
  "moa 0.01 s · 1/5 done · 0 prefill · 0 decode · 4 wait · 3 tokens",
  "l1.c1.a1  4b   ● done        3 tok   250/s  0.01 s  x",
  "l1.c1.a2  32b  ○ waits",
  "l2.c1.a1  4b   ○ waits 1/2",
  "l2.c1.a2  32b  ○ waits 1/2",
  "l3.c1.a1  32b  ○ waits 0/2",
];

test("a tree is drawn with the root on top, one line per agent, at 80 columns", () => {
  const lines = drawRun(drawnRun(TREE, LIVE), { columns: 80, colors: plain, nowMs: 845, timeScale: 1 });
  assert.deepEqual(lines, TREE_AT_80);
  assert.ok(lines.every((line) => widthOf(line) <= 80));
});

test("a drawing fits the width of any terminal, and has no colour codes unless they are wanted", () => {
  for (const columns of [40, 60, 80, 120, 200]) {
    for (const graph of [TREE, DENSE]) {
      const record = graph === TREE ? LIVE : recordOf(DENSE, {});
      const lines = drawRun(drawnRun(graph, record), { columns, colors: plain, nowMs: 845, timeScale: 1 });
      // Numbers are not cut: below 72 columns the lines have a least width.
      assert.ok(lines.every((line) => widthOf(line) <= Math.max(columns, 56)), `${columns} columns`);
      assert.ok(lines.every((line) => !line.includes("\x1b")));
    }
  }
  const lines = drawRun(drawnRun(TREE, LIVE), { columns: 80, colors: coloured, nowMs: 845, timeScale: 1 });
  assert.ok(lines.every((line) => line.includes("\x1b[") && widthOf(line) <= 80));
});

test("a graph whose agents are read more than once is drawn as a list", () => {
  const record = recordOf(DENSE, {
    "l1.c1.a1": { state: "done", tokens: 3, startedAtMs: 0, firstTokenAtMs: 1, endedAtMs: 9, text: "x" },
  });
  assert.deepEqual(
    drawRun(drawnRun(DENSE, record), { columns: 80, colors: plain, nowMs: 10, timeScale: 1 }),
    DENSE_AT_80,
  );
});

test("times are multiplied by the scale, and speeds divided by it", () => {
  const [, root] = drawRun(
    drawnRun(
      TREE,
      recordOf(TREE, {
        "l3.c1.a1": { state: "done", tokens: 101, startedAtMs: 0, firstTokenAtMs: 0, endedAtMs: 500 },
      }, 500),
    ),
    { columns: 80, colors: plain, nowMs: 500, timeScale: 4 },
  );
  assert.match(root ?? "", / 101 tok +50\/s +2\.00 s/);
  assert.equal(seconds(1234), "1.23 s");
  assert.equal(seconds(1234, 10), "12.3 s");
});

test("control characters of an answer do not reach the terminal", () => {
  const record = recordOf(TREE, {
    "l1.c1.a1": { state: "running", text: "a\x1b[2Jb\r\x07", firstTokenAtMs: 1 },
  });
  const text = drawRun(drawnRun(TREE, record), { columns: 80, colors: plain, nowMs: 10, timeScale: 1 }).join(
    "\n",
  );
  assert.match(text, / ab$/m);
  assert.ok(["\r", "\x07", "\x1b"].every((control) => !text.includes(control)));
});
