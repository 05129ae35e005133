import assert from "node:assert/strict";
import { test } from "node:test";
import { VirtualClock } from "../../../../base/clock.ts";
import { Random } from "../../../../base/random.ts";
import { TolledStream, WarmToll } from "../../../../router/moa/warm/warm_toll.ts";

/**
 * Streams that write a token a step beside a warm of 20 tokens every 24 steps on average; `stepMs` is that of a step
 * without a warm, in which each warmed token takes `tollMs` more.
 */
async function streams(
  seed: string,
  { tollMs, stepMs }: { readonly tollMs: number; readonly stepMs: (random: Random, step: number) => number },
): Promise<{ readonly toll: WarmToll; readonly last: TolledStream }> {
  const random = new Random(seed);
  const clock = new VirtualClock();
  const toll = new WarmToll();
  let warmed = 0;
  const make = () => new TolledStream(clock, toll, () => warmed);
  let last = make();
  for (let run = 0; run < 24; run++) {
    const several = [make(), make(), make()];
    for (let step = 0; step < 200; step++) {
      const tokens = random.int(24) === 0 ? 20 : 0;
      await clock.advance(clock.now() + stepMs(random, step) + tokens * tollMs);
      warmed += tokens;
      for (const stream of several) stream.wrote(1, "w");
    }
    for (const stream of several) stream.end();
    last = several[0]!;
  }
  return { toll, last };
}

const noisy = (random: Random) => 6 + Math.abs(random.normal()) + (random.int(100) === 0 ? 60 : 0);

for (const seed of ["a", "b", "c"]) {
  test(`What warms take from the streams beside them is found in their pace (seed ${seed})`, async () => {
    const { toll } = await streams(seed, { tollMs: 1, stepMs: noisy });
    assert.ok(Math.abs(toll.msPerToken - 1) < 0.3, `${toll.msPerToken} ms`);
    assert.ok(toll.share > 0.07 && toll.share < 0.13, `${toll.share}`);
  });

  test(`A pace that varies by itself is no toll (seed ${seed})`, async () => {
    for (const stepMs of [noisy, (random: Random, step: number) => noisy(random) * (step < 100 ? 1 : 3)]) {
      const { toll } = await streams(seed, { tollMs: 0, stepMs });
      assert.ok(toll.share < 0.05, `${toll.share}`);
    }
  });
}

test("A stream counts the tokens that warms computed on its worker from its first token there to its last one", async () => {
  const clock = new VirtualClock();
  const warmed: Record<string, number> = { a: 100, b: 7 };
  const stream = new TolledStream(clock, new WarmToll(), (worker) => warmed[worker] ?? 0);
  assert.equal(stream.warmedMeanwhile, 0);
  stream.wrote(1, "a");
  warmed["a"] = 130;
  assert.equal(stream.warmedMeanwhile, 0);
  stream.wrote(1, "a");
  warmed["a"] = 200;
  assert.equal(stream.warmedMeanwhile, 30);
  await clock.advance(5);
  stream.wrote(1, "b");
  assert.deepEqual([stream.worker, stream.lastMs, stream.warmedMeanwhile], ["b", 5, 0]);
});
