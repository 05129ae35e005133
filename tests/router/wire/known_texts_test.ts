import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { test } from "node:test";
import { fc } from "../../properties.ts";
import { KnownTexts } from "../../../router/wire/known_texts.ts";

test("whatever bytes are read, and read again, their text is theirs", () => {
  const names = new KnownTexts((raw) => raw.toLowerCase());
  const values = new KnownTexts();
  const bytes = fc.array(fc.integer({ min: 0, max: 255 }), { maxLength: 300 });
  fc.assert(fc.property(fc.array(bytes, { minLength: 1, maxLength: 8 }), (pieces) => {
    const data = Buffer.concat(pieces.map((piece) => Buffer.from(piece)));
    for (let round = 0; round < 2; round++) {
      let start = 0;
      for (const { length } of pieces) {
        const text = data.toString("latin1", start, start + length);
        assert.equal(values.read(data, start, start + length), text);
        assert.equal(names.read(data, start, start + length), text.toLowerCase());
        start += length;
      }
    }
  }));
});

test("a text outlives the bytes that it was read from", () => {
  const texts = new KnownTexts();
  const data = Buffer.from("uvicorn");
  assert.equal(texts.read(data, 0, 7), "uvicorn");
  data.fill("x");
  assert.equal(texts.read(Buffer.from("uvicorn"), 0, 7), "uvicorn");
  assert.equal(texts.read(data, 0, 7), "xxxxxxx");
});

test("more texts than are kept push each other out, and none is taken for another", () => {
  const texts = new KnownTexts();
  for (let round = 0; round < 2; round++) {
    for (let number = 0; number < 5_000; number++) {
      const text = `value-${number}`;
      assert.equal(texts.read(Buffer.from(text), 0, text.length), text);
    }
  }
});
