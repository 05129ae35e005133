import assert from "node:assert/strict";
import { test } from "node:test";
import { MinuteWindow } from "../../../router/shared/minute_window.ts";
import { fc, often } from "../../properties.ts";

const START_MS = 1_700_000_000_123;

test("whoever asks, in whatever order, never do 60 seconds hold more than the limit, and whoever waits as told is let in", () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 5 }),
      fc.array(fc.record({ afterMs: fc.nat(25_000), thread: fc.nat(2), waits: fc.boolean() }), {
        maxLength: 60,
      }),
      (limit, steps) => {
        const cells = new BigInt64Array(new SharedArrayBuffer(8 * MinuteWindow.cells));
        const threads = [0, 1, 2].map(() => new MinuteWindow(cells));
        const admitted: number[] = [];
        let nowMs = START_MS;
        for (const { afterMs, thread, waits } of steps) {
          const window = threads[thread]!;
          const waitMs = waits ? window.waitMs(limit, nowMs) : afterMs;
          nowMs += waitMs;
          const isIn = window.tryAdd(limit, nowMs);
          if (waits) assert.ok(isIn, `after ${waitMs} ms`);
          if (isIn) admitted.push(nowMs);
          assert.ok(admitted.filter((at) => at > nowMs - 60_000).length <= limit);
          // A second at most is lost to the cells.
          if (!isIn) assert.ok(admitted.filter((at) => at > nowMs - 61_000).length >= limit);
        }
      },
    ),
    { numRuns: often(60) },
  );
});

/** A window that lets other threads in whenever it has looked at its cells. */
class InterruptedWindow extends MinuteWindow {
  readonly #interrupt: () => void;

  constructor(cells: BigInt64Array, interrupt: () => void) {
    super(cells);
    this.#interrupt = interrupt;
  }

  override count(nowMs: number): number {
    const found = super.count(nowMs);
    this.#interrupt();
    return found;
  }
}

test("threads that come between another one's looks and its adding get in no more than the limit together", () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 4 }),
      fc.array(fc.boolean(), { minLength: 1, maxLength: 40 }),
      (limit, schedule) => {
        const cells = new BigInt64Array(MinuteWindow.cells);
        let admitted = 0;
        let step = 0;
        const ask = () => {
          const window = new InterruptedWindow(cells, () => {
            if (schedule[step++] === true) ask();
          });
          if (window.tryAdd(limit, START_MS)) admitted++;
        };
        while (step < schedule.length) ask();
        assert.ok(admitted <= limit, `${admitted} of ${limit}`);
        assert.equal(new MinuteWindow(cells).count(START_MS), admitted);
      },
    ),
    { numRuns: often(100) },
  );
});

test("amounts count for a minute; the wait is until enough of them are past", () => {
  const window = new MinuteWindow();
  window.add(70, 1_000_000);
  window.add(50, 1_030_500);
  assert.equal(window.count(1_031_000), 120);
  assert.equal(window.waitMs(121, 1_031_000), 0);
  assert.equal(window.waitMs(120, 1_031_000), 30_000);
  assert.equal(window.waitMs(1, 1_031_000), 60_000);
  assert.equal(window.count(1_060_999), 120);
  assert.equal(window.count(1_061_000), 50);
  assert.equal(window.count(1_091_000), 0);
});
