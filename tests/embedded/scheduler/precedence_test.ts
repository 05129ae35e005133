import assert from "node:assert/strict";
import { test } from "node:test";
import { Precedence } from "../../../embedded/scheduler/precedence.ts";

test("each model is told of the others' most urgent priority when it changes, and never of its own", () => {
  const precedence = new Precedence();
  const told: (readonly [model: string, limit: number | undefined])[] = [];
  const [s, m, l] = ["s", "m", "l"].map((model) => precedence.join((limit) => told.push([model, limit])));
  const since = () => told.splice(0);
  s!.add(0);
  m!.add(10);
  assert.deepEqual(since(), [], "nothing is urgent");
  l!.add(-1);
  l!.add(-1);
  assert.deepEqual(since(), [["s", -1], ["m", -1]]);
  l!.add(-2);
  assert.deepEqual(since(), [["s", -2], ["m", -2]]);
  m!.add(-1);
  assert.deepEqual(since(), [["l", -1]]);
  l!.remove(-2);
  assert.deepEqual(since(), [["s", -1], ["m", -1]]);
  l!.remove(-1);
  l!.remove(-1);
  assert.deepEqual(since(), [["m", undefined]], "s still has m's before it");
  m!.remove(-1);
  m!.remove(10);
  assert.deepEqual(since(), [["s", undefined], ["l", undefined]]);
});
