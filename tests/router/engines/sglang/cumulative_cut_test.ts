import assert from "node:assert/strict";
import { test } from "node:test";
import { anyCharacter, fc } from "../../../properties.ts";
import { CumulativeCut } from "../../../../router/engines/sglang/cumulative_cut.ts";
import { SglangDecoder } from "../../../../router/engines/sglang/sglang_stream.ts";

const event = (text: string, ids: readonly number[], more: object = {}) =>
  JSON.stringify({ text, output_ids: ids, meta_info: { completion_tokens: ids.length, ...more } });

/** What is left of each event. */
function cuts(...events: readonly string[]): unknown[] {
  const cut = new CumulativeCut();
  return events.map((data) => {
    const left = cut.cut(data);
    return left === undefined ? "whole" : JSON.parse(left);
  });
}

test("an event keeps its new text and ids, and all else", () => {
  assert.deepEqual(
    cuts(
      event("", []),
      event("Hi", [1]),
      event("Hi there", [1, 20, 3], { id: 'a"]' }),
      event("Hi there", [1, 20, 3]),
    ),
    [
      "whole",
      { text: "Hi", output_ids: [1], meta_info: { completion_tokens: 1 } },
      { text: " there", output_ids: [20, 3], meta_info: { completion_tokens: 3, id: 'a"]' } },
      { text: "", output_ids: [], meta_info: { completion_tokens: 3 } },
    ],
  );
});

test("quotes, backslashes and brackets in a text are no ends of it", () => {
  const texts = ["a\\", 'a\\"', 'a\\"","output_ids":[7', 'a\\"","output_ids":[7]\\\\"'];
  const found = cuts(...texts.map((text, at) => event(text, Array.from({ length: at }, () => 5))));
  assert.deepEqual(found.slice(1).map((left) => (left as { text: string }).text), [
    '"',
    '","output_ids":[7',
    ']\\\\"',
  ]);
});

test("what does not go on as before is read whole: a text that shrinks or changes, ids that do, other forms", () => {
  const whole = (...events: readonly string[]) => assert.equal(cuts(...events).at(-1), "whole");
  whole(event("stopped here", [1, 2]), event("stopped", [1, 2]));
  whole(event("one \ufffd", [1]), event("one é", [1, 2]));
  whole(event("a", [1, 2]), event("ab", [1, 3]));
  whole(event("a", [1, 2]), event("ab", [1, 23]));
  whole(event("a", [1, 2]), event("ab", [1]));
  whole(event("a", [1]), '{"error":{"message":"x"}}');
  whole(event("a", [1]), '{"text":"a","meta_info":{}}');
  whole('{"error":{"message":"x"}}', event("a", [1]));
});

test("a cumulative stream decodes to the same with and without knowing that it is one", () => {
  fc.assert(
    fc.property(
      fc.array(fc.tuple(fc.string({ unit: anyCharacter, maxLength: 4 }), fc.nat(200_000)), {
        minLength: 1,
        maxLength: 30,
      }),
      fc.nat(40),
      (tokens, kept) => {
        const prompt = { prompt_tokens: 3, cached_tokens: 0 };
        const events = tokens.map((_, at) => {
          const said = tokens.slice(0, at + 1);
          const last = at === tokens.length - 1;
          const text = said.map(([piece]) => piece).join("").toWellFormed();
          // At its end an engine may cut a stop string off.
          return event(
            last ? text.slice(0, Math.max(0, text.length - kept % 3)) : text,
            said.map(([, id]) => id),
            {
              ...prompt,
              finish_reason: last ? { type: "stop" } : null,
            },
          );
        });
        const known = new SglangDecoder({ workerId: "w", url: "http://w" }, false);
        const ids: number[] = [];
        let text = "";
        for (const data of events) {
          const delta = known.push(data);
          text += delta?.text ?? "";
          ids.push(...delta?.tokenIds ?? []);
        }
        assert.deepEqual(ids, tokens.map(([, id]) => id));
        assert.ok(text.startsWith(JSON.parse(events.at(-1)!).text));
        assert.equal(known.end().usage.completionTokens, tokens.length);
      },
    ),
    { numRuns: 300 },
  );
});
