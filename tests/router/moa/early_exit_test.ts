import { noEarlyExit } from "../../../cfgs/schema_early_exit.ts";
import { test } from "node:test";
import assert from "node:assert/strict";
import type { ClusterState, ExitPolicy } from "../../../router/moa/exit_policy.ts";
import { exitPolicyOf } from "../../../router/moa/exit_policy.ts";
import { makeWorld, readAll, traced } from "./run_harness.ts";

const [slow, fast] = [{ model: "slow" }, { model: "fast" }];
const script = ({ model }: { model: string }) => ({
  pieces: ["x", "y"],
  startMs: model === "slow" ? 100 : 10,
  stepMs: model === "slow" ? 100 : 0,
});

/** Exits as soon as `count` members have answered. */
function exitAt(count: number, seen: ClusterState[] = []): () => ExitPolicy {
  return () => ({
    decide: (state) => {
      seen.push({ ...state, completions: [...state.completions] });
      return { exit: state.completions.length >= count, numbers: { completions: state.completions.length } };
    },
  });
}

test("without a metric a cluster has no policy and waits for all its members", () => {
  assert.equal(exitPolicyOf(noEarlyExit), undefined);
});

test("on exit the members at work are aborted, their text is not used, and their tokens count as wasted", async () => {
  const seen: ClusterState[] = [];
  const world = makeWorld({
    graph: { layers: [{ agents: [slow, fast, fast] }, { agents: [fast] }] },
    models: ["slow", "fast"],
    exitPolicyOf: exitAt(2, seen),
    script: ({ model }) =>
      model === "slow" ? { pieces: ["half", "x"], startMs: 1, stepMs: 100 } : script({ model }),
  });
  await world.clock.run(async () => {
    const run = world.start();
    await readAll(run);
    assert.equal(world.clock.now(), 20);
    const prompt = run.record().agents.at(-1)?.prompt;
    assert.ok(prompt?.kind === "chat");
    assert.equal(prompt.messages[0]?.content, "Final. Q: why?\nA:\n1. xy\n\n2. xy");
    assert.equal(run.record().agents[0]?.state, "cancelled");
    assert.equal(run.usage().wastedTokens, 1);
    assert.deepEqual(traced(run, "exit"), ["exit_decided l1.c1", "exit_decided l1.c1"]);
    const closed = run.record().events.find((event) => event.type === "cluster_closed");
    assert.deepEqual(closed?.data, { answers: ["l1.c1.a2", "l1.c1.a3"], dropped: ["l1.c1.a1"] });
    await run.ended;
  });
  assert.equal(seen.length, 2);
  assert.deepEqual(seen[0]?.unfinished, ["l1.c1.a1", "l1.c1.a3"]);
  world.assertIdle();
});

test("a policy is not asked before min_responses, nor when nobody is left to drop", async () => {
  const seen: ClusterState[] = [];
  const world = makeWorld({
    graph: { layers: [{ agents: [fast, fast, slow], min_responses: 3 }, { agents: [fast] }] },
    models: ["slow", "fast"],
    exitPolicyOf: exitAt(1, seen),
    script,
  });
  await world.clock.run(async () => void await readAll(world.start()));
  assert.equal(seen.length, 0);
});

test("an agent that one cluster drops works on while another cluster waits for it", async () => {
  let policies = 0;
  const world = makeWorld({
    graph: {
      agents: {
        shared: slow,
        quick: fast,
        early: { ...fast, reads: ["quick", "shared"] },
        late: { ...fast, reads: ["shared"] },
        root: { ...fast, reads: ["early", "late"] },
      },
    },
    models: ["slow", "fast"],
    exitPolicyOf: () => {
      policies++;
      return { decide: (state) => ({ exit: state.cluster.id === "early.reads", numbers: {} }) };
    },
    script,
  });
  await world.clock.run(async () => {
    const run = world.start();
    await readAll(run);
    const records = new Map(run.record().agents.map((record) => [record.id, record]));
    assert.equal(records.get("early")?.startedAtMs, 10);
    assert.equal(records.get("shared")?.state, "done");
    assert.equal(records.get("late")?.startedAtMs, 300);
  });
  assert.ok(policies > 0);
  world.assertIdle();
});

test("a policy that breaks costs the run nothing: the cluster waits for its members", async () => {
  const world = makeWorld({
    graph: { layers: [{ agents: [fast, slow] }, { agents: [fast] }] },
    models: ["slow", "fast"],
    exitPolicyOf: () => ({
      decide: () => {
        throw new Error("no scorer");
      },
    }),
    script,
  });
  await world.clock.run(async () => {
    const run = world.start();
    assert.deepEqual(await readAll(run), ["xy"]);
    assert.equal(world.clock.now(), 310);
    assert.deepEqual(run.record().events.find(({ type }) => type === "exit_decided")?.data, {
      exit: false,
      error: "no scorer",
    });
  });
});
