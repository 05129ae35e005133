import assert from "node:assert/strict";
import { test } from "node:test";
import type { HedgeSettings } from "../../../../cfgs/schema/config.ts";
import { MetricsText } from "../../../../base/prometheus.ts";
import { Random } from "../../../../base/random.ts";
import { ExitMetrics } from "../../../../router/http/metrics/exit_metrics.ts";
import { agentBody } from "../../../../router/http/runs/run_bodies.ts";
import { HedgeControl } from "../../../../router/moa/agent/hedge_control.ts";
import type { RunInput } from "../../../../router/moa/graph/run_input.ts";
import type { RunRecord } from "../../../../router/moa/record/run_record.ts";
import type { Run } from "../../../../router/moa/run/run.ts";
import { brokenWorker, type Script } from "../fake_engine.ts";
import { makeWorld, plainPrompts, readAll, type World } from "../run_harness.ts";

/** Runs whose agents, but for the last one's, teach how long an agent usually takes. */
const TAUGHT = 10;
const USUAL_MS = 100;

/** What the agent in question does, by its worker. */
type Late = (workerId: string) => Script;

const SLOW: Script = { pieces: ["slow ", "but ", "sure"], startMs: 500, stepMs: 500 };
const QUICK: Script = { pieces: ["quick ", "and ", "sure"], startMs: 20, stepMs: 20 };

/** Two leaves and a root on three workers; of the run `TAUGHT` (from 0) the first leaf is a late one. */
function lateWorld(
  late: Late,
  { hedge = { after: "p90", max_share: 0.5 }, workers = ["w1", "w2", "w3"], capacity = Infinity }: {
    hedge?: object | null;
    workers?: readonly string[];
    capacity?: number;
  } = {},
): World {
  return makeWorld({
    graph: { layers: [{ agents: [{ model: "a" }, { model: "b" }] }, { agents: [{ model: "a" }] }] },
    models: ["a", "b"],
    modelFields: { model: "org/model", ...(hedge === null ? {} : { hedge }) },
    prompts: plainPrompts,
    workers,
    capacity,
    script: ({ model, prompt, workerId }) => {
      if (prompt.includes("Final")) return { pieces: [prompt] };
      if (model === "a" && prompt.includes("late")) return late(workerId);
      return { pieces: ["usual"], startMs: USUAL_MS };
    },
  });
}

interface Played {
  readonly record: RunRecord;
  readonly text: string;
  readonly durationMs: number;
  /** Calls of the late run to the model of the late agent, by worker. */
  readonly calls: readonly { readonly workerId: string; readonly outcome: string | undefined }[];
}

/** Teaches, then plays the run with the late agent. `during` is given that run. */
async function played(
  world: World,
  during: (run: Run) => void = () => {},
  input: Partial<RunInput> = {},
): Promise<Played> {
  return await world.clock.run(async () => {
    // Of model a's leaf alone the times are learned: the root's text goes to a client.
    for (let run = 0; run < 2 * TAUGHT; run++) {
      const usual = world.start();
      await readAll(usual);
      await usual.ended;
    }
    const { calls } = world.engines.get("a")!;
    const before = calls.length;
    const startedMs = world.clock.now();
    const run = world.start({ question: { kind: "text", text: "late" }, ...input });
    during(run);
    const [text = ""] = await readAll(run);
    const durationMs = world.clock.now() - startedMs;
    await run.ended;
    world.assertIdle();
    return { record: run.record(), text, durationMs, calls: calls.slice(before) };
  });
}

const hedgeEvents = ({ events }: RunRecord) =>
  events.filter(({ type, agent }) => type.startsWith("hedge") && agent === "l1.c1.a1");

