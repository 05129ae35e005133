import assert from "node:assert/strict";
import { test } from "node:test";
import { distinctShare, isCreative } from "../../../scorer/policy/diversity.ts";

test("requests for something made up are told from questions that have an answer", () => {
  const creative = [
    "Write a short story about a lighthouse keeper.",
    "Compose a haiku on autumn",
    "Can you tell me a joke?",
    "Brainstorm with me on the name of a bakery.",
    "Come up with ten names for a cat.",
    "Please suggest some ideas for a birthday party",
    "Schreibe mir ein Gedicht über den Herbst.",
    "Escribe un cuento sobre un dragón",
    "写一首关于秋天的诗",
  ];
  for (const question of creative) assert.ok(isCreative(question), question);
  const plain = [
    "",
    "How many eggs are left?",
    "Write a function that adds two numbers.",
    "What is the theme of the poem?",
    "Explain the history of the short story.",
    "Write the equation of the line through (0, 1) and (2, 5).",
    "List the prime numbers below 20.",
  ];
  for (const question of plain) assert.ok(!isCreative(question), question);
});

test("distinct-n is the share of different n-grams of words", () => {
  assert.equal(distinctShare(["a b a b"], 1), 0.5);
  assert.equal(distinctShare(["a b a b"], 2), 2 / 3);
  assert.equal(distinctShare(["the cat", "The cat!"], 1), 0.5);
  assert.equal(distinctShare(["the cat", "a dog"], 2), 1);
  assert.equal(distinctShare(["我是我"], 1), 2 / 3);
  assert.equal(distinctShare(["one"], 2), undefined);
  assert.equal(distinctShare([], 1), undefined);
});
