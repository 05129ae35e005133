import assert from "node:assert/strict";
import { test } from "node:test";
import { MetricsText } from "../../../../base/prometheus.ts";
import { Random } from "../../../../base/random.ts";
import { ExitMetrics } from "../../../../router/http/metrics/exit_metrics.ts";
import type { RunRecord } from "../../../../router/moa/record/run_record.ts";
import { often } from "../../../properties.ts";
import { consensusWorld, decisionsOf, played, solution } from "./consensus_world.ts";

test("an audited exit is held back: the whole run answers, and what it answers is compared", async () => {
  const leaf = () => ({ pieces: solution("42"), stepMs: 10 });
  for (
    const [whole, found] of [["The answer is 42.", "same"], ["The answer is 7.", "other"], ["So.", "other"]]
  ) {
    const world = consensusWorld({ consensus: { agree: 3, audit: 1 }, leaf, later: { pieces: [whole!] } });
    const { text, record } = await played(world);
    assert.equal(text, whole);
    assert.equal(record.rootSkipped, false);
    const doubt = found === "other" ? "other_answer" : undefined;
    assert.deepEqual(record.audit, { found, off: false, share: 1, doubt });
    const [decided] = decisionsOf(record).filter(({ agent }) => agent !== undefined);
    assert.deepEqual([decided!["exit"], decided!["reason"]], [false, "audit: the whole run is awaited"]);
    const audited = record.events.find(({ type }) => type === "consensus_audited")?.data;
    assert.equal(audited?.["found"], found);
    assert.match(String(audited?.["exit"]), /^42/);
  }
});

test("of a share of the exits that is audited, the seed says which", async () => {
  const outcomes = async (seed: number) => {
    const world = consensusWorld({
      consensus: { agree: 3, audit: 0.5 },
      leaf: () => ({ pieces: solution("42") }),
    });
    const { record } = await played(world, { rootSampling: { seed } });
    return record.rootSkipped;
  };
  const all = [];
  for (let seed = 0; seed < 12; seed++) {
    const skipped = await outcomes(seed);
    assert.equal(await outcomes(seed), skipped);
    all.push(skipped);
  }
  assert.deepEqual([...new Set(all)].sort(), [false, true]);
});

test("when audited exits differ too often, exits are switched off, and each run says why", async () => {
  const world = consensusWorld({
    consensus: { agree: 3, audit: 1, most_wrong: 0.1 },
    leaf: () => ({ pieces: solution("42"), stepMs: 10 }),
    later: { pieces: ["The answer is 7."] },
  });
  const records: RunRecord[] = [];
  for (let run = 0; run < 4; run++) records.push((await played(world)).record);
  assert.deepEqual(records.map(({ audit }) => audit?.off), [false, false, true, true]);
  const last = records.at(-1)!;
  assert.deepEqual(last.events.find(({ type }) => type === "consensus_off")?.data, { reason: "audit" });
  assert.deepEqual(decisionsOf(last), []);
  assert.equal(last.audit?.found, undefined);
  const metrics = new ExitMetrics();
  const other = new ExitMetrics();
  metrics.add("g", records[0]!);
  other.add("g", last);
  metrics.absorb(other.values());
  const text = new MetricsText();
  metrics.write(text);
  assert.match(text.toString(), /^canopy_exit_audit_share\{graph="g"\} 1$/m);
  assert.match(text.toString(), /^canopy_exits_switched_off\{graph="g"\} 1$/m);
});

/** A tree whose leaves and root draw their answers; `hard` is looked at in each run. */
function drawnWorld(seed: string, hard: () => boolean) {
  const random = new Random(seed);
  const drawn = (right: number) =>
    random.next() < right ? "42" : random.next() < 0.5 ? "7" : `${random.int(90)}`;
  return consensusWorld({
    consensus: { agree: 3, audit: 0.001 },
    leaf: () => ({ pieces: solution(drawn(hard() ? 0.3 : 0.9), 0), stepMs: 1 + random.int(20) }),
    later: () => ({ pieces: solution(drawn(hard() ? 0.5 : 0.99), 0) }),
  });
}

test("harder questions are noticed by how runs come to agree, and exits are switched off within 500 runs; the traces say why", async () => {
  let hard = false;
  const taken: number[] = [];
  for (let seed = 0; seed < often(2); seed++) {
    hard = false;
    const world = drawnWorld(`harder/${seed}`, () => hard);
    const records: RunRecord[] = [];
    const most = (runs: number) => records.length < runs && records.at(-1)?.audit?.off !== true;
    while (most(150)) records.push((await played(world)).record);
    const before = records.length;
    hard = true;
    while (most(before + 500)) records.push((await played(world)).record);
    taken.push(records.length - before);
    const raised = records.findIndex(({ events }) => events.some(({ type }) => type === "audit_raised"));
    assert.ok(raised >= before, `${raised}`);
    // Decided before its own votes are looked at.
    assert.equal(records[raised]!.audit?.found, undefined);
    const held = records.slice(raised + 1).filter(({ audit }) => audit?.found !== undefined);
    for (const record of held) {
      const { share, doubt } = decisionsOf(record).find(({ agent }) => agent !== undefined)!;
      assert.deepEqual([share, doubt], [1, "runs come to agree otherwise than they did"]);
    }
    assert.ok(held.length > 1, `${held.length}`);
  }
  assert.ok(taken.filter((runs) => runs < 500).length > 0.7 * taken.length, taken.join());
});