test("an agent that is late is started again on another worker: the first that ends counts, the other is ended", async () => {
  const late: Late = (workerId) => workerId === "w1" ? SLOW : QUICK;
  const { record, text, durationMs, calls } = await played(lateWorld(late));
  // Behind what usual ones take, the second one's time: not the 2,000 ms of the first.
  assert.equal(durationMs, USUAL_MS + 80);
  assert.ok(text.includes("quick and sure") && !text.includes("slow"));
  const agent = record.agents[0]!;
  assert.deepEqual([agent.state, agent.worker, agent.text], ["done", "w2", "quick and sure"]);
  assert.deepEqual(agent.hedge, {
    worker: "w2",
    startedAtMs: USUAL_MS,
    endedAtMs: USUAL_MS + 80,
    outcome: "won",
    tokens: 3,
  });
  const shown: unknown = Object(agentBody(agent)).hedge;
  const times = { started_at_ms: USUAL_MS, ended_at_ms: USUAL_MS + 80 };
  assert.deepEqual(shown, { worker: "w2", ...times, outcome: "won", tokens: 3 });
  assert.equal(agent.firstTokenAtMs, USUAL_MS + 20);
  assert.deepEqual(calls.slice(0, 2).map(({ workerId, outcome }) => [workerId, outcome]), [
    ["w1", "aborted"],
    ["w2", "ok"],
  ]);
  assert.deepEqual(hedgeEvents(record).map(({ type, atMs }) => [type, atMs]), [
    ["hedge_started", USUAL_MS],
    ["hedge_ended", USUAL_MS + 80],
  ]);
  const without = await played(lateWorld(late, { hedge: null }));
  assert.equal(without.durationMs, 2_000);
  assert.equal(without.record.agents[0]?.hedge, undefined);
});

test("the tokens of the attempt that was slower are counted, and as wasted", async () => {
  const first: Script = { ...SLOW, pieces: ["one ", "two ", "three"], startMs: 60, stepMs: 60 };
  const lost = await played(lateWorld((worker) => worker === "w1" ? first : { ...QUICK, startMs: 110 }));
  // The first one ends at 240 ms; the second one's pieces come at 210 and 230 ms.
  assert.equal(lost.record.agents[0]?.text, "one two three");
  assert.deepEqual(lost.record.agents[0]?.hedge?.outcome, "lost");
  const usage = lost.record.agents[0]!.usage!;
  assert.deepEqual([usage.calls, usage.completionTokens, usage.wastedTokens], [2, 5, 2]);
  const won = await played(lateWorld((worker) => worker === "w1" ? { ...first, stepMs: 1_000 } : QUICK));
  const other = won.record.agents[0]!.usage!;
  assert.deepEqual([other.calls, other.completionTokens, other.wastedTokens], [2, 4, 1]);
});

test("nobody is started again whose text has been read, where no other worker has a place, or beyond max_share", async () => {
  const slowing: Script = { pieces: ["slow ", "but ", "sure"], startMs: 50, stepMs: 500 };
  const late: Late = (workerId) => workerId === "w1" ? slowing : QUICK;
  const refusal = ({ record }: Played) =>
    hedgeEvents(record).map(({ type, data }) => [type, data?.["reason"]]);
  const read = await played(lateWorld(late), (run) => {
    (async () => {
      for await (const _event of run.agentEvents(new AbortController().signal));
    })().catch(() => {});
  });
  assert.deepEqual(refusal(read), [["hedge_refused", "its text is read already"]]);
  assert.equal(read.record.agents[0]?.text, "slow but sure");
  const alone = await played(lateWorld(late, { workers: ["w1"] }));
  assert.deepEqual(refusal(alone), [["hedge_refused", "no other worker has a place"]]);
  const limited = await played(lateWorld(late), () => {}, { budget: { tokens: 100_000 } });
  assert.deepEqual([refusal(limited), limited.record.agents[0]?.text], [[], "slow but sure"]);
  const rare = await played(lateWorld(late, { hedge: { after: "p90", max_share: 0.04 } }));
  assert.deepEqual(refusal(rare), [["hedge_refused", "max_share is used up"]]);
});

