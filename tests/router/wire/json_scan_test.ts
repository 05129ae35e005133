import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "../../properties.ts";
import { findJsonFault } from "../../../router/wire/json_scan.ts";

const encode = (text: string) => new TextEncoder().encode(text);

test("findJsonFault agrees with JSON.parse on damaged JSON", () => {
  const damaged = fc.tuple(
    fc.json(),
    fc.nat(),
    fc.constantFrom("", '"', ",", "{", "]", ":", "1", "\\", "\n", "e", "-", "."),
  )
    .map(([text, at, mark]) => {
      const position = at % (text.length + 1);
      return text.slice(0, position) + mark + text.slice(position + (at % 2));
    });
  fc.assert(
    fc.property(fc.oneof(damaged, fc.string(), fc.json()), (text) => {
      let valid = true;
      try {
        JSON.parse(text);
      } catch {
        valid = false;
      }
      const bytes = encode(text);
      const fault = findJsonFault(bytes);
      assert.equal(fault === undefined, valid, text);
      if (fault !== undefined) assert.ok(fault.at >= 0 && fault.at <= bytes.length);
    }),
    { numRuns: 2000 },
  );
});

test("a fault names its byte and what could stand there", () => {
  const cases: [string, number, string][] = [
    ["", 0, "a value"],
    ["-", 0, "a value"],
    ["1.", 1, "the end"],
    ["1e+", 1, "the end"],
    ["[1.x]", 2, '"," or "]"'],
    ["tru", 0, "a value"],
    ['{"a":1,}', 7, "a property name in double quotes"],
    ['["\\u12g4"]', 2, "a string that is closed, with line breaks and quotes escaped"],
  ];
  for (const [text, at, expected] of cases) {
    const fault = findJsonFault(encode(text));
    assert.deepEqual({ at: fault?.at, expected: fault?.expected }, { at, expected }, text);
  }
});
