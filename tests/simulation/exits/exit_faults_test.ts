import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import { often } from "../../properties.ts";
import { isJsonObject } from "../../../base/json.ts";
import { Random } from "../../../base/random.ts";
import type { RunRecord } from "../../../router/moa/record/run_record.ts";
import { type ExitFault, exitFaults, ExitWorld } from "../exit_world.ts";
import { engineTotals, makeWorld, sizes } from "../world.ts";

const settings = { deadline_ms: 300, diversity_guard: false };

/** Early exit of random kind. Every pair's texts decide how alike they are, so all kinds exit now and then. */
function randomExit(random: Random): Record<string, unknown> {
  const metric = random.pick(["q", "q", "verdict", "agreement", "agreement", "random", "answer"]);
  return {
    ...settings,
    metric,
    keep: random.pick(["all", "majority"]),
    ...(random.int(2) === 0 ? { skip_root: 0.6 } : {}),
    ...(random.int(4) === 0 ? { never_skip: ["32b"] } : {}),
    decide: random.pick(["sample", "threshold"]),
    threshold: 0.6,
    paper_literal: random.int(4) === 0,
    without_logprobs: random.pick(["wait", "ignore"]),
    verdict: { swap: random.int(2) === 0, deadline_ms: 400 },
    answer: { stop: random.pick(["majority", "window", "posterior"]), level: 0.6 },
  };
}

function randomGraph(random: Random): Record<string, unknown> {
  const agents = sizes.map(({ name }) => ({ model: name }));
  const deep = random.int(3) === 0;
  return {
    layers: [
      { clusters: deep ? 3 : 1, agents, prompt: "propose" },
      ...(deep ? [{ agents }] : []),
      { agents: [{ model: "32b" }] },
    ],
    sampling: { max_tokens: 30 + random.int(200) },
    slots: random.pick(["declared", "completion"]),
    incremental_prefill: { mode: random.pick(["off", "on"]) },
    early_exit: randomExit(random),
  };
}

interface Played {
  readonly record: RunRecord;
  readonly hash: string;
}

/** Plays one seed to its end. */
async function play(seed: string, fault: ExitFault): Promise<Played> {
  const random = new Random(seed).stream("scenario");
  const exit = new ExitWorld(seed, fault);
  const world = makeWorld({
    seed,
    replicas: 1,
    graphs: { moa: randomGraph(random) },
    earlyExit: (clock) => exit.services(clock),
    intercept: (request, clock) => exit.intercept(request, clock),
    model: { retries: random.int(2) },
  });
  return await world.clock.run(async () => {
    const router = world.router();
    const { moa } = router.services;
    const run = moa.start(moa.graphs.get("moa")!, {
      question: { kind: "chat", messages: [{ role: "user", content: `Question of ${seed}` }] },
      rootSampling: {},
      choices: 1,
    }, new AbortController().signal);
    let text = "";
    for await (const event of run.output) if (event.type === "delta") text += event.delta.text;
    await run.ended;
    const record = run.record();
    assert.equal(record.state, "done");
    checkDecisions(record, exit, fault);
    checkAnswer(record, text);
    assert.deepEqual(exit.scorer.left, [], "feeds are left open");
    await world.clock.sleep(1000);
    assert.equal(engineTotals(world.workers).running, 0, "an engine still works a second after the run");
    for (const model of router.services.models.values()) {
      for (const worker of model.pool.workers()) {
        assert.equal(worker.inFlight, 0, `${worker.url} is still counted`);
      }
    }
    await router.close();
    assert.equal(world.transport.inFlight, 0, "an exchange is still open");
    return { record, hash: createHash("sha256").update(JSON.stringify([text, record])).digest("hex") };
  }, { limitMs: 1e7 });
}

/** What was decided is what would have been decided if all had worked, or it is to wait. */
function checkDecisions(record: RunRecord, { asked }: ExitWorld, fault: ExitFault): void {
  for (const { type, cluster, data } of record.events) {
    if (type !== "exit_decided" && type !== "root_decided") continue;
    const skips = type === "root_decided" && data?.["skip"] === true;
    if (!skips && data?.["exit"] !== true) continue;
    const known = asked.findLast(({ state }) =>
      type === "root_decided" ||
      (state.cluster === cluster && state.completions.length === data?.["completions"])
    );
    assert.ok(known !== undefined, "nobody was asked");
    if (skips) {
      const consensus = data?.["consensus"];
      assert.ok(isJsonObject(consensus));
      assert.equal(known.truth.consensus?.share, consensus["share"]);
      // Of answers that say the same the surest stands for all: without log-probabilities another one may.
      const unsure = fault === "no_logprobs" || fault === "zero_probability" || fault === "all";
      if (!unsure) assert.equal(known.truth.consensus?.agent, consensus["agent"]);
    } else {
      assert.equal(known.truth.exit, true, "an exit that would not have been taken");
      assert.deepEqual(data?.["keep"], known.truth.keep);
    }
  }
}

/** The answer is the root's or, where that was skipped, one of the last cluster's. */
function checkAnswer(record: RunRecord, text: string): void {
  const root = record.agents.at(-1)!;
  if (!record.rootSkipped) assert.equal(text, root.text);
  else {
    const consensus = record.events.find(({ type }) => type === "root_decided")?.data?.["consensus"];
    const best = isJsonObject(consensus)
      ? record.agents.find(({ id }) => id === consensus["agent"])
      : undefined;
    assert.equal(text, best?.text.trim());
  }
}

const seeds = Array.from({ length: often(112) }, (_, index) => `exit-${index}`);
const faultOf = (index: number) => exitFaults[index % exitFaults.length]!;

test(`${seeds.length} seeds with a broken scorer, judge or log-probabilities change nothing but that clusters wait`, async () => {
  const failures: string[] = [];
  const exits = { with: 0, without: 0, late: 0, skipped: 0 };
  for (const [index, seed] of seeds.entries()) {
    const fault = faultOf(index);
    try {
      const { record } = await play(seed, fault);
      const taken = record.exits.filter(({ exit }) => exit).length;
      if (fault === "none") exits.without += taken;
      else exits.with += taken;
      exits.late += record.exits.filter(({ late }) => late).length;
      exits.skipped += record.rootSkipped ? 1 : 0;
    } catch (error) {
      failures.push(`${seed} (${fault}): ${error instanceof Error ? error.message : error}`);
    }
  }
  assert.deepEqual(failures, []);
  // The scenarios are worth something.
  assert.ok(
    exits.without >= 1 && exits.with >= 12 && exits.late >= 2 && exits.skipped >= 1,
    JSON.stringify(exits),
  );
});

test("the same seed gives the same decisions, bit for bit", async () => {
  for (const [index, seed] of seeds.slice(0, 14).entries()) {
    const fault = faultOf(index);
    assert.equal((await play(seed, fault)).hash, (await play(seed, fault)).hash, seed);
  }
});
