import assert from "node:assert/strict";
import { test } from "node:test";
import { VirtualClock } from "../../../../base/clock.ts";
import type { EvalQuestion } from "../../../../bench/datasets/data_set.ts";
import type { AskMode, EvalAnswer } from "../../../../bench/evaluation/eval_record.ts";
import { askInMode, type AskInModeOptions } from "../../../../bench/evaluation/modes/ask_in_mode.ts";
import { type EvalMode, readMode, turnOrder } from "../../../../bench/evaluation/modes/eval_mode.ts";

const question: EvalQuestion = { id: "1", question: "6 times 7?", answer: "42", grader: "number" };

/** Answers in the order of asking: each takes 10 tokens and 10 ms for each of its words. */
function asker(clock: VirtualClock, texts: readonly string[], logprobs: readonly number[] = []) {
  const seen = { seeds: new Set<number>(), temperatures: new Set<number | undefined>(), asked: 0, broken: 0 };
  const ask: AskMode = async (_, { temperature }, { seed, signal }) => {
    const number = seen.asked++;
    seen.seeds.add(seed);
    seen.temperatures.add(temperature);
    const text = texts[number % texts.length]!;
    const cost = 10 * text.split(" ").length;
    try {
      await clock.sleep(cost, signal);
    } catch (error) {
      seen.broken++;
      throw error;
    }
    const answer: EvalAnswer = {
      text,
      meanLogprob: logprobs[number],
      ttftMs: 1,
      latencyMs: cost,
      promptTokens: 3,
      completionTokens: cost,
    };
    return answer;
  };
  return { ask, seen };
}

async function answered(mode: string, texts: readonly string[], more: Partial<AskInModeOptions> = {}) {
  const clock = new VirtualClock();
  const { ask, seen } = asker(clock, texts, [-2, -0.5, -1]);
  const answer = await clock.run(() =>
    askInMode(readMode(mode)!, {
      question,
      asked: { messages: [], temperature: 0 },
      ask,
      seed: 7,
      sampling: { temperature: 0.7, width: 2 },
      clock,
      signal: new AbortController().signal,
      reference: { mode: "moa", completionTokens: 100, latencyMs: 95 },
      ...more,
    })
  );
  return { answer, seen };
}

test("Modes are read from what a user writes, and what only looks like one is none", () => {
  const read = (text: string) => readMode(text);
  assert.deepEqual(read("org/m:free"), { kind: "once", name: "org/m:free", model: "org/m:free" });
  assert.deepEqual(read("single:org/m"), { kind: "once", name: "single:org/m", model: "org/m" });
  assert.deepEqual(read("best-of-3:m"), { kind: "best-of", name: "best-of-3:m", model: "m", answers: 3 });
  for (const [text, budget] of [["tokens", "tokens"], ["time", "time"], ["5", { answers: 5 }]] as const) {
    const mode = read(`self-consistency@${text}:m`);
    assert.ok(mode?.kind === "self-consistency");
    assert.deepEqual(mode.budget, budget);
  }
  for (
    const text of ["self-consistency:m", "self-consistency@0:m", "best-of-0:m", "best-of-n:m", "single:"]
  ) {
    assert.equal(read(text), undefined, text);
  }
});

test("Each mode is first in turn, and one with the first mode's budget comes behind the first mode", () => {
  const modes = ["moa", "self-consistency@tokens:m", "32b"].map((text): EvalMode => readMode(text)!);
  assert.deepEqual([0, 1, 2].map((from) => turnOrder(modes, from)), [[0, 1, 2], [2, 0, 1], [2, 0, 1]]);
});

test("Self-consistency at equal tokens counts the answers that fit, in the order of their numbers, and takes the majority", async () => {
  // 20, 20, 30 and 20 tokens fit into 100; the next one would not.
  const texts = ["It's 41.", "It's 42.", "So it's 42.", "It's 41.", "Surely it is 41."];
  const { answer, seen } = await answered("self-consistency@tokens:m", texts);
  assert.deepEqual([answer.drawn, answer.completionTokens, answer.promptTokens], [4, 90, 12]);
  assert.equal(answer.text, "It's 41.", "of equally many the one that was stated first");
  assert.deepEqual([...seen.temperatures], [0.7]);
  assert.equal(seen.seeds.size, seen.asked, "each answer has a seed of its own");
  const one = await answered("self-consistency@tokens:m", ["a b c d e f g h i j k 42"]);
  assert.deepEqual([one.answer.drawn, one.answer.completionTokens], [1, 120], "at least one is drawn");
});

test("Self-consistency at equal time breaks off what is under way when the time is up, but for the first answer", async () => {
  const { answer, seen } = await answered("self-consistency@time:m", ["It is 42."]);
  assert.deepEqual([answer.drawn, answer.latencyMs, seen.broken], [6, 95, 2]);
  const late = await answered("self-consistency@time:m", [
    "a b c d e f g h i j k 42",
    "1 2 3 4 5 6 7 8 9 10 11 12 13 14",
  ]);
  assert.deepEqual([late.answer.drawn, late.answer.latencyMs, late.seen.broken], [1, 120, 1]);
  await assert.rejects(
    answered("self-consistency@time:m", ["42"], { reference: undefined }),
    /self-consistency@time:m needs an answer of the first mode, and it has none/,
  );
});

test("A vote groups what a grader takes for the same, and does not know the right answer", async () => {
  const { answer } = await answered("self-consistency@3:m", [
    "It's 5.",
    "It is 1,000.",
    "So it is \\boxed{1000}.",
  ]);
  assert.deepEqual([answer.drawn, answer.text], [3, "It is 1,000."]);
  const mute = await answered("self-consistency@3:m", ["Hm.", "No idea."]);
  assert.equal(mute.answer.text, "Hm.");
});

test("Best of N is the answer with the highest mean log-probability, and needs one of each", async () => {
  const { answer } = await answered("best-of-3:m", ["It's 41.", "It's 42.", "It's 43."]);
  assert.deepEqual([answer.text, answer.drawn, answer.completionTokens], ["It's 42.", 3, 60]);
  await assert.rejects(answered("best-of-4:m", ["It's 41."]), /best-of-N needs log-probabilities/);
});