test("one that is refused a second attempt because of max_share is asked again when it is as late once more", async () => {
  const late: Late = (workerId) => workerId === "w1" ? SLOW : QUICK;
  const rare = lateWorld(late, { hedge: { after: "p90", max_share: 0.04 } });
  const { record, durationMs } = await played(rare, () => {
    // Others begin meanwhile, and pay for it.
    void rare.clock.sleep(1.5 * USUAL_MS).then(() => {
      for (let run = 0; run < 5; run++) void readAll(rare.start());
    });
  });
  assert.equal(durationMs, 2 * USUAL_MS + 80);
  assert.deepEqual(hedgeEvents(record).map(({ type, atMs }) => [type, atMs]), [
    ["hedge_refused", USUAL_MS],
    ["hedge_started", 2 * USUAL_MS],
    ["hedge_ended", 2 * USUAL_MS + 80],
  ]);
  const metrics = new ExitMetrics();
  metrics.add("g", record);
  const text = new MetricsText();
  metrics.write(text);
  assert.match(text.toString(), /^canopy_hedges_total\{model="a",outcome="won"\} 1$/m);
});

test("a second attempt is ended when a client begins to read the first, and one that fails harms nobody", async () => {
  const speaking: Script = { pieces: ["slow ", "but ", "sure"], startMs: 110, stepMs: 500 };
  const { record } = await played(
    lateWorld((workerId) => workerId === "w1" ? speaking : { ...QUICK, stepMs: 40 }),
    (run) => {
      (async () => {
        for await (const _event of run.agentEvents(new AbortController().signal));
      })().catch(() => {});
    },
  );
  assert.deepEqual([record.agents[0]?.text, record.agents[0]?.hedge?.outcome], ["slow but sure", "lost"]);
  const broken: Script = { ...QUICK, failAt: { piece: 1, error: brokenWorker("w2") } };
  const failed = await played(lateWorld((workerId) => workerId === "w1" ? speaking : broken));
  assert.deepEqual([failed.record.agents[0]?.text, failed.record.agents[0]?.hedge?.outcome], [
    "slow but sure",
    "failed",
  ]);
});

test("where the first attempt fails for good, the second one's answer is waited for", async () => {
  const failing: Script = {
    ...SLOW,
    startMs: 110,
    stepMs: 10,
    failAt: { piece: 2, error: new Error("gone") },
  };
  const { record } = await played(
    lateWorld((workerId) => workerId === "w1" ? failing : { ...QUICK, startMs: 400 }),
  );
  assert.deepEqual([record.agents[0]?.state, record.agents[0]?.text], ["done", "quick and sure"]);
});

test("the client's own text is never begun again, and when it leaves both attempts are ended", async () => {
  const gone = new AbortController();
  const world = lateWorld(() => SLOW);
  const { record } = await world.clock.run(async () => {
    for (let run = 0; run < 2 * TAUGHT; run++) await readAll(world.start());
    const run = world.start({ question: { kind: "text", text: "late" } }, gone.signal);
    world.clock.sleep(300).then(() => gone.abort(new Error("left")), () => {});
    await readAll(run).catch(() => {});
    await run.ended;
    return { record: run.record() };
  });
  world.assertIdle();
  assert.equal(record.agents[0]?.hedge?.outcome, "lost");
  assert.deepEqual(world.engines.get("a")!.calls.slice(-2).map(({ outcome }) => outcome), [
    "aborted",
    "aborted",
  ]);
});

