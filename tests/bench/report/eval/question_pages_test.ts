import assert from "node:assert/strict";
import { test } from "node:test";
import type { EvalRecord, EvalSet } from "../../../../bench/evaluation/eval_record.ts";
import { questionPages } from "../../../../bench/report/eval/question_pages.ts";

const HOSTILE = `</pre><script>alert("1")</script><img src=x onerror='alert(1)'>&amp;`;
const sets: EvalSet[] = [{
  name: '../sums"<x>',
  questions: [
    { id: `q1 ${HOSTILE}`, question: HOSTILE, answer: HOSTILE, options: [HOSTILE], grader: "exact" },
    { id: "unasked", question: "?", answer: "1", grader: "exact" },
  ],
}];

const agent = (id: string, more: object) => ({
  id,
  model: HOSTILE,
  state: "done",
  worker: null,
  reads: [],
  placedMs: 0,
  firstTokenMs: 10,
  endedMs: 50,
  completionTokens: 3,
  text: `${id} ${HOSTILE}`,
  ...more,
});

function record(mode: string, repeat: number, more: Partial<EvalRecord> = {}): EvalRecord {
  return {
    set: sets[0]!.name,
    question: sets[0]!.questions[0]!.id,
    mode,
    repeat,
    outcome: "right",
    stated: HOSTILE,
    unchecked: null,
    parts: null,
    readings: {},
    text: `${mode} ${HOSTILE}`,
    finish: "stop",
    ttftMs: 1,
    latencyMs: 2,
    promptTokens: 3,
    completionTokens: 4,
    drawn: 1,
    ...more,
  };
}

const run = {
  id: "run-1",
  agents: [
    agent("a1", {}),
    agent("a2", { state: "cancelled", text: "" }),
    agent("root", { reads: ["a1", HOSTILE], endedMs: 90 }),
  ],
  decisions: [{ atMs: 12, type: "exit_decided", of: "c1", data: { why: HOSTILE } }],
  warms: [],
};

const pages = questionPages({
  records: [record("tree", 1), record("large", 0, { outcome: "wrong" }), record("tree", 0, { run })],
  sets,
  modes: ["tree", "large"],
  labels: new Map([[sets[0]!.name, HOSTILE]]),
  origin: HOSTILE,
});

test("Only questions with answers have a page, its path leaves the folder by nothing, and the index links to it", () => {
  const paths = pages.map(({ path }) => path);
  assert.deepEqual(paths, ["index.html", "_sums_x_/1.html"]);
  assert.match(pages[0]!.text, /<a href="_sums_x_\/1\.html">q1 /);
  assert.match(pages[0]!.text, /<td>✓✓<\/td><td>✗<\/td>/);
});

test("Hostile texts of questions, models and agents are texts, and pages allow no scripts at all", () => {
  for (const { text } of pages) {
    assert.doesNotMatch(text, /<script|<img|<\/pre><\/?s/);
    assert.match(
      text,
      /<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">/,
    );
  }
  assert.match(pages[1]!.text, /a1 &lt;\/pre&gt;&lt;script&gt;alert\(&quot;1&quot;\)/);
});

test("A page has each mode's answers in order, the tree with what was waited for, the texts and the decisions, folded", () => {
  const [, { text }] = pages as [unknown, { readonly text: string }];
  const heads = [...text.matchAll(/<h2>([^<]*)<\/h2>/g)].map(([, head]) => head);
  assert.deepEqual(heads, ["Question", "✓ tree", "✓ tree, repeat 2", "✗ large"]);
  assert.match(text, /<summary>Tree: 3 agents; in bold what the answer waited for<\/summary>/);
  assert.match(text, /<td><b>a1<\/b><\/td>/);
  assert.match(text, /<td>a2<\/td>.*<td>cancelled<\/td>/);
  assert.match(text, /<i class="bar" style="margin-left:0\.0%;width:100\.0%"><\/i>/);
  assert.match(text, /<summary>Texts: of 2 agents<\/summary>/);
  assert.match(
    text,
    /<summary>Decisions: 1<\/summary><ul><li>12\.0 ms <b>exit_decided<\/b> c1 <code>\{&quot;why&quot;/,
  );
  assert.doesNotMatch(text, /<details open/);
});
