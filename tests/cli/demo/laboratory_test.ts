import assert from "node:assert/strict";
import { test } from "node:test";
import { demoCommand } from "../../../cli/demo/demo.ts";
import { exitLines } from "../../../cli/demo/exit_lines.ts";
import { laboratoryDemo } from "../../../cli/demo/laboratory.ts";
import { runCommand } from "../../../cli/kit/dispatch.ts";
import type { RunRecord } from "../../../router/moa/record/run_record.ts";
import { recordOf, TREE } from "../run_records.ts";
import { withSystem } from "../served.ts";

const MODES = [
  "best single model",
  "#1 all-to-all",
  "#2 tree",
  "#3 tree, incr",
  "#4 tree, incremental prefill, early",
];

test("demo --real asks the models that come with Canopy in every mode, grades them and says what is real", async () => {
  await withSystem(async (io) => {
    await laboratoryDemo({ questions: [], count: 2, maxTokens: 4, host: "127.0.0.1", port: 0 }, io);
    const { text } = io.out;
    assert.match(text, /Nothing is simulated/);
    assert.match(text, /^Question 2 of 2: /m);
    assert.equal(text.match(/^Right is \w+\.$/gm)?.length, 2);
    for (const mode of MODES) {
      const graded = new RegExp(`^  [✓✗] ${mode}.* [\\d.]+ s +\\d+ tokens  .+$`, "gm");
      assert.equal(text.match(graded)?.length, 2, text);
      assert.match(text, new RegExp(`^${mode}.* [012] of 2 +[\\d.]+ s`, "m"));
    }
    assert.match(text, /^l3\.c1\.a1 +l +● done +\d+ tok/m, "the last tree stays on the screen");
  });
});

test("demo --real asks a question of one's own without a download, and does not grade it", async () => {
  await withSystem(async (io) => {
    const args = ["demo", "--real", "--max-tokens", "3", "--question", "Why is the sky blue?"];
    assert.equal(await runCommand([demoCommand], args, io), 0, io.err.text);
    assert.match(io.out.text, /^Question 1 of 1: Why is the sky blue\?$/m);
    assert.match(io.out.text, /cannot be graded/);
    assert.doesNotMatch(io.out.text, /[✓✗]/);
  }, { env: { HF_HUB_OFFLINE: "1" } });
});

test("an exit is told with its cluster, whom it left out, and why", () => {
  const of = { atMs: 1, cluster: "l1.c1", type: "exit_decided" };
  const answers = [{ text: "57." }, { text: "57" }];
  const record: RunRecord = {
    ...recordOf(TREE, { "l1.c1.a2": { state: "cancelled", endedAtMs: 1 } }),
    events: [
      { ...of, data: { exit: false, metric: "agreement", completions: 0 } },
      { ...of, data: { exit: true, metric: "agreement", completions: 1, answers } },
      { ...of, data: { exit: true, metric: "agreement", completions: 2, answers } },
    ],
  };
  assert.deepEqual(exitLines({ graph: TREE, record }), [
    "l1.c1 went on after 1 of 2 answers, without l1.c1.a2: they say 57",
  ]);
  const ended = (data: object) =>
    exitLines({
      graph: TREE,
      record: { ...record, events: [{ atMs: 1, type: "consensus_decided", data: { exit: true, ...data } }] },
    });
  assert.deepEqual(ended({}), ["the run ended: enough agents gave the same answer"]);
  assert.match(ended({ undecided: true })[0] ?? "", /^the run ended undecided, with the answer that leads/);
});
