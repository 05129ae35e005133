import assert from "node:assert/strict";
import { appendFileSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { VirtualClock } from "../../../base/clock.ts";
import type { EvalQuestion } from "../../../bench/datasets/data_set.ts";
import { evalFigures, evalPairs } from "../../../bench/evaluation/eval_figures.ts";
import type { AskMode } from "../../../bench/evaluation/eval_record.ts";
import { evaluate, type EvaluateOptions } from "../../../bench/evaluation/evaluate.ts";
import { RecordFile } from "../../../bench/evaluation/record_file.ts";
import { askedInChat, CHAT_PROTOCOL } from "../../../bench/protocols/chat.ts";

const questions = Array.from({ length: 6 }, (_, index): EvalQuestion => ({
  id: String(index),
  question: `What is ${index} + 1?`,
  answer: String(index + 1),
  grader: "number",
}));

/** `good` is always right, `bad` only for even numbers, `mute` says nothing. */
function asker(asked: string[], failAt = Infinity): AskMode {
  return (mode, { messages }, { seed }) => {
    const prompt = messages[0]!.content;
    asked.push(`${mode} ${prompt.split("\n")[0]} ${seed}`);
    if (asked.length >= failAt) return Promise.reject(new Error("the server is gone"));
    const number = Number(/\d+/.exec(prompt)?.[0]);
    const text = mode === "mute" ? "Hm." : `\\boxed{${mode === "bad" && number % 2 === 1 ? 99 : number + 1}}`;
    return Promise.resolve({ text, ttftMs: 1, latencyMs: 2, promptTokens: 3, completionTokens: 4 });
  };
}

const MODES = ["good", "bad", "mute"];
const options = (more: Partial<EvaluateOptions> & Pick<EvaluateOptions, "ask">): EvaluateOptions => ({
  sets: [{ name: "sums", questions }],
  modes: MODES.map((name) => ({ kind: "once", name, model: name })),
  sampling: { temperature: 0.7, width: 2 },
  clock: new VirtualClock(),
  protocol: CHAT_PROTOCOL,
  repeats: 2,
  concurrency: 1,
  seed: "s",
  file: new RecordFile(undefined, "{}"),
  signal: new AbortController().signal,
  onAnswer: () => {},
  ...more,
});

test("All modes answer a question, with the same seed, before the next one is asked, and each is first in turn", async () => {
  const asked: string[] = [];
  const { records } = await evaluate(options({ ask: asker(asked) }));
  assert.equal(records.length, 6 * 2 * 3);
  for (let at = 0; at < asked.length; at += 3) {
    const three = asked.slice(at, at + 3).map((line) => line.split(" "));
    assert.deepEqual(three.map(([mode]) => mode).sort(), [...MODES].sort());
    assert.equal(new Set(three.map(([, ...rest]) => rest.join(" "))).size, 1);
  }
  assert.equal(new Set(asked.filter((_, at) => at % 3 === 0).map((line) => line.split(" ")[0])).size, 3);
  assert.notEqual(
    asked[0]?.split(" ").at(-1),
    asked[3]?.split(" ").at(-1),
    "each repeat has a seed of its own",
  );
});

test("Figures count right, wrong and ungradable answers, and pairs are over the same questions", async () => {
  const { records } = await evaluate(options({ ask: asker([]), repeats: 1 }));
  const [good, bad, mute] = MODES.map((mode) => evalFigures(records).find((one) => one.mode === mode)!);
  assert.deepEqual([good!.right, good!.accuracy], [6, 1]);
  assert.deepEqual([bad!.right, bad!.wrong, bad!.ungradable], [3, 3, 0]);
  assert.deepEqual([mute!.right, mute!.wrong, mute!.ungradable, mute!.accuracy], [0, 0, 6, 0]);
  const [first] = evalPairs(records, MODES);
  assert.deepEqual([first!.mode, first!.against, first!.gained, first!.lost, first!.difference], [
    "bad",
    "good",
    0,
    3,
    -0.5,
  ]);
  assert.ok(Math.abs(first!.p - 0.25) < 1e-9);
});

test("An evaluation that ends anywhere goes on without repeating or losing an answer, and gives the same records", async () => {
  const whole = await evaluate(options({ ask: asker([]) }));
  for (const failAt of [1, 2, 17, 36]) {
    const folder = mkdtempSync(join(tmpdir(), "canopy-records-"));
    try {
      const path = join(folder, "records.jsonl");
      const before: string[] = [];
      const cut = await evaluate(options({ ask: asker(before, failAt), file: new RecordFile(path, "{}") }));
      assert.equal(cut.failures.get("the server is gone"), 36 - failAt + 1);
      // The process ended while it wrote a line.
      appendFileSync(path, '{"record":{"set":"sums","quest');
      const after: string[] = [];
      const resumed = await evaluate(options({ ask: asker(after), file: new RecordFile(path, "{}") }));
      assert.deepEqual(resumed.records, whole.records);
      assert.equal(after.length, 36 - failAt + 1);
      const again: string[] = [];
      const third = await evaluate(options({ ask: asker(again), file: new RecordFile(path, "{}") }));
      assert.deepEqual([third.records, again], [whole.records, []]);
      const kept = readFileSync(path, "utf8").split("\n").filter((line) => line.endsWith("}}"));
      assert.equal(kept.length, 36);
      assert.throws(
        () => new RecordFile(path, '{"seed":"t"}'),
        /it was begun with seed none, and now it is seed "t"/,
      );
    } finally {
      rmSync(folder, { recursive: true });
    }
  }
});

test("A prompt says how the answer is to be stated, and lists options unless the question does", () => {
  const choice: EvalQuestion = {
    id: "1",
    question: "Which?",
    options: ["one", "two"],
    answer: "A",
    grader: "choice",
  };
  assert.match(askedInChat(choice), /'Answer: LETTER' \(without quotes\)\.\n\nWhich\?\n\nA\) one\nB\) two$/);
  assert.match(askedInChat({ ...choice, optionsInText: true }), /\n\nWhich\?$/);
  assert.match(askedInChat(questions[0]!), /^What is 0 \+ 1\?\n\n.*\\boxed\{\}\.$/);
});
