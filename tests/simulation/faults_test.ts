import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import { often } from "../properties.ts";
import { CanopyError } from "../../base/errors.ts";
import { Random } from "../../base/random.ts";
import type { Graph } from "../../router/moa/graph/graph_types.ts";
import type { RunRecord } from "../../router/moa/record/run_record.ts";
import type { Run } from "../../router/moa/run/run.ts";
import type { Fault } from "../../simulator/engine/faults.ts";
import { engineTotals, makeWorld, sizes, type World } from "./world.ts";

/** Time limits of a worker's answer in this suite. */
const limits = { connect_timeout_ms: 1000, first_token_timeout_ms: 4000, idle_timeout_ms: 3000 };
const runDeadlineMs = 60_000;
const runsPerSeed = 3;

/** A random layered graph: 1 to 4 layers that fit each other, random models, rules and limits. */
function randomGraph(random: Random): Record<string, unknown> {
  const agent = () => ({
    model: random.pick(sizes).name,
    ...(random.int(4) === 0 ? { deadline_ms: 500 + random.int(4000) } : {}),
  });
  const depth = 1 + random.int(4);
  const layers: unknown[] = [{ agents: [agent()] }];
  let readers = 1;
  for (let layer = 1; layer < depth; layer++) {
    const clusters = random.int(3) === 0 ? 1 : readers;
    const size = 1 + random.int(3);
    layers.unshift({
      clusters: Array.from({ length: clusters }, () => ({
        agents: Array.from({ length: size }, agent),
        ...(random.int(2) === 0 ? { min_responses: 1 + random.int(size) } : {}),
        ...(random.int(4) === 0 ? { on_deadline: "use_partial" } : {}),
      })),
    });
    readers = clusters * size;
    if (readers > 12) break;
  }
  return {
    layers,
    sampling: { max_tokens: 1 + random.int(40) },
    deadline_ms: runDeadlineMs,
    slots: random.pick(["declared", "completion"]),
    incremental_prefill: random.pick(["off", "auto"]),
  };
}

const faultKinds: readonly Fault["kind"][] = [
  "refuse",
  "status_500",
  "status_503",
  "reset",
  "hang",
  "truncate",
  "slow",
];

function injectRandomFaults(world: World, random: Random): void {
  for (let fault = random.int(8); fault > 0; fault--) {
    const kind = random.pick(faultKinds);
    random.pick(world.workers).simulator.inject({
      kind,
      count: 1 + random.int(6),
      ...(kind === "truncate" ? { value: random.int(6) } : {}),
      ...(kind === "slow" ? { value: 1 + random.int(20) } : {}),
    });
  }
}

/** Reads a run as a client does: to its end, or until it loses interest. */
async function read(
  world: World,
  run: Run,
  random: Random,
  leave: (reason: unknown) => void,
): Promise<string> {
  const leaveAfterMs = random.int(4) === 0 ? random.int(3000) : undefined;
  const done = new AbortController();
  if (leaveAfterMs !== undefined) {
    world.clock.sleep(leaveAfterMs, done.signal).then(
      () => leave(new Error("The client has gone")),
      () => {},
    );
  }
  let text = "";
  try {
    for await (const event of run.output) {
      if (event.type === "delta") text += event.delta.text;
      if (random.int(50) === 0) await world.clock.sleep(random.int(200));
    }
    return `ok ${text}`;
  } catch (error) {
    assert.ok(CanopyError.is(error), `the run's error is one of ours, not ${error}`);
    assert.ok([499, 502, 503, 504, 500].includes(error.status), `status ${error.status}: ${error.message}`);
    return `${error.code} ${error.message}`;
  } finally {
    done.abort();
  }
}

/**
 * What the router counted against what the engines did: never more, and just as much where no call was broken off.
 * A prompt counts as soon as one of its answer's tokens has arrived, whatever becomes of the call then.
 */
function checkCounts(world: World, records: readonly RunRecord[], graph: Graph): void {
  const maxTokens = graph.root.sampling.max_tokens ?? Infinity;
  const engines = engineTotals(world.workers);
  const sum = (key: "promptTokens" | "completionTokens") =>
    records.reduce((all, { usage }) => all + usage[key], 0);
  assert.ok(sum("promptTokens") <= engines.promptTokens, "prompt tokens that no engine read");
  assert.ok(sum("completionTokens") <= engines.generationTokens, "tokens that no engine generated");
  const calls = records.flatMap((record) => record.agents).filter((agent) => agent.usage !== undefined);
  // Engines count the prompts of warms, too; usage does not.
  const warmed = graph.incrementalPrefill.mode !== "off";
  if (!warmed && calls.every((agent) => agent.firstTokenAtMs !== undefined && agent.usage?.calls === 1)) {
    assert.equal(sum("promptTokens"), engines.promptTokens);
  }
  const whole = calls.every(({ state, usage, finishReason }) =>
    state === "done" && usage?.calls === 1 &&
    (finishReason === "stop" || usage.completionTokens === maxTokens)
  );
  if (whole && !warmed) assert.equal(sum("completionTokens"), engines.generationTokens);
}

/** Plays one seed to its end and returns a hash over everything that happened. */
async function play(seed: string): Promise<string> {
  const random = new Random(seed).stream("scenario");
  const graphs = { moa: randomGraph(random) };
  const world = makeWorld({
    seed,
    replicas: 1 + random.int(3),
    graphs,
    model: { ...limits, retries: random.int(3), max_in_flight: 1 + random.int(8) },
  });
  const hash = createHash("sha256");
  const records: RunRecord[] = [];
  await world.clock.run(async () => {
    const router = world.router();
    const { moa } = router.services;
    const graph = moa.graphs.get("moa");
    assert.ok(graph);
    injectRandomFaults(world, random);
    await Promise.all(Array.from({ length: runsPerSeed }, async (_, index) => {
      const mine = random.stream(`run ${index}`);
      await world.clock.sleep(mine.int(2000));
      const client = new AbortController();
      const run = moa.start(graph, {
        question: { kind: "chat", messages: [{ role: "user", content: `Question ${index} of ${seed}` }] },
        rootSampling: {},
        choices: 1 + mine.int(2),
      }, client.signal);
      const result = await read(world, run, mine, (reason) => client.abort(reason));
      await run.ended;
      records.push(run.record());
      hash.update(JSON.stringify([result, run.record()]));
    }));
    await world.clock.sleep(1000);
    assert.equal(engineTotals(world.workers).running, 0, "an engine still works a second after the last run");
    for (const model of router.services.models.values()) {
      for (const worker of model.pool.workers()) {
        assert.equal(worker.inFlight, 0, `${worker.url} is still counted`);
      }
    }
    checkCounts(world, records, graph);
    await router.close();
    assert.equal(world.transport.inFlight, 0, "an exchange is still open");
  }, { limitMs: 10 * runDeadlineMs });
  await world.clock.advance(world.clock.now() + 30_000);
  assert.equal(world.clock.pendingTimers, 0, "a timer is left");
  return hash.digest("hex");
}

const seeds = Array.from({ length: often(30) }, (_, index) => `fault-${index}`);

test(`${seeds.length} seeds of random graphs with random faults end without a hang and without a leak`, async () => {
  const failures: string[] = [];
  for (const seed of seeds) {
    try {
      await play(seed);
    } catch (error) {
      failures.push(`${seed}: ${error instanceof Error ? error.message : error}`);
    }
  }
  assert.deepEqual(failures, []);
});

test("The same seed gives the same trace, bit for bit", async () => {
  for (const seed of seeds.slice(0, 6)) assert.equal(await play(seed), await play(seed), seed);
});
