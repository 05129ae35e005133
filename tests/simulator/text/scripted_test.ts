import assert from "node:assert/strict";
import { test } from "node:test";
import { QUESTIONS } from "../../../simulator/text/questions.ts";
import { questionIn, scriptedAnswers, statedAnswer } from "../../../simulator/text/scripted.ts";
import { ask, at, json, simulated } from "../recordings.ts";

const EGGS = QUESTIONS[0]!;

test("Each question is recognised anywhere in a prompt, whatever the white space", () => {
  assert.ok(QUESTIONS.length >= 12);
  for (const question of QUESTIONS) {
    assert.equal(
      questionIn(`System text.\n\n${question.question.replaceAll(" ", " \n")}\nBe brief.`),
      question,
    );
    assert.equal(question.mistakes.length, question.slips.length);
  }
  assert.equal(questionIn("What is the weather like?"), undefined);
});

test("Larger models are right more often, and none always", () => {
  const rights = (size: "4b" | "8b" | "32b") => {
    let right = 0;
    for (const question of QUESTIONS) {
      const answers = scriptedAnswers({ size, seed: "s" });
      for (let seed = 0; seed < 100; seed++) {
        const text = answers.answer(question.question, seed, undefined)!.text;
        if (statedAnswer(text, question) === question.answer) right++;
      }
    }
    return right / (100 * QUESTIONS.length);
  };
  const [small, middle, large] = [rights("4b"), rights("8b"), rights("32b")];
  assert.ok(small < middle && middle < large, `${small}, ${middle}, ${large}`);
  assert.ok(small > 0.5 && large < 1);
});

test("An aggregator follows the majority of the answers that it reads", () => {
  const answers = scriptedAnswers({ size: "4b", seed: "s" });
  const prompt = (...stated: string[]) =>
    `${EGGS.question}\n\nResponses:\n${
      stated.map((answer, i) => `${i + 1}. Some steps.\nThe answer is ${answer}.`).join("\n")
    }`;
  for (let seed = 0; seed < 30; seed++) {
    const say = (...stated: string[]) =>
      statedAnswer(answers.answer(prompt(...stated), seed, undefined)!.text, EGGS);
    assert.equal(say("26", "18", "26"), "26");
    assert.equal(say("18", "18", "26"), "18");
    assert.equal(say("24"), "24");
  }
});

test("Right answers are surer: their log-probabilities are higher on average", async () => {
  const { simulator, run } = simulated({ answers: "scripted", cost: "instant" });
  const means = new Map<boolean, number[]>();
  await run(async () => {
    for (let seed = 0; seed < 60; seed++) {
      const question = QUESTIONS[seed % QUESTIONS.length]!;
      const body = { prompt: question.question, max_tokens: 500, logprobs: 1, seed };
      const answer = json(await ask(simulator, { path: "/v1/completions", body }));
      const values = at(answer, "choices", 0, "logprobs", "token_logprobs");
      assert.ok(Array.isArray(values));
      const mean = values.reduce((sum: number, value) => sum + Number(value), 0) / values.length;
      const right = statedAnswer(String(at(answer, "choices", 0, "text")), question) === question.answer;
      means.set(right, [...means.get(right) ?? [], mean]);
    }
  });
  const average = (list: number[]) => list.reduce((sum, value) => sum + value, 0) / list.length;
  assert.ok(average(means.get(true) ?? []) > average(means.get(false) ?? []) + 0.05);
});

test("Scripted answers come through both protocols as ordinary tokens, and end by themselves", async () => {
  for (const engine of ["vllm", "sglang"] as const) {
    const { simulator, run } = simulated({ engine, answers: "scripted", cost: "8b" });
    const messages = [{ role: "user", content: `Please solve: ${EGGS.question}` }];
    const body = { messages, max_tokens: 1000, seed: 3 };
    const answer = json(await run(() => ask(simulator, { path: "/v1/chat/completions", body })));
    assert.equal(at(answer, "choices", 0, "finish_reason"), "stop");
    assert.match(String(at(answer, "choices", 0, "message", "content")), /The answer is \d+\.$/);
    assert.ok(simulator.stats.generationTokens > 50);
  }
});

test("Samples without a seed differ, greedy ones do not", async () => {
  const { simulator, run } = simulated({ answers: "scripted" });
  await run(async () => {
    const say = async (more: { temperature?: number }) => {
      const body = { prompt: EGGS.question, max_tokens: 500, ...more };
      return at(json(await ask(simulator, { path: "/v1/completions", body })), "choices", 0, "text");
    };
    assert.equal(new Set([await say({ temperature: 0 }), await say({ temperature: 0 })]).size, 1);
    assert.ok(new Set([await say({}), await say({}), await say({}), await say({})]).size > 1);
  });
});

test("A scripted answer that was cut goes on where it stopped", async () => {
  const { simulator, run } = simulated({ answers: "scripted" });
  await run(async () => {
    const prompt = `<|im_start|>user\n${EGGS.question}<|im_end|>\n<|im_start|>assistant\n`;
    const say = async (text: string) => {
      const body = { prompt: text, max_tokens: 500, seed: 5 };
      return String(at(json(await ask(simulator, { path: "/v1/completions", body })), "choices", 0, "text"));
    };
    const whole = await say(prompt);
    assert.equal(whole.slice(0, 60) + await say(prompt + whole.slice(0, 60)), whole);
  });
});

test("Other questions get hashed words", async () => {
  const { simulator, run } = simulated({ answers: "scripted" });
  const body = { prompt: "What is the weather like?", max_tokens: 8, ignore_eos: true };
  const answer = json(await run(() => ask(simulator, { path: "/v1/completions", body })));
  assert.equal(at(answer, "usage", "completion_tokens"), 8);
});
