import assert from "node:assert/strict";
import { test } from "node:test";
import { PromptPrefix } from "../../../router/pool/prompt_prefix.ts";
import { fc } from "../../properties.ts";

const encoder = new TextEncoder();

function ofText(text: string): PromptPrefix {
  return PromptPrefix.ofBody(encoder.encode(text), () => 0);
}

test("pieces are equal as far as prompts are, and differ from there on", () => {
  fc.assert(fc.property(
    fc.integer({ min: 1, max: 60_000 }),
    fc.integer({ min: 1, max: 60_000 }),
    fc.integer({ min: 1, max: 255 }),
    (length, changed, by) => {
      const text = new Uint8Array(length).map((_, i) => i % 251);
      const other = text.slice();
      if (changed < length) other[changed]! += by;
      const [one, two] = [text, other].map((bytes) => PromptPrefix.ofBody(bytes, () => 0));
      let parted = false;
      for (let n = 0; one!.piece(n) !== undefined; n++) {
        const same = one!.piece(n) === two!.piece(n);
        assert.ok(!(parted && same), "they met again");
        parted ||= !same;
      }
      // The first piece has 512 bytes; the last bytes may be in no piece.
      if (changed >= length) assert.ok(!parted);
      if (changed < 512 && length >= 512) assert.ok(parted);
    },
  ));
});

test("a prompt that goes on keeps the pieces that it had", () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 40_000 }), fc.integer({ min: 0, max: 40_000 }), (length, more) => {
      const text = "conversation ".repeat(8_000);
      const [before, after] = [ofText(text.slice(0, length)), ofText(text.slice(0, length + more))];
      for (let n = 0; before.piece(n) !== undefined; n++) assert.equal(before.piece(n), after.piece(n));
    }),
  );
});

test("a megabyte has some hundred pieces, none of which is asked for without need", () => {
  let found = 0;
  const prompt = PromptPrefix.ofBody(new Uint8Array(2_000_000), () => {
    found++;
    return 0;
  });
  assert.equal(found, 0);
  let pieces = 0;
  while (prompt.piece(pieces) !== undefined) pieces++;
  assert.ok(pieces > 50 && pieces < 110, `${pieces}`);
  assert.equal(found, 1);
});

test("a body without a prompt has no pieces and no length", () => {
  const prompt = PromptPrefix.ofBody(encoder.encode('{"x":1}'), () => undefined);
  assert.equal(prompt.bytes, 0);
  assert.equal(prompt.piece(0), undefined);
  assert.equal(prompt.upTo(1_024), undefined);
});

test("an agent's text begins as the same text in a client's body does", () => {
  const text = "A question\nof 900 bytes. ".repeat(36);
  const body = encoder.encode(JSON.stringify({ model: "m", prompt: text, max_tokens: 5 }));
  const relayed = PromptPrefix.ofBody(body, () => '{"model":"m","prompt":'.length);
  assert.equal(PromptPrefix.ofJson(text).piece(0), relayed.piece(0));
});

test("token ids count four bytes each", () => {
  const ids = Array.from({ length: 300 }, (_, i) => i);
  const prompt = PromptPrefix.ofTokens(ids);
  assert.equal(prompt.bytes, 1_200);
  assert.equal(prompt.piece(1), PromptPrefix.ofTokens(ids.slice(0, 256)).piece(1));
  assert.equal(prompt.piece(2), undefined);
  assert.notEqual(prompt.piece(0), PromptPrefix.ofTokens(ids.slice(1)).piece(0));
});

test("a prompt that was released is known as far as somebody has asked, and keeps nothing else", () => {
  const prompt = PromptPrefix.ofTokens(Array.from({ length: 1_000 }, (_, id) => id));
  const [first, second] = [prompt.piece(0), prompt.piece(1)];
  prompt.release();
  assert.deepEqual([prompt.piece(0), prompt.piece(1), prompt.piece(2)], [first, second, undefined]);
  assert.equal(prompt.bytes, 4_000);
  assert.equal(prompt.upTo(64), undefined);
});
