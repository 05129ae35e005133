import assert from "node:assert/strict";
import process from "node:process";
import { test } from "node:test";
import { Random } from "../../../base/random.ts";
import type { ParsedState } from "../../../router/transport/response_parser.ts";
import { mutatedResponse, verdictOf } from "./mutated_response.ts";

/** Mutated responses; set CANOPY_FUZZ to try more. */
const COUNT = Number(process.env.CANOPY_FUZZ ?? 5_000);

test("a response means the same however it is cut into reads, and ends in one of the known ways", () => {
  const random = new Random("7");
  const seen = new Set<ParsedState>();
  for (let n = 0; n < COUNT; n++) {
    const bytes = mutatedResponse(random);
    const whole = verdictOf(bytes, []);
    const cuts = Array.from({ length: 1 + random.int(6) }, () => random.int(bytes.length + 1));
    const cut = verdictOf(bytes, cuts.sort((a, b) => a - b));
    seen.add(whole.state);
    assert.ok(whole.heads.length <= 1);
    // What is invalid may have been handed over in part before.
    if (whole.state === "invalid") {
      assert.equal(cut.state, "invalid", JSON.stringify(bytes.toString("latin1")));
    } else assert.deepEqual(cut, whole, JSON.stringify(bytes.toString("latin1")));
  }
  assert.deepEqual([...seen].sort(), ["ended", "ended_for_good", "invalid", "open"]);
});
