import assert from "node:assert/strict";
import { test } from "node:test";
import { often } from "../properties.ts";
import { playSeeds } from "./play.ts";

const SEEDS = often(15);

test(`${SEEDS} seeds of faults at random moments: nothing savable is lost, no answer differs, nothing is left`, async () => {
  assert.deepEqual(await playSeeds({ from: 0, seeds: SEEDS }), []);
});

/** Seeds that found something. */
const FOUND = [38, 390, 458, 598, 634, 1013, 1215, 1491, 1689];

test("seeds that once failed do not", async () => {
  const failures: string[] = [];
  for (const seed of FOUND) failures.push(...await playSeeds({ from: seed, seeds: 1 }));
  assert.deepEqual(failures, []);
});
