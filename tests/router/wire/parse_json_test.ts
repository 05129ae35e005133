import assert from "node:assert/strict";
import { test } from "node:test";
import { anyCharacter, fc, often } from "../../properties.ts";
import { CanopyError } from "../../../base/errors.ts";
import { readInt64 } from "../../../base/int64.ts";
import { atOnce } from "../../../base/turns.ts";
import { findJsonFault, JsonFault } from "../../../router/wire/json_scan.ts";
import { parseJsonInTurns, TURN_BYTES, type TurnsOptions } from "../../../router/wire/parse_json.ts";

const encode = (text: string) => new TextEncoder().encode(text);
const parse = (text: string | Uint8Array, options: Partial<TurnsOptions> = {}) =>
  atOnce(parseJsonInTurns(typeof text === "string" ? encode(text) : text, { exact: [], ...options }));
const small = fc.record({
  batchBytes: fc.integer({ min: 1, max: 24 }),
  turnBytes: fc.integer({ min: 1, max: 24 }),
});

/** Depth is kept below the bound on large lists and objects in each other. */
const json = fc.oneof(
  fc.json({ maxDepth: 6 }),
  fc.jsonValue({ maxDepth: 4 }).map((value) => JSON.stringify(value, undefined, " \n")),
  fc.array(fc.record({ role: fc.constant("user"), content: fc.string({ unit: anyCharacter }) })).map((
    turns,
  ) => JSON.stringify(turns)),
);

test("parsed in turns, JSON is what JSON.parse makes of it, in whatever batches", () => {
  fc.assert(
    fc.property(json, small, (text, options) => assert.deepEqual(parse(text, options), JSON.parse(text))),
    { numRuns: often(300) },
  );
});

test("a fault is found where it is found at once, in whatever batches", () => {
  const marks = fc.constantFrom("", '"', ",", "{", "]", ":", "1", "\\", "\n", "e", "-", ".");
  const damaged = fc.tuple(json, fc.nat(), marks).map(([text, at, mark]) => {
    const position = at % (text.length + 1);
    // As the bytes say it: half a surrogate pair is none.
    return new TextDecoder().decode(encode(text.slice(0, position) + mark + text.slice(position + (at % 2))));
  });
  fc.assert(
    fc.property(damaged, small, (text, options) => {
      const expected = findJsonFault(encode(text));
      try {
        assert.deepEqual(parse(text, options), JSON.parse(text));
        assert.equal(expected, undefined);
      } catch (error) {
        if (!(error instanceof JsonFault)) throw error;
        assert.equal(error.at, expected?.at, text);
      }
    }),
    { numRuns: often(300) },
  );
});

test("no turn reads more than a few hundred kilobytes, whatever is large", () => {
  const texts = [
    JSON.stringify({ content: "word ".repeat(400_000) }),
    JSON.stringify({ content: "\u4e16\n".repeat(400_000) }),
    JSON.stringify(Array.from({ length: 60_000 }, () => ({ role: "user", content: "hi" }))),
    JSON.stringify({ prompt: Array.from({ length: 400_000 }, (_, at) => at) }),
    JSON.stringify(Object.fromEntries(Array.from({ length: 60_000 }, (_, at) => [`name of ${at}`, { at }]))),
    JSON.stringify({ ["name ".repeat(400_000)]: 1 }),
  ];
  for (const text of texts) {
    const bytes = encode(text);
    let turns = 1;
    const work = parseJsonInTurns(bytes, { exact: [] });
    let step = work.next();
    for (; step.done !== true; step = work.next()) turns++;
    assert.deepEqual(step.value, JSON.parse(text));
    assert.ok(turns >= bytes.length / (TURN_BYTES * 1.5), `${turns} turns for ${bytes.length} bytes`);
  }
});

test("a long body that is no UTF-8 is a TypeError, a mark at its beginning is skipped, __proto__ is a member", () => {
  const bytes = encode(`{"a":"${"x".repeat(200_000)}"}`);
  bytes[100_000] = 0xff;
  assert.throws(() => parse(bytes), TypeError);
  assert.deepEqual(parse('\ufeff{"a":[1]}', { batchBytes: 2 }), { a: [1] });
  const parsed = parse('{"__proto__":{"a":1},"b":2}', { batchBytes: 2 }) as object;
  assert.deepEqual(Object.keys(parsed), ["__proto__", "b"]);
});

test("what nests deeper than anybody needs is refused, and seeds of 64 bits stay exact", () => {
  assert.throws(() => parse("[".repeat(1_000_000)), (error) => CanopyError.is(error) && error.status === 400);
  const text = `{"seed":9007199254740993,"prompt":"${"x".repeat(200_000)}"}`;
  const { seed } = parse(text, { exact: ["seed"] }) as { seed: unknown };
  assert.equal(readInt64(seed), 9007199254740993n);
});
