import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "../../properties.ts";
import { leastInFlight } from "../../../router/pool/policies/least_in_flight.ts";
import { roundRobin } from "../../../router/pool/policies/round_robin.ts";

const candidateLists = fc.uniqueArray(fc.nat(30), { minLength: 1, maxLength: 8 }).chain((ordinals) =>
  fc.tuple(
    ...ordinals.sort((a, b) => a - b).map((ordinal) =>
      fc.record({ ordinal: fc.constant(ordinal), inFlight: fc.nat(3) })
    ),
  )
);

test("round robin takes each of n candidates once in n turns, wherever it starts", () => {
  fc.assert(fc.property(candidateLists, fc.integer({ min: -1, max: 31 }), (candidates, start) => {
    const chosen = new Set<number>();
    let last = start;
    for (let i = 0; i < candidates.length; i++) {
      last = roundRobin(candidates, last).ordinal;
      chosen.add(last);
    }
    assert.equal(chosen.size, candidates.length);
  }));
});

test("least in flight never passes over a candidate with less to do", () => {
  fc.assert(fc.property(candidateLists, fc.integer({ min: -1, max: 31 }), (candidates, last) => {
    const chosen = leastInFlight(candidates, last);
    assert.equal(chosen.inFlight, Math.min(...candidates.map((candidate) => candidate.inFlight)));
  }));
});

test("among equally idle candidates least in flight goes round: none starves", () => {
  const candidates = [0, 1, 2].map((ordinal) => ({ ordinal, inFlight: 0 }));
  let last = 1;
  const order = Array.from({ length: 6 }, () => last = leastInFlight(candidates, last).ordinal);
  assert.deepEqual(order, [2, 0, 1, 2, 0, 1]);
});

test("an empty list of candidates is an error of the caller", () => {
  assert.throws(() => roundRobin([], 0), RangeError);
});
