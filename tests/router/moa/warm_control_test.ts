import assert from "node:assert/strict";
import { test } from "node:test";
import { VirtualClock } from "../../../base/clock.ts";
import { WarmControl } from "../../../router/moa/warm_control.ts";

test("when long warms take no longer than short ones, warms are still of a finite number of tokens", () => {
  const control = new WarmControl(new VirtualClock());
  const sample = { againTokens: 0 };
  control.warmed("w", { ...sample, newTokens: 32, ms: 12 });
  control.warmed("w", { ...sample, newTokens: 96, ms: 12 });
  for (const tokens of [control.tokensWithin(100), control.worthwhile(0), control.worthwhile(500)]) {
    assert.ok(Number.isFinite(tokens), `${tokens}`);
  }
  assert.ok(control.tokensWithin(100) > 100_000);
});
