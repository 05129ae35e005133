import assert from "node:assert/strict";
import { appendFileSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { VirtualClock } from "../../../base/clock.ts";
import type { EvalQuestion } from "../../../bench/datasets/data_set.ts";
import { compareRecords } from "../../../bench/evaluation/compare_records.ts";
import {
  countedRecords,
  evalFigures,
  evalPairs,
  heldQuestions,
} from "../../../bench/evaluation/eval_figures.ts";
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
  arrivals: 1,
  arrivalSeed: "s",
  warmUp: 0,
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
  const { records: twice } = await evaluate(options({ ask: asker([]), repeats: 2 }));
  const [second] = evalPairs(twice, MODES);
  assert.deepEqual([second!.answers, second!.questions, second!.lost], [12, 6, 6]);
  assert.ok(Math.abs(second!.p - first!.p) < 1e-9, "not six questions more");
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

/** Asks 40 questions in one mode whose answers take their time; gives starts, records and the most at the same time. */
async function asked(more: Partial<EvaluateOptions>, answerMs: number) {
  const clock = new VirtualClock();
  const starts: number[] = [];
  let [running, most] = [0, 0];
  const forty = Array.from({ length: 40 }, (_, index) => ({ ...questions[0]!, id: `q${index}` }));
  const { records } = await clock.run(() =>
    evaluate(options({
      sets: [{ name: "sums", questions: forty }],
      modes: [{ kind: "once", name: "good", model: "good" }],
      repeats: 1,
      clock,
      ask: async () => {
        starts.push(clock.now());
        most = Math.max(most, ++running);
        await clock.sleep(answerMs);
        running--;
        return { text: "1", ttftMs: 1, latencyMs: answerMs, promptTokens: 3, completionTokens: 4 };
      },
      ...more,
    }))
  );
  return { starts, most, records };
}

test("Questions at a rate start at random, whatever the answers take; a limit holds them back, and records say how long", async () => {
  const arrivals = { perSecond: 10 };
  const quick = await asked({ arrivals }, 1);
  const slow = await asked({ arrivals }, 2000);
  assert.deepEqual(slow.starts, quick.starts, "an open loop");
  assert.ok(slow.most > 10, `${slow.most} at once`);
  assert.ok(Math.abs(slow.starts.at(-1)! / 4000 - 1) < 0.4, `${slow.starts.at(-1)}`);
  const other = await asked({ arrivals, arrivalSeed: "other" }, 1);
  assert.notDeepEqual(other.starts, quick.starts);
  assert.deepEqual(heldQuestions(slow.records), { questions: 0, longestMs: 0 });

  const held = await asked({ arrivals: { perSecond: 10, atMost: 4 } }, 2000);
  assert.equal(held.most, 4);
  const { questions: count, longestMs } = heldQuestions(held.records);
  const waits = held.starts.map((start, index) => start - slow.starts[index]!);
  assert.equal(count, waits.filter((wait) => wait > 1e-6).length);
  assert.ok(count > 20 && Math.abs(longestMs - Math.max(...waits)) < 1e-6, `${count}, ${longestMs}`);
  assert.deepEqual(new Set(held.records.map(({ latencyMs }) => latencyMs)), new Set([2000]));
});

test("The questions of a warm-up are asked first, in no figure, and neither repeated nor counted by a resumed run", async () => {
  const at = [0, 1].map(() => mkdtempSync(join(tmpdir(), "canopy-warm-up-")));
  const fileAt = (folder: string) => new RecordFile(join(folder, "r.jsonl"), "{}");
  try {
    const whole = await asked({ arrivals: 8, warmUp: 3, file: fileAt(at[0]!) }, 100);
    const starts = Array.from({ length: 37 }, (_, index) => 100 + 100 * Math.floor(index / 8));
    assert.deepEqual(whole.starts, [0, 0, 0, ...starts], "the others start when the warm-up has ended");
    assert.deepEqual(
      whole.records.filter(({ warmUp }) => warmUp === true).map(({ question }) => question),
      ["q0", "q1", "q2"],
    );
    assert.equal(evalFigures(countedRecords(whole.records))[0]!.answers, 37);
    assert.equal(compareRecords([whole.records, whole.records], [["good", "good"]])[0]!.answers, 37);

    // Broken off within the warm-up, and behind it.
    for (const failAt of [2, 20]) {
      const before: string[] = [];
      const cut = { ask: asker(before, failAt), warmUp: 3, arrivals: 1, file: fileAt(at[1]!) };
      await asked(cut, 100);
    }
    const known = fileAt(at[1]!);
    const resumed = await asked({ arrivals: 8, warmUp: 3, file: known }, 100);
    assert.equal(resumed.starts.length, 40 - 20);
    assert.equal(countedRecords(resumed.records).length, 37);
    const again = await asked({ arrivals: { perSecond: 1 }, warmUp: 3, file: known }, 100);
    assert.deepEqual([again.starts.length, again.records], [0, resumed.records]);
  } finally {
    for (const folder of at) rmSync(folder, { recursive: true });
  }
});
