import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "../../properties.ts";
import { VirtualClock } from "../../../base/clock.ts";
import type { PlannedEngine } from "../../../launcher/plan/launch_plan.ts";
import { StartGate } from "../../../launcher/supervise/start_gate.ts";
import { plannedEngine } from "../fake_processes.ts";

test("engines that share a GPU never start together nor out of order, memory is kept, and all get their turn", async () => {
  const engineOf = fc.record({
    gpus: fc.uniqueArray(fc.nat(3), { maxLength: 3 }),
    weightBytes: fc.integer({ min: 0, max: 100 }),
    takesMs: fc.integer({ min: 1, max: 50 }),
    /** Some are given up while they wait. */
    leavesAtMs: fc.option(fc.integer({ min: 0, max: 60 }), { freq: 4, nil: undefined }),
  });
  await fc.assert(
    fc.asyncProperty(
      fc.array(engineOf, { maxLength: 8 }),
      fc.integer({ min: 0, max: 150 }),
      async (specs, freeBytes) => {
        const clock = new VirtualClock();
        const gate = new StartGate(() => freeBytes);
        const starting = new Set<PlannedEngine>();
        const started: PlannedEngine[] = [];
        let left = 0;
        const engines = specs.map(({ gpus, weightBytes }, n): PlannedEngine => ({
          ...plannedEngine(`e${n}`, n, { gpus }),
          shape: {
            model: "m",
            weightBytes,
            kvBytesPerToken: 1,
            layers: 1,
            hiddenSize: 1,
            attentionHeads: 1,
            kvHeads: 1,
            vocabSize: 1,
            weightType: "bf16",
            maxContextTokens: 1,
            source: "test",
          },
        }));
        const weights = (all: Iterable<PlannedEngine>) =>
          [...all].reduce((sum, one) => sum + (one.shape?.weightBytes ?? 0), 0);
        await clock.run(() =>
          Promise.all(engines.map(async (engine, n) => {
            const spec = specs[n]!;
            const leave = new AbortController();
            if (spec.leavesAtMs !== undefined) void clock.sleep(spec.leavesAtMs).then(() => leave.abort());
            try {
              await gate.enter(engine, leave.signal);
            } catch {
              left++;
              return;
            }
            for (const other of starting) {
              assert.ok(
                engine.gpus.every((gpu) => !other.gpus.some(({ id }) => id === gpu.id)),
                "a GPU is shared",
              );
            }
            for (const other of started) {
              const shared = engine.gpus.some((gpu) => other.gpus.some(({ id }) => id === gpu.id));
              assert.ok(!shared || engines.indexOf(other) < n, "out of order");
            }
            starting.add(engine);
            started.push(engine);
            assert.ok(
              starting.size === 1 || weights(starting) <= freeBytes || weights(starting) === 0,
              "too much at once",
            );
            await clock.sleep(spec.takesMs);
            starting.delete(engine);
            gate.leave(engine);
          }))
        );
        assert.equal(started.length + left, engines.length);
      },
    ),
    { numRuns: 150 },
  );
});
