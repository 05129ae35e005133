import assert from "node:assert/strict";
import { test } from "node:test";
import {
  closeValues,
  equalValues,
  isFloats,
  type PythonValue,
} from "../../../../bench/grading/programs/python_value.ts";

const int = (digits: number | string): PythonValue => ["int", String(digits)];
const float = (digits: string): PythonValue => ["float", digits];
const list = (...parts: PythonValue[]): PythonValue => ["list", parts];

test("Values are equal as in Python: numbers of all kinds by value, lists and tuples not, sets and dicts in any order", () => {
  const equal: readonly (readonly [PythonValue, PythonValue])[] = [
    [int(1), float("1.0")],
    [["bool", "1"], int(1)],
    [float("-0.0"), int(0)],
    [float("1e+23"), int("99999999999999991611392")],
    [float("inf"), float("inf")],
    [list(int(1), ["str", "a"]), list(["bool", "1"], ["str", "a"])],
    [["set", [int(1), int(2)]], ["set", [int(2), float("1.0")]]],
    [["dict", [[int(1), ["none"]], [int(2), int(3)]]], ["dict", [[int(2), int(3)], [int(1), ["none"]]]]],
    [["tuple", []], ["tuple", []]],
  ];
  for (const [a, b] of equal) assert.ok(equalValues(a, b) && equalValues(b, a), JSON.stringify([a, b]));
  const different: readonly (readonly [PythonValue, PythonValue])[] = [
    [int("9007199254740993"), float("9007199254740992.0")],
    [int(1), ["str", "1"]],
    [list(int(1)), ["tuple", [int(1)]]],
    [list(int(1)), list(int(1), int(1))],
    [float("nan"), float("nan")],
    [["none"], int(0)],
    [["other", "A"], ["other", "A"]],
    [["str", "a"], ["long", "a"]],
    [["dict", [[int(1), int(1)]]], ["dict", [[int(1), int(2)]]]],
    [["set", [int(1)]], list(int(1))],
  ];
  for (const [a, b] of different) assert.ok(!equalValues(a, b) && !equalValues(b, a), JSON.stringify([a, b]));
});

test("Numbers may be as far apart as EvalPlus lets them, of the same kind and length only", () => {
  assert.ok(closeValues(float("0.3000001"), float("0.3"), 1e-6));
  assert.ok(!closeValues(float("0.300002"), float("0.3"), 1e-6));
  assert.ok(!closeValues(int(1), float("1.0000001"), 1e-6), "an int is no float");
  assert.ok(closeValues(list(float("2.0"), int(3)), list(float("2.0000001"), float("3.0")), 1e-6));
  assert.ok(!closeValues(list(float("2.0")), list(float("2.0"), float("2.0")), 1e-6));
  assert.ok(!closeValues(float("nan"), float("nan"), 1e-6));
  assert.ok(!closeValues(["str", "a"], ["str", "b"], 1e-6));
  assert.ok(isFloats(float("1.5")) && isFloats(list(float("1.0"))) && !isFloats(list()) && !isFloats(int(1)));
});
