import assert from "node:assert/strict";
import { test } from "node:test";
import { addInt64, int64Json, parseJsonExactly, readInt64 } from "../../base/int64.ts";

const seedOf = (text: string): unknown => {
  const body = parseJsonExactly(`{"seed":${text},"other":1}`, ["seed"]);
  return typeof body === "object" && body !== null && "seed" in body ? body.seed : undefined;
};

test("whole numbers of 64 bits come through JSON digit by digit", () => {
  for (
    const text of ["0", "-7", "9007199254740991", "9007199254740993", "9223372036854775807", `-${2n ** 63n}`]
  ) {
    const value = readInt64(seedOf(text));
    assert.equal(String(value), text);
    assert.equal(JSON.stringify({ seed: int64Json(value ?? 0) }), `{"seed":${text}}`);
  }
});

test("what is no whole number of 64 bits is none", () => {
  for (const text of ["9223372036854775808", "1e300", "0.5", '"7"', "null", "[9007199254740993]", "1e17"]) {
    assert.equal(readInt64(seedOf(text)), undefined, text);
  }
});

test("other members are parsed as ever", () => {
  assert.deepEqual(parseJsonExactly('{"n":9007199254740993,"seed":1}', ["seed"]), { n: 2 ** 53, seed: 1 });
  assert.deepEqual(parseJsonExactly('{"a":[{"seed":9007199254740992}],"seed":5}', ["sampling_seed"]), {
    a: [{ seed: 2 ** 53 }],
    seed: 5,
  });
});

test("sums begin anew at the other end of the range", () => {
  assert.equal(addInt64(40, 2), 42);
  assert.equal(addInt64(2 ** 53 - 1, 2), 2n ** 53n + 1n);
  assert.equal(addInt64(2n ** 63n - 1n, 1), -(2n ** 63n));
});
