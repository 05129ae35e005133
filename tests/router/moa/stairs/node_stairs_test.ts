import assert from "node:assert/strict";
import { test } from "node:test";
import { staircaseSchema } from "../../../../cfgs/schema/staircase.ts";
import { firstWords, type WritingPrecursor } from "../../../../router/moa/stairs/first_words.ts";
import { NodeStairs, type NodeStairsOptions } from "../../../../router/moa/stairs/node_stairs.ts";

const never = new AbortController().signal;

function writing(agent: string, text: string, output = text): WritingPrecursor {
  return {
    precursor: { agent, state: "writing", text },
    output,
    tokens: output.split(/(?=\s)/).filter((word) => word !== "").length,
  };
}

function done(agent: string, text: string, sequence: number): WritingPrecursor {
  return { precursor: { agent, state: "answered", text, sequence }, output: text, tokens: 3 };
}

/** Stairs whose precursors are `words`, each word one token. */
function stairsOf(words: WritingPrecursor[], more: Partial<NodeStairsOptions> = {}): NodeStairs {
  return new NodeStairs({
    settings: staircaseSchema.parse({ first_tokens: 4, chunk_tokens: 4, write_tokens: 5, ahead_tokens: 8 }),
    slots: "declared",
    isInner: false,
    precursors: () => words,
    promptOf: (answers) =>
      Promise.resolve({ kind: "tokens", ids: answers.flatMap(({ text }) => [...text].map(() => 1)) }),
    sampling: { max_tokens: 40 },
    contextTokens: Infinity,
    ...more,
  });
}

test("a last word that may not be whole is not read, nor what was not begun, nor who is gone", () => {
  const words = firstWords([
    writing("a", "It is 12"),
    writing("b", ""),
    { precursor: { agent: "c", state: "gone" }, output: "Never", tokens: 9 },
    done("d", "It is 120", 1),
  ], "declared");
  assert.deepEqual(words.map(({ agent, text }) => [agent, text]), [
    ["a", "It is"],
    ["b", ""],
    ["d", "It is 120"],
  ]);
  const byTime = firstWords([writing("a", "x y"), done("b", "late", 2), done("c", "early", 1)], "completion");
  assert.deepEqual(byTime.map(({ agent }) => agent), ["c", "b", "a"]);
  const thinking = firstWords([writing("a", "So it is", "<think>a b c d e f</think>So it is")], "declared");
  assert.ok(thinking[0]!.tokens < 3, "reasoning is nothing that anybody reads");
  // A search for its end from each of its characters would take minutes.
  const long = "x".repeat(1_000_000);
  assert.equal(firstWords([writing("a", `${long}\n y`)], "declared")[0]!.text, long);
});

test("a step is taken when everybody who still writes has written enough since the one before", async () => {
  const words = [writing("a", "one two three four five six"), writing("b", "one two three")];
  const stairs = stairsOf(words);
  assert.equal(stairs.grew(9), false, "b has too little");
  words[1] = writing("b", "one two three four five six");
  assert.equal(stairs.grew(8), true);
  assert.equal(stairs.grew(8), false, "it is said once");
  const steps = stairs.steps(0);
  const first = await steps.next({ tokens: 0, hasEnded: false }, never);
  assert.deepEqual([first.isLast, first.sampling.max_tokens, first.reads], [false, 5, { a: 5, b: 5 }]);
  const second = steps.next({ tokens: 5, hasEnded: false }, never);
  words[0] = writing("a", "one two three four five six seven eight nine ten");
  stairs.grew(4);
  words[1] = done("b", "one two three four five six", 1);
  stairs.grew(9);
  assert.deepEqual((await second).sampling.max_tokens, 8, "of those ahead three are left");
});

test("the first step is taken with the very token that makes the slowest precursor's words enough, or with its end", () => {
  const text = (tokens: number) => Array.from({ length: tokens }, (_, index) => `w${index}`).join(" ");
  const words = [writing("a", ""), writing("b", "")];
  const stairs = stairsOf(words);
  const begun: number[] = [];
  for (let tokens = 1; tokens <= 8; tokens++) {
    // A model that is faster, and one that is slower.
    words[0] = writing("a", text(2 * tokens));
    if (stairs.grew(2)) begun.push(tokens);
    words[1] = writing("b", text(tokens));
    if (stairs.grew(1)) begun.push(tokens);
  }
  assert.deepEqual(begun, [5], "of five words four are whole");

  const ends = [writing("a", text(9)), writing("b", "It is")];
  const waiting = stairsOf(ends);
  assert.equal(waiting.grew(11), false);
  ends[1] = done("b", "It is 3.", 1);
  assert.equal(waiting.look(), true, "what ended is not waited for");
});

test("where the engine orders its queue the first step goes ahead by what its agent has, and no later one", async () => {
  const words = [writing("a", "a b c d e f g h i j k l m n o p")];
  for (const [stated, priorities] of [[undefined, [-2, undefined]], [5, [3, 5]]] as const) {
    const extra = stated === undefined ? {} : { extra: { priority: stated } };
    const stairs = stairsOf(words, {
      ahead: { priority: -2, tokens: 9 },
      sampling: { max_tokens: 40, ...extra },
    });
    assert.equal(stairs.grew(20), true);
    const steps = stairs.steps(0);
    const first = await steps.next({ tokens: 0, hasEnded: false }, never);
    const next = steps.next({ tokens: 5, hasEnded: false }, never);
    words[0] = writing("a", `${"a ".repeat(60)}z`);
    stairs.grew(40);
    assert.deepEqual(
      [first, await next].map(({ sampling: { extra }, isLast }) => [
        extra?.priority,
        extra?.priority_tokens,
        isLast,
      ]),
      priorities.map((priority, index) => [priority, index === 0 ? 9 : undefined, false]),
    );
    words[0] = writing("a", "a b c d e f g h i j k l m n o p");
  }
});

test("an answer that the model would have ended waits for the whole prompt, as does one that is far enough ahead", async () => {
  for (const written of [{ tokens: 2, hasEnded: true }, { tokens: 8, hasEnded: false }]) {
    const words = [writing("a", "a b c d e f g h i j k l m n o p")];
    const stairs = stairsOf(words);
    assert.equal(stairs.grew(20), true);
    const next = stairs.steps(1).next(written, never);
    stairs.grew(20);
    stairs.finish({ prompt: { kind: "tokens", ids: [7] }, sampling: { max_tokens: 30, seed: 3 } });
    const step = await next;
    assert.deepEqual([step.isLast, step.prompt, step.sampling], [
      true,
      { kind: "tokens", ids: [7] },
      { max_tokens: 30, seed: 4 },
    ]);
  }
});

test("a prompt that leaves the answer no room waits for the whole one, which is cut to fit; errors of that are thrown", async () => {
  const words = [writing("a", "a b c d e f g h i j k l m n o p")];
  const stairs = stairsOf(words, { contextTokens: 10 });
  assert.equal(stairs.grew(20), true);
  const next = stairs.steps(0).next({ tokens: 0, hasEnded: false }, never);
  stairs.finish(Promise.reject(new Error("too long")));
  await assert.rejects(next, /too long/);
});
