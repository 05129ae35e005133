import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "../../properties.ts";
import { Detokenizer } from "../../../ml/tokenizers/detokenizer.ts";
import { tinyTokenizer } from "../../embedded/tiny_model.ts";

const tokenizer = await tinyTokenizer();
const parts = fc.constantFrom(
  "Hello",
  " world",
  "é",
  "日本",
  "\u{1f600}",
  "\u{1f469}\u200d\u{1f4bb}",
  "\n\n",
  " ",
  "�",
);
const text = fc.array(parts, { maxLength: 12 }).map((some) => some.join(""));

test("the pieces of a detokenizer are the text of all ids, and only whole characters are shown", () => {
  fc.assert(fc.property(text, text, (prompt, answer) => {
    const ids = tokenizer.encode(answer);
    const detokenizer = new Detokenizer(tokenizer, tokenizer.encode(prompt), true);
    let shown = "";
    for (const id of ids) {
      shown += detokenizer.push(id);
      assert.ok(answer.startsWith(shown), JSON.stringify([shown, answer]));
    }
    assert.equal(shown + detokenizer.flush(), answer);
  }));
});

test("ids that make no characters give the text that the tokenizer itself makes of them", () => {
  fc.assert(fc.property(fc.array(fc.nat(1910), { maxLength: 60 }), (ids) => {
    const detokenizer = new Detokenizer(tokenizer, [], true);
    const pieces = ids.map((id) => detokenizer.push(id));
    assert.equal(pieces.join("") + detokenizer.flush(), tokenizer.decode(ids));
  }));
});
