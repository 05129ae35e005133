import assert from "node:assert/strict";
import { test } from "node:test";
import { fc, often } from "../../properties.ts";
import { findJsonFault, findValue } from "../../../router/wire/json_scan.ts";

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
    { numRuns: often(600) },
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

test("a value is found by its name without a look at what is behind it, and broken JSON has none", () => {
  const encode = (text: string) => new TextEncoder().encode(text);
  const names = ["messages", "prompt"].map(encode);
  const find = (text: string) => {
    const at = findValue(encode(text), names);
    return at === undefined ? undefined : text.slice(at);
  };
  assert.equal(find('{"model":"m", "prompt" : "Hi", broken'), '"Hi", broken');
  assert.equal(find(' {"tools":[{"prompt":1}],"messages":[]}'), "[]}");
  assert.equal(find('{"pro\\u006dpt":1}'), "1}");
  for (
    const text of [
      "",
      "[]",
      "{}",
      '{"model":1}',
      '{"model":tru,"prompt":1}',
      '{"prompt"',
      '{"a":1 "prompt":2}',
    ]
  ) {
    assert.equal(find(text), undefined, text);
  }
});
