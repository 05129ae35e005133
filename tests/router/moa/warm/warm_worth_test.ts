import assert from "node:assert/strict";
import { test } from "node:test";
import { VirtualClock } from "../../../../base/clock.ts";
import { WarmWorth } from "../../../../router/moa/warm/warm_worth.ts";

/** Streams of 10 ms a token beside warms that cost `tollMs` a token: every other window of 16 tokens has one of 20. */
function tolled(worth: WarmWorth, tollMs: number): void {
  const quiet = { tokens: 16, ms: 160, warmed: 0 };
  const busy = { tokens: 16, ms: 160 + 20 * tollMs, warmed: 20 };
  for (let pair = 0; pair < 20; pair++) {
    worth.toll.note(quiet, busy);
    worth.toll.note(busy, quiet);
  }
}

/** Plays runs of one reader each; returns what was said for each of them. */
function play(worth: WarmWorth, runs: number, { warmMs, coldMs }: { warmMs: number; coldMs: number }) {
  return Array.from({ length: runs }, () => {
    const said = worth.begin();
    const held = said !== undefined;
    worth.answered({
      held,
      promptTokens: 500,
      firstTokenMs: held ? coldMs : warmMs,
      delayingTokens: held ? 0 : 400,
    });
    return said;
  });
}

test("Warms that cost streams nothing are never asked about, however little they save", () => {
  const worth = new WarmWorth(new VirtualClock());
  tolled(worth, 0.01);
  assert.deepEqual(play(worth, 30, { warmMs: 50, coldMs: 50 }), Array(30).fill(undefined));
});

test("Warms that cost as much as they save are held back, with both figures, and tried again later", async () => {
  const clock = new VirtualClock();
  const worth = new WarmWorth(clock);
  tolled(worth, 1);
  const said = play(worth, 12, { warmMs: 50, coldMs: 450 });
  assert.deepEqual(said.slice(0, 4).map((one) => one?.["reason"]), [
    undefined,
    "left cold to compare with",
    undefined,
    "left cold to compare with",
  ]);
  for (const one of said.slice(4)) {
    assert.deepEqual(one, {
      for: "precursors",
      reason: "warms cost the precursors what they save",
      cost_ms: 400,
      gain_ms: 400,
    });
  }
  await clock.advance(clock.now() + 120_000);
  assert.ok(play(worth, 8, { warmMs: 50, coldMs: 450 }).every((one) => one !== undefined), "so few prompts");
  const again = play(worth, 12, { warmMs: 50, coldMs: 450 });
  assert.deepEqual(again.slice(0, 2), [undefined, undefined], "what is cold is known");
  assert.ok(again.slice(2).every((one) => one !== undefined));
  play(worth, 20, { warmMs: 50, coldMs: 450 });
  await clock.advance(clock.now() + 120_000);
  assert.notEqual(worth.begin(), undefined, "twice as long");
  await clock.advance(clock.now() + 120_000);
  assert.equal(worth.begin(), undefined);
});

test("Warms that cost much and save more go on, and are not asked about again for ten minutes", async () => {
  const clock = new VirtualClock();
  const worth = new WarmWorth(clock);
  tolled(worth, 1);
  const times = { warmMs: 50, coldMs: 1050 };
  const said = play(worth, 30, times);
  assert.deepEqual(said.flatMap((one, at) => one === undefined ? [] : [at]), [1, 3]);
  await clock.advance(600_000);
  assert.equal(play(worth, 30, times).filter((one) => one !== undefined).length, 2);
});