test("a quantile is known from enough times, and no more than max_share of the agents are started again", () => {
  let settings: HedgeSettings | undefined = { after: "p95", max_share: 0.25 };
  const control = new HedgeControl(() => settings);
  for (let ms = 1; ms <= 19; ms++) control.ended(ms);
  assert.equal(control.afterMs, undefined);
  control.ended(20);
  assert.equal(control.afterMs, 19);
  settings = { after: "p99", max_share: 0.25 };
  assert.equal(control.afterMs, undefined);
  settings = { after: "p50", max_share: 0.25 };
  for (let time = 0; time < 1_000; time++) control.ended(7);
  assert.equal(control.afterMs, 7);
  let taken = 0;
  for (let agent = 0; agent < 1_000; agent++) {
    control.began();
    if (control.take()) taken++;
  }
  assert.equal(taken, 250);
  // What was not used is not saved up without end.
  for (let agent = 0; agent < 1_000; agent++) control.began();
  let burst = 0;
  while (control.take()) burst++;
  assert.equal(burst, 4);
  settings = undefined;
  assert.deepEqual([control.on, control.afterMs], [false, undefined]);
});

test("150 runs with workers that are slow, fail and hang: an answer is one attempt's, every token is counted, nothing is left", async () => {
  const random = new Random("second attempts");
  const script = (workerId: string): Script => {
    const pieces = Array.from({ length: 1 + random.int(5) }, () => `${workerId} `);
    const pace = { startMs: random.int(200), stepMs: random.int(100) };
    const piece = random.int(pieces.length + 1);
    const kind = random.int(12);
    if (kind === 0) return { ...pace, pieces, failAt: { piece, error: new Error("broken") } };
    if (kind === 1) return { ...pace, pieces, failAt: { piece, error: brokenWorker(workerId) } };
    if (kind === 2) return { ...pace, pieces, hangAt: piece };
    return kind < 5 ? { pieces, startMs: 10 * pace.startMs, stepMs: 10 * pace.stepMs } : { ...pace, pieces };
  };
  const world = makeWorld({
    graph: {
      layers: [
        { agents: [{ model: "a" }, { model: "a" }, { model: "a" }], min_responses: 1 },
        { agents: [{ model: "a" }] },
      ],
    },
    modelFields: { model: "org/model", hedge: { after: "p50", max_share: 0.5 } },
    workers: ["w1", "w2", "w3"],
    abortMs: 5,
    script: ({ prompt, workerId }) => prompt.includes("Final") ? { pieces: ["root"] } : script(workerId),
  });
  const engine = world.engines.get("a")!;
  const outcomes: Record<string, number> = {};
  await world.clock.run(async () => {
    for (let index = 0; index < 150; index++) {
      const sent = engine.sent;
      const before = engine.calls.length;
      const gone = new AbortController();
      const run = world.start({}, gone.signal);
      world.clock.timer(random.int(8) === 0 ? random.int(1_000) : 5_000, () => gone.abort(new Error("left")));
      if (random.int(5) === 0) {
        (async () => {
          for await (const _event of run.agentEvents(gone.signal));
        })().catch(() => {});
      }
      await readAll(run).catch(() => {});
      await run.ended;
      const { agents, usage } = run.record();
      for (const { text, hedge, state } of agents) {
        if (hedge !== undefined) outcomes[hedge.outcome!] = (outcomes[hedge.outcome!] ?? 0) + 1;
        assert.ok(new Set(text.match(/w\d/g)).size <= 1, text);
        assert.ok(state !== "running" && state !== "queued", state);
      }
      const aborted = engine.calls.slice(before).filter(({ outcome }) => outcome !== "ok").length;
      const uncounted = engine.sent - sent - usage.completionTokens;
      // A piece that comes as an attempt is ended, or before it is begun anew elsewhere without a word, is nobody's.
      assert.ok(
        uncounted >= 0 && uncounted <= aborted,
        `${index}: ${uncounted} tokens of ${aborted} attempts`,
      );
      assert.ok(usage.wastedTokens <= usage.completionTokens);
      await world.clock.sleep(6_000);
      world.assertIdle();
    }
  });
  const { won = 0, lost = 0, failed = 0 } = outcomes;
  assert.ok(won > 10 && lost > 10 && failed > 0, JSON.stringify(outcomes));
});
