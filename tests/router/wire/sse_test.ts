import assert from "node:assert/strict";
import { test } from "node:test";
import { anyCharacter, fc } from "../../properties.ts";
import { SseParser } from "../../../router/wire/sse.ts";
import { cutAt } from "../engines/wire.ts";

const encoder = new TextEncoder();

function parse(pieces: readonly Uint8Array[]): string[] {
  const parser = new SseParser();
  return pieces.flatMap((piece) => parser.push(piece));
}

test("events come out whole, wherever the bytes are cut", () => {
  const line = fc.string({ unit: anyCharacter }).map((text) =>
    text.replace(/[\r\n\0\ufeff]/g, "·").toWellFormed()
  );
  const newline = fc.constantFrom("\n", "\r\n");
  fc.assert(
    fc.property(fc.array(line, { minLength: 1 }), newline, fc.array(fc.nat()), (events, end, borders) => {
      const bytes = encoder.encode(events.map((data) => `data: ${data}${end}${end}`).join(""));
      assert.deepEqual(parse(cutAt(bytes, borders)), events);
    }),
    { numRuns: 200 },
  );
});

test("comments, other fields and missing spaces are understood", () => {
  const text = ": keep-alive\n\nevent: x\nid: 1\ndata:{}\n\n: PROCESSING\ndata: a\ndata: b\n\nretry: 5\n\n";
  assert.deepEqual(parse([encoder.encode(text)]), ["{}", "a\nb"]);
});

test("an event that was not finished is not an event", () => {
  assert.deepEqual(parse([encoder.encode("data: 1\n\ndata: 2\n")]), ["1"]);
});

test("an endless event is refused before it fills the memory", () => {
  const parser = new SseParser({ maxEventLength: 1000 });
  parser.push(encoder.encode("data: "));
  assert.throws(() => {
    for (let i = 0; i < 20; i++) parser.push(encoder.encode("x".repeat(100)));
  }, /longer than 1000/);
  assert.throws(() => parser.push(encoder.encode("\n\ndata: 1\n\n")), /longer than 1000/);
});
