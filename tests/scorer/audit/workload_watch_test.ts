import assert from "node:assert/strict";
import { test } from "node:test";
import { Random } from "../../../base/random.ts";
import { WorkloadWatch } from "../../../scorer/audit/workload_watch.ts";

/** Votes after which a run agrees: 3 to 9, and never; later where it is harder. */
function votesOf(random: Random, never: number): number {
  if (random.next() < never) return Infinity;
  return 3 + Math.min(random.int(7), random.int(7));
}

/** Runs until it says that they differ; Infinity when it does not after so many. */
function until(watch: WorkloadWatch, most: number, random: Random, never: number): number {
  for (let runs = 1; runs <= most; runs++) {
    if (watch.differs(votesOf(random, never), random.next())) return runs;
  }
  return Infinity;
}

test("runs that stay as they are are taken for others at most once in ten thousand, with known ones or without", () => {
  const random = new Random("as they are");
  let alarms = 0;
  const services = 20;
  for (let service = 0; service < services; service++) {
    const known = new Map<number, number>();
    for (let run = 0; run < 150 && service % 2 === 0; run++) {
      const votes = votesOf(random, 0.2);
      known.set(votes, (known.get(votes) ?? 0) + 1);
    }
    const watch = new WorkloadWatch(known);
    for (let run = 0; run < 10_000; run++) if (watch.differs(votesOf(random, 0.2), random.next())) alarms++;
  }
  assert.ok(alarms <= services, `${alarms}`);
});

test("runs that agree later, or sooner, are noticed after a few dozen, however many there were before", () => {
  for (const before of [200, 20_000]) {
    for (const never of [0.6, 0]) {
      const taken = Array.from({ length: 20 }, (_, service) => {
        const random = new Random(`${before}/${never}/${service}`);
        const watch = new WorkloadWatch();
        until(watch, before, random, 0.25);
        return until(watch, 1_000, random, never);
      }).sort((a, b) => a - b);
      assert.ok(taken[10]! < (never > 0.25 ? 80 : 150), `${before} ${never}: median ${taken[10]}`);
    }
  }
});

test("after that it learns what is usual now", () => {
  const random = new Random("now");
  const watch = new WorkloadWatch([[3, 200], [4, 100], [Infinity, 20]]);
  assert.ok(until(watch, 500, random, 0.7) < 100);
  assert.equal(until(watch, 5_000, random, 0.7), Infinity);
});
