import assert from "node:assert/strict";
import { test } from "node:test";
import { VirtualClock } from "../../../../base/clock.ts";
import { WarmControl } from "../../../../router/moa/warm/warm_control.ts";
import { FakePrompts } from "./fake_prompts.ts";

const warm = (newTokens: number, ms: number, againTokens = 0) => ({ newTokens, againTokens, ms });
const prompt = (warmedTokens: number, cachedTokens: number | undefined, firstTokenMs = 10) => ({
  promptTokens: 1000,
  warmedTokens,
  cachedTokens,
  firstTokenMs,
});

test("A warm that takes much longer than usual makes a pause, and the next one a longer pause", async () => {
  const clock = new VirtualClock();
  const control = new WarmControl(clock, new FakePrompts());
  for (let i = 0; i < 5; i++) assert.equal(control.warmed("w", warm(16, 10)), 0);
  assert.equal(control.warmed("w", warm(256, 60)), 0);
  assert.equal(control.turns.pausedMs("w"), 0);
  assert.equal(control.warmed("w", warm(256, 500)), 500);
  assert.equal(control.warmed("w", warm(256, 500)), 1000);
  assert.equal(control.turns.pausedMs("w"), 1000);
  assert.equal(control.turns.pausedMs("other"), 0);
  await clock.advance(1001);
  assert.equal(control.turns.pausedMs("w"), 0);
  assert.equal(control.warmed("w", warm(16, 10)), 0);
  assert.equal(control.warmed("w", warm(256, 600)), 600);
});

test("A load that lasts is not taken for what is usual, until minutes have passed", async () => {
  const clock = new VirtualClock();
  const control = new WarmControl(clock, new FakePrompts());
  assert.equal(control.warmed("w", warm(256, 30)), 0);
  assert.equal(control.warmed("w", warm(16, 10)), 0);
  for (let i = 0; i < 200; i++) assert.ok(control.warmed("w", warm(16, 100)) > 0, `warm ${i}`);
  await clock.advance(clock.now() + 700_000);
  control.warmed("w", warm(16, 100));
  await clock.advance(clock.now() + 700_000);
  control.warmed("w", warm(16, 100));
  assert.equal(control.warmed("w", warm(16, 100)), 0, "the server has become slower for good");
});

test("Tokens that a warm has to compute again mean that the cache is full: a pause that doubles", () => {
  const control = new WarmControl(new VirtualClock(), new FakePrompts());
  assert.equal(control.warmed("w", warm(116, 10, 100)), 1000);
  assert.equal(control.warmed("w", warm(116, 10, 100)), 2000);
  assert.equal(control.warmed("w", warm(16, 10)), 0);
  assert.equal(control.warmed("w", warm(116, 10, 100)), 1000);
});

test("The size of a warm follows what the engine's own warms took, and how many streams it stops", () => {
  const control = new WarmControl(new VirtualClock(), new FakePrompts());
  assert.equal(control.tokensWithin(100), 256);
  assert.equal(control.worthwhile(4000, 1), 256);
  control.warmed("w", warm(16, 20));
  control.warmed("w", warm(1000, 120));
  assert.equal(control.tokensWithin(100), 800);
  assert.equal(control.worthwhile(100, 1), 400, "twice what it costs");
  assert.equal(control.worthwhile(100, 10), 4000, "twice what it costs ten streams");
  assert.equal(control.worthwhile(20_000, 1), 2000, "the square root of 20,000 times 200");
  assert.equal(control.tokensWithin(10), 0);
});

test("Warmed tokens that are not found in the cache switch warming off for a minute", async () => {
  const clock = new VirtualClock();
  const control = new WarmControl(clock, new FakePrompts());
  for (let i = 0; i < 20; i++) control.answered(prompt(900, 900));
  assert.equal(control.off, undefined);
  for (let i = 0; i < 20; i++) control.answered(prompt(900, 0));
  assert.equal(control.off?.["reason"], "warmed tokens are not found in the cache");
  assert.ok(Number(control.off?.["cached_share"]) < 0.5);
  await clock.advance(clock.now() + 60_000);
  assert.equal(control.off, undefined);
  control.answered(prompt(900, 0));
  assert.equal(control.off, undefined, "one prompt is no verdict");
});

test("Where the engine does not say what it found, some prompts stay cold to compare with", () => {
  const taken = (reports: boolean) => {
    const control = new WarmControl(new VirtualClock(), new FakePrompts());
    return Array.from({ length: 100 }, (_, index) => control.takeControl(reports) ? index : -1)
      .filter((index) => index >= 0);
  };
  assert.deepEqual(taken(true), []);
  assert.deepEqual(taken(false), [1, 4, 8, 15, 32, 64, 96]);
  for (const [warmMs, off] of [[100, true], [20, false]] as const) {
    const control = new WarmControl(new VirtualClock(), new FakePrompts());
    for (let i = 0; i < 3; i++) control.answered(prompt(0, undefined, 100));
    for (let i = 0; i < 8; i++) control.answered(prompt(900, undefined, warmMs));
    assert.equal(control.off?.["reason"], off ? "warmed prompts do not start sooner" : undefined);
  }
});

test("Failures in a row switch warming off, others do not", () => {
  const control = new WarmControl(new VirtualClock(), new FakePrompts());
  for (let i = 0; i < 10; i++) {
    control.failed();
    control.warmed("w", warm(16, 10));
  }
  assert.equal(control.off, undefined);
  for (let i = 0; i < 4; i++) control.failed();
  assert.deepEqual(control.off, { reason: "warms fail", failures: 4 });
});
