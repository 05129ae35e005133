import assert from "node:assert/strict";
import { test } from "node:test";
import { CanopyError } from "../../../../base/errors.ts";
import { Random } from "../../../../base/random.ts";
import type { RunRecord } from "../../../../router/moa/record/run_record.ts";
import type { Run } from "../../../../router/moa/run/run.ts";
import { EngineError } from "../../../../router/worker/engine_error.ts";
import { brokenWorker, type Script } from "../fake_engine.ts";
import { makeWorld } from "../run_harness.ts";

const prompts = { propose: "[input_prompts]", aggregate: "[responses]", synthesize: "[responses]" };
const rules = (random: Random) => ({
  ...(random.int(3) === 0 ? { deadline_ms: 1 + random.int(200) } : {}),
  ...(random.int(3) === 0 ? { min_responses: 1 + random.int(2) } : {}),
});

/** A random layered graph or explicit DAG. Every fifth may hang, and has a deadline then. */
function randomGraph(random: Random): Record<string, unknown> {
  const common = {
    slots: random.pick(["declared", "completion"]),
    on_deadline: random.pick(["drop", "use_partial"]),
    deadline_ms: 2000,
  };
  const agent = () => ({ model: random.pick(["a", "b"]) });
  if (random.int(2) === 0) {
    const width = 1 + random.int(3);
    const members = Array.from({ length: 2 }, agent);
    const layers = [
      { clusters: width, agents: members, ...rules(random) },
      { agents: Array.from({ length: width }, agent), ...(random.int(2) === 0 ? { deadline_ms: 150 } : {}) },
      { agents: [agent()] },
    ];
    return { ...common, layers };
  }
  const count = 2 + random.int(6);
  const agents: Record<string, unknown> = {};
  const unread = new Set<string>();
  for (let i = 0; i < count; i++) {
    const earlier = Array.from({ length: i }, (_, at) => `n${at}`);
    const reads = i === count - 1 ? [...unread] : earlier.filter(() => random.int(3) === 0);
    reads.forEach((name) => unread.delete(name));
    unread.add(`n${i}`);
    agents[`n${i}`] = {
      ...agent(),
      reads,
      ...(random.int(4) === 0 ? { deadline_ms: 1 + random.int(200) } : {}),
    };
  }
  return { ...common, agents };
}

function randomScript(random: Random, workerId: string): Script {
  const pieces = Array.from({ length: random.int(5) }, (_, at) => `${at}`);
  const script = { pieces, startMs: random.int(50), stepMs: random.int(20) };
  const piece = random.int(pieces.length + 1);
  const fate = random.int(12);
  if (fate === 0) return { ...script, failAt: { piece: 0, error: brokenWorker(workerId) } };
  if (fate === 1) return { ...script, failAt: { piece, error: brokenWorker(workerId) } };
  if (fate === 2) return { ...script, failAt: { piece, error: new TypeError("a bug in an engine") } };
  if (fate === 3) return { ...script, hangAt: piece };
  return script;
}

/** Lives through a few random runs, and returns what they left behind. */
async function live(seed: number): Promise<RunRecord[]> {
  const random = new Random(`seed ${seed}`);
  const world = makeWorld({
    graph: randomGraph(random.stream("graph")),
    models: ["a", "b"],
    prompts,
    capacity: random.pick([1, 2, 100]),
    abortMs: random.pick([0, 10]),
    script: ({ request, workerId }) => randomScript(random.stream(request.id), workerId),
  });
  const runs: Run[] = [];
  await world.clock.run(async () => {
    const clients = Array.from({ length: 3 }, async (_, at) => {
      const own = random.stream(`client ${at}`);
      await world.clock.sleep(own.int(100));
      const client = new AbortController();
      const run = world.start({ choices: 1 + own.int(2) }, client.signal);
      runs.push(run);
      const leavesAfter = own.int(4) === 0 ? own.int(5) : Infinity;
      if (own.int(4) === 0) {
        const atMs = own.int(300);
        world.clock.sleep(atMs).then(() => client.abort());
      }
      try {
        let read = 0;
        for await (const _event of run.output) {
          if (++read > leavesAfter) break;
          await world.clock.sleep(own.int(10));
        }
      } catch (error) {
        assert.ok(CanopyError.is(error) || error instanceof EngineError, String(error));
      }
      await run.ended;
    });
    await Promise.all(clients);
    await world.clock.sleep(1000);
  }, { limitMs: 60_000 });
  world.assertIdle();
  const records = runs.map((run) => run.record());
  checkBooks(records, [...world.engines.values()].flatMap((engine) => engine.calls).length);
  return records;
}

/** What the records say adds up. */
function checkBooks(records: readonly RunRecord[], calls: number): void {
  assert.equal(records.reduce((sum, { usage }) => sum + usage.calls, 0), calls);
  for (const { usage, agents, events, state } of records) {
    for (const key of ["calls", "promptTokens", "completionTokens", "wastedTokens"] as const) {
      assert.equal(agents.reduce((sum, record) => sum + (record.usage?.[key] ?? 0), 0), usage[key]);
      assert.equal(usage.agents.reduce((sum, entry) => sum + entry[key], 0), usage[key]);
    }
    assert.equal(events.at(-1)?.type, `run_${state}`);
    assert.notEqual(state, "running");
    for (const record of agents) {
      assert.ok(["done", "failed", "cancelled"].includes(record.state), `${record.id} is ${record.state}`);
      assert.equal(
        events.filter((event) => event.agent === record.id && event.type === `agent_${record.state}`).length,
        1,
      );
    }
    if (state === "done") assert.equal(agents.at(-1)?.state, "done");
  }
}

test("random graphs with random faults, deadlines, cancels and slow readers: no hang, no leak, books that add up", async () => {
  const states = new Map<string, number>();
  for (let seed = 0; seed < 200; seed++) {
    for (const { state } of await live(seed)) states.set(state, (states.get(state) ?? 0) + 1);
  }
  for (const state of ["done", "failed", "cancelled"]) {
    assert.ok((states.get(state) ?? 0) > 30, `only ${states.get(state)} runs were ${state}`);
  }
});

test("the same seed gives the same runs, event by event", async () => {
  for (let seed = 0; seed < 10; seed++) {
    assert.deepEqual(await live(seed), await live(seed));
  }
});
