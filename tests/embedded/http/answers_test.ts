import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "../../properties.ts";
import { EmbeddedAnswer } from "../../../embedded/http/answers.ts";
import { NEUTRAL_SAMPLING } from "../../../embedded/scheduler/sampling.ts";
import { tinyTokenizer } from "../tiny_model.ts";

const tokenizer = await tinyTokenizer();
const END = 1913;

const text = fc.array(
  fc.constantFrom(
    "Hello",
    " world",
    "é",
    "日本",
    "\u{1f600}",
    "\u{1f469}\u200d\u{1f4bb}",
    "\n\n",
    "stop",
    " ",
    "ab",
    "a",
    "�",
  ),
  { maxLength: 12 },
).map((parts) => parts.join(""));

function answerTo(stop: readonly string[], includeStop = false, minTokens = 0): EmbeddedAnswer {
  return new EmbeddedAnswer({
    index: 0,
    request: {
      promptIds: [],
      maxTokens: 1000,
      minTokens,
      sampling: { ...NEUTRAL_SAMPLING, seed: "" },
      stopIds: new Set([END, 7]),
      logprobs: undefined,
    },
    tokenizer,
    stop,
    endId: END,
    includeStop,
    skipSpecialTokens: true,
    tokensAsIds: false,
  });
}

function takenFrom(answer: EmbeddedAnswer): string {
  return answer.take().map((event) => event.type === "delta" ? event.delta.text : "").join("");
}

test("text stops before the first stop string, wherever tokens and characters are cut, and none of it is shown early", () => {
  const stops = fc.array(fc.constantFrom("stop", "\n\n", "\u{1f600}", "ab", "lo w", "aab"), { maxLength: 3 });
  fc.assert(fc.property(text, stops, fc.boolean(), (full, stop, includeStop) => {
    const answer = answerTo(stop, includeStop);
    let shown = "";
    for (const id of tokenizer.encode(full)) {
      const ended = answer.push({ id, logprob: undefined, top: [] });
      shown += takenFrom(answer);
      if (ended) break;
    }
    answer.end("length");
    shown += takenFrom(answer);
    // The stop string that is complete first; of two that are complete with the same token, the one that begins first.
    let expected = full;
    if (answer.finish?.reason === "stop") {
      const at = full.indexOf(String(answer.finish.stop));
      expected = full.slice(0, at + (includeStop ? String(answer.finish.stop).length : 0));
    }
    assert.equal(shown, expected);
    assert.equal(answer.finish?.reason === "stop", stop.some((one) => full.includes(one)));
    if (!includeStop) { for (const one of stop) assert.ok(!shown.includes(one)); }
  }));
});

test("a stop token ends an answer and is no text; the model's own end is not named as the reason", () => {
  for (const [id, stop] of [[END, undefined], [7, 7]] as const) {
    const answer = answerTo([]);
    for (const other of tokenizer.encode("Hello")) answer.push({ id: other, logprob: undefined, top: [] });
    assert.equal(answer.push({ id, logprob: undefined, top: [] }), true);
    assert.deepEqual([answer.text, answer.finish], ["Hello", { reason: "stop", stop }]);
  }
});

test("before min_tokens neither a stop string nor a stop token ends an answer", () => {
  const answer = answerTo(["H"], false, 3);
  for (const id of [...tokenizer.encode("H"), 7, 7]) {
    assert.equal(answer.push({ id, logprob: undefined, top: [] }), false);
  }
  assert.equal(answer.push({ id: 7, logprob: undefined, top: [] }), true);
});
