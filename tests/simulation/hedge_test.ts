import assert from "node:assert/strict";
import process from "node:process";
import { test } from "node:test";
import { Random } from "../../base/random.ts";
import { QUESTIONS } from "../../simulator/text/questions.ts";
import { scriptedAnswers } from "../../simulator/text/scripted.ts";
import { engineTotals, makeWorld, type World } from "./world.ts";

/** Questions of each trial, one at a time; `CANOPY_HEDGE_QUESTIONS=600` asks as many. */
const COUNT = Number(process.env["CANOPY_HEDGE_QUESTIONS"] ?? 20);
const SEED = "hedge";
const asked = QUESTIONS.filter(({ kind }) => kind !== "open");
const questionOf = (index: number) => asked[index % asked.length]!.question;

/** What makes a worker slow before the question of this index. */
type Straggling = (world: World, index: number) => void;

interface Trial {
  readonly texts: readonly string[];
  /** Of the questions, sorted. */
  readonly ms: readonly number[];
  readonly agents: number;
  readonly hedges: Readonly<Record<string, number>>;
  readonly wastedShare: number;
}

/** Three leaves of a model, on four workers, and a root of a smaller one. */
async function trial(hedge: object | undefined, straggling: Straggling): Promise<Trial> {
  const leaves = [0, 1, 2].map((place) => ({ model: "8b", sampling: { seed: place } }));
  const world = makeWorld({
    seed: SEED,
    replicas: 4,
    model: { policy: "round_robin", ...(hedge === undefined ? {} : { hedge }) },
    graphs: {
      moa: {
        sampling: { max_tokens: 120, temperature: 1 },
        layers: [{ agents: leaves }, { agents: [{ model: "4b", sampling: { seed: 1 } }] }],
        incremental_prefill: { mode: "off" },
      },
    },
    answersOf: (size) => scriptedAnswers({ size, seed: SEED }),
  });
  return await world.clock.run(async () => {
    const router = world.router();
    await router.ready();
    const { app, services: { moa } } = router;
    const texts: string[] = [];
    const ms: number[] = [];
    const hedges: Record<string, number> = {};
    const sums = { completion: 0, wasted: 0, agents: 0 };
    for (let index = 0; index < COUNT; index++) {
      straggling(world, index);
      const beganMs = world.clock.now();
      const response = await app.request("/v1/chat/completions", {
        method: "POST",
        body: JSON.stringify({ model: "moa", messages: [{ role: "user", content: questionOf(index) }] }),
        headers: { "content-type": "application/json" },
      });
      const { choices } = await response.json();
      texts.push(choices[0].message.content);
      ms.push(world.clock.now() - beganMs);
      const run = moa.get(moa.list()[0]!.id)!;
      await run.ended;
      const { agents, usage } = run.record();
      for (const { outcome } of agents.flatMap(({ hedge }) => hedge ?? [])) {
        hedges[outcome!] = (hedges[outcome!] ?? 0) + 1;
      }
      sums.agents += agents.length - 1;
      sums.completion += usage.completionTokens;
      sums.wasted += usage.wastedTokens;
    }
    const metrics = await (await app.request("/metrics")).text();
    for (const [outcome, count] of Object.entries(hedges)) {
      assert.ok(metrics.includes(`canopy_hedges_total{model="8b",outcome="${outcome}"} ${count}\n`), outcome);
    }
    const [last] = moa.list();
    const { agents } = await (await app.request(`/v1/runs/${last!.id}`)).json();
    for (const { hedge } of agents) {
      assert.ok(hedge === null || hedge.worker.includes("8b") && hedge.tokens >= 0);
    }
    // An engine hears of an abort a little later than the router goes on.
    await world.clock.sleep(60_000);
    assert.equal(engineTotals(world.workers).running, 0);
    await router.close();
    ms.sort((a, b) => a - b);
    return { texts, ms, agents: sums.agents, hedges, wastedShare: sums.wasted / sums.completion };
  }, { limitMs: 1e9 });
}

const mean = (times: readonly number[]) => times.reduce((sum, one) => sum + one, 0) / times.length;

const quantile = (sorted: readonly number[], share: number) => sorted[Math.ceil(share * sorted.length) - 1]!;

/** Now and then a worker takes ten times as long for its next request. */
const NOW_AND_THEN: Straggling = (world, index) => {
  const random = new Random(`${SEED}/${index}`);
  if (random.int(10) !== 0) return;
  const slow = random.pick(world.workers.filter(({ model }) => model === "8b"));
  slow.simulator.inject({ kind: "slow", count: 1, value: 10 });
};

/** One of four workers always takes four times as long. */
const ONE_WORKER: Straggling = (world, index) => {
  if (index > 0) return;
  world.workers.find(({ model }) => model === "8b")!.simulator.inject({
    kind: "slow",
    count: Infinity,
    value: 4,
  });
};

const scenes = [
  {
    name: "a worker that is slow now and then",
    straggling: NOW_AND_THEN,
    hedges: [{ after: "p95", max_share: 0.05 }, { after: "p95", max_share: 0.1 }],
  },
  {
    name: "one of four workers that is always slow",
    straggling: ONE_WORKER,
    hedges: [{ after: "p70", max_share: 0.4 }],
  },
] as const;

for (const { name, straggling, hedges } of scenes) {
  test(`with ${name} hedged runs say the same, and are sooner`, async (t) => {
    const tell = (what: string, { ms, hedges, wastedShare }: Trial) => {
      const [p50, p99] = [quantile(ms, 0.5), quantile(ms, 0.99)].map(Math.round);
      const wasted = `${(100 * wastedShare).toFixed(1)} % of the tokens wasted`;
      t.diagnostic(
        `${what}: mean ${Math.round(mean(ms))}, p50 ${p50}, p99 ${p99} ms, ${
          JSON.stringify(hedges)
        }, ${wasted}`,
      );
    };
    const without = await trial(undefined, straggling);
    tell("without", without);
    assert.deepEqual([without.hedges, without.wastedShare], [{}, 0]);
    for (const hedge of hedges) {
      const hedged = await trial(hedge, straggling);
      tell(JSON.stringify(hedge), hedged);
      assert.deepEqual(hedged.texts, without.texts);
      const { won = 0, lost = 0, failed = 0 } = hedged.hedges;
      assert.ok(won > 0 && failed === 0, JSON.stringify(hedged.hedges));
      assert.ok(won + lost <= hedge.max_share * hedged.agents, JSON.stringify(hedged.hedges));
      assert.ok(hedged.wastedShare > 0 && hedged.wastedShare < hedge.max_share);
      assert.ok(mean(hedged.ms) < mean(without.ms));
    }
  });
}
