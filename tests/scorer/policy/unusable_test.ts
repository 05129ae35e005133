import assert from "node:assert/strict";
import { test } from "node:test";
import { unusable } from "../../../scorer/policy/unusable.ts";

const of = (text: string, cut = false) => unusable({ text, cut });

test("what was cut, says nothing, refuses or goes round in circles is told apart", () => {
  assert.equal(of("The answer is", true), "cut");
  assert.equal(of(" \n\t "), "empty");
  const refusals = [
    "I'm sorry, but I can't help with that request.",
    "I’m sorry, but I cannot assist with this.",
    "I cannot provide instructions for that.",
    "As an AI language model, I don't have opinions.",
    "Sorry, I am unable to open links.",
    "抱歉，我无法回答这个问题。",
    "申し訳ありませんが、お手伝いできません。",
    "Lo siento, pero no puedo ayudarte con eso.",
    "Es tut mir leid, dabei kann ich nicht helfen.",
  ];
  for (const text of refusals) assert.equal(of(text), "refused", text);
  assert.equal(of("I think that is right. ".repeat(60)), "loop");
  assert.equal(of("我认为这是对的。".repeat(80)), "loop");
  assert.equal(of("Let us see.\n" + "0".repeat(900)), "loop");
});

test("sound answers are not taken for any of these", () => {
  const prose = Array.from(
    { length: 60 },
    (_, step) => `Step ${step}: take ${step * 7 % 97} apples from basket ${step}.`,
  );
  const sound = [
    "18",
    "The farmer cannot sell 3 of the eggs, so 13 are left.",
    "I'm sorry to hear that. Here is what you can do: call the bank and block the card.",
    "One cannot divide by zero, so there is no solution.",
    prose.join("\n"),
    "| a | b |\n|---|---|\n" + Array.from({ length: 30 }, (_, row) => `| ${row} | ${row * row} |`).join("\n"),
    `${"Some background that comes first and takes its time. ".repeat(3)} I cannot help but agree.`,
  ];
  for (const text of sound) assert.equal(of(text), undefined, text.slice(0, 60));
});
