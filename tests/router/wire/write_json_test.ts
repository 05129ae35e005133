import assert from "node:assert/strict";
import { test } from "node:test";
import { int64Json } from "../../../base/int64.ts";
import type { JsonObject } from "../../../base/json.ts";
import { hasManyIds, writeInTurns } from "../../../router/wire/write_json.ts";

const ids = (count: number) => Array.from({ length: count }, (_, at) => at % 150_000);

function written(body: JsonObject): { text: string; turns: number } {
  const work = writeInTurns(body);
  let turns = 1;
  let step = work.next();
  for (; step.done !== true; step = work.next()) turns++;
  return { text: new TextDecoder().decode(step.value), turns };
}

test("a body of many token ids is written in turns, as JSON.stringify writes it", () => {
  for (const count of [65_537, 131_072, 1_000_000]) {
    const bodies: JsonObject[] = [
      { input_ids: ids(count) },
      { model: 'm \u4e16"', prompt: ids(count), seed: int64Json(9007199254740993n), none: null, list: [] },
      { a: ids(count), b: ids(count), c: { d: [1] } },
    ];
    for (const body of bodies) {
      const { text, turns } = written(body);
      assert.ok(text === JSON.stringify(body), `${count} ids`);
      assert.ok(turns > count / 65_536, `${turns} turns for ${count} ids`);
    }
  }
});

test("only lists of many numbers are written so", () => {
  assert.ok(hasManyIds({ model: "m", prompt: ids(100_000) }));
  assert.ok(!hasManyIds({ model: "m", prompt: ids(1000) }));
  assert.ok(!hasManyIds({ messages: ids(100_000).map(String), prompt: "text" }));
  assert.equal(written({}).text, "{}");
});
