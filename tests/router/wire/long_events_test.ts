import assert from "node:assert/strict";
import { test } from "node:test";
import { anyCharacter, fc, often } from "../../properties.ts";
import { copied } from "../../../base/bytes.ts";
import { type LongData, type LongEventOptions, LongEventParser } from "../../../router/wire/long_events.ts";
import { SseParser } from "../../../router/wire/sse.ts";
import { cutAt } from "../engines/wire.ts";

const encoder = new TextEncoder();
const textOf = (event: string | LongData) =>
  typeof event === "string" ? event : new TextDecoder("utf-8", { ignoreBOM: true }).decode(copied(event));

function parse(pieces: readonly Uint8Array[], options: LongEventOptions = {}): (string | LongData)[] {
  const parser = new LongEventParser(options);
  return pieces.flatMap((piece) => parser.push(piece));
}

test("long events say what they say to the parser of short ones, wherever the bytes are cut", () => {
  const word = fc.string({ unit: anyCharacter, maxLength: 12 }).map((text) =>
    text.replace(/[\r\n\0\ufeff]/g, "·").toWellFormed()
  );
  const field = fc.constantFrom("data: ", "data:", "data", "dat", "event: ", "id: ", ": ", "");
  const start = fc.constantFrom("", "\ufeff");
  const ending = fc.constantFrom("\n", "\n\n", "\r\n", "\r\n\r\n", "\r", "\r\r", "");
  const line = fc.tuple(field, word, ending).map((parts) => parts.join(""));
  fc.assert(
    fc.property(
      start,
      fc.array(line),
      fc.array(fc.nat()),
      fc.integer({ min: 6, max: 20 }),
      fc.integer({ min: 1, max: 30 }),
      (mark, lines, borders, longBytes, stepBytes) => {
        const pieces = cutAt(encoder.encode(mark + lines.join("")), borders);
        const parser = new SseParser();
        const expected = pieces.flatMap((piece) => parser.push(piece));
        assert.deepEqual(parse(pieces, { longBytes, stepBytes }).map(textOf), expected);
      },
    ),
    { numRuns: often(500) },
  );
});

test("an event of megabytes in small pieces stays bytes, in few blocks, between short events that are texts", () => {
  const long = JSON.stringify({ text: "answer\n".repeat(500_000) });
  const stream = encoder.encode(`data: {"a":1}\n\nevent: x\ndata: ${long}\r\n\r\ndata: [DONE]\n\n`);
  for (const bytes of [100, 1448, 65_536, stream.length]) {
    const pieces: Uint8Array[] = [];
    for (let at = 0; at < stream.length; at += bytes) pieces.push(stream.subarray(at, at + bytes));
    const [first, second, ...last] = parse(pieces);
    assert.deepEqual([first, last], ['{"a":1}', ["[DONE]"]]);
    assert.ok(second !== undefined && typeof second !== "string");
    assert.ok(textOf(second) === long);
    assert.ok(second.length <= 8 + Math.ceil(long.length / 2 ** 20), `${second.length} blocks`);
  }
});

test("an event of several lines that is long together is bytes, too, and no half of a pair gives one away", () => {
  const lines = ["a".repeat(30), "\u{10000}0;", "b".repeat(8)];
  const bytes = encoder.encode(`${lines.map((line) => `data: ${line}\n`).join("")}\ndata: \u{10000}0;\n\n`);
  const events = parse([bytes], { longBytes: 20 });
  assert.deepEqual(events.map((event) => typeof event), ["object", "string"]);
  assert.deepEqual(events.map(textOf), [lines.join("\n"), "\u{10000}0;"]);
});

test("an endless event is refused before it fills the memory, in one line or in many", () => {
  const options = { maxEventLength: 1000, longBytes: 100 };
  for (const more of ["x".repeat(100), `${"x".repeat(200)}\ndata: `]) {
    const parser = new LongEventParser(options);
    parser.push(encoder.encode("data: "));
    assert.throws(() => {
      for (let i = 0; i < 20; i++) parser.push(encoder.encode(more));
    }, /longer than 1000 bytes/);
    assert.throws(() => parser.push(encoder.encode("\n\ndata: 1\n\n")), /longer than 1000 bytes/);
  }
  const other = new LongEventParser({ ...options, tooLong: (what) => new RangeError(what) });
  assert.throws(() => other.push(encoder.encode(`data: ${"x".repeat(1000)}`)), RangeError);
  // What is no data is not kept.
  const comment = new LongEventParser(options);
  for (let i = 0; i < 100; i++) assert.deepEqual(comment.push(encoder.encode(": ".repeat(100))), []);
});
