import assert from "node:assert/strict";
import { test } from "node:test";
import { often } from "../properties.ts";
import { Random } from "../../base/random.ts";
import type { RunRecord } from "../../router/moa/record/run_record.ts";
import { ask, eventsOf, figure, makeWarmWorld } from "./warm_world.ts";
import { engineTotals, sizes, type World } from "./world.ts";

/** A random layered graph whose prompts depend on what the precursors say, and on nothing else. */
function randomGraph(random: Random): Record<string, unknown> {
  const agent = () => ({ model: random.pick(sizes).name });
  const agents = (most: number) => Array.from({ length: 1 + random.int(most) }, agent);
  const layers: unknown[] = [{ agents: [agent()] }];
  const middle = agents(3);
  layers.unshift({ agents: middle });
  layers.unshift({
    clusters: random.int(2) === 0 ? 1 : middle.length,
    agents: agents(3),
    sampling: { max_tokens: 10 + random.int(150) },
  });
  return { layers, sampling: { max_tokens: 10 + random.int(60) } };
}

/** What all agents were asked and what they said. */
function saidBy(record: RunRecord): unknown {
  return record.agents.map(({ id, state, prompt, text }) => ({ id, state, prompt, text }));
}

async function play(
  seed: string,
  graph: Record<string, unknown>,
  work: (
    world: World,
    record: (question: string, signal?: AbortSignal) => Promise<RunRecord>,
  ) => Promise<void>,
  replicas = 1,
  prompts: Record<string, unknown> = {},
): Promise<void> {
  const limits = {
    connect_timeout_ms: 1000,
    first_token_timeout_ms: 4000,
    idle_timeout_ms: 3000,
    retries: 3,
  };
  const world = makeWarmWorld({ seed, replicas, graphs: { moa: graph }, prompts, model: limits });
  await world.clock.run(async () => {
    const router = world.router();
    await router.ready();
    await work(world, (question, signal) => ask(router, "moa", question, signal));
    await world.clock.sleep(1000);
    assert.equal(engineTotals(world.workers).running, 0, "an engine still works a second after the last run");
    for (const model of router.services.models.values()) {
      for (const worker of model.pool.workers()) {
        assert.equal(worker.inFlight, 0, `${worker.url} is still counted`);
      }
    }
    await router.close();
    assert.equal(world.transport.inFlight, 0, "an exchange is still open");
  }, { limitMs: 600_000 });
  await world.clock.advance(world.clock.now() + 30_000);
  assert.equal(world.clock.pendingTimers, 0, "a timer is left");
}

const paces = often(16);

test(`${paces} seeds: every prompt and every answer is the same with warming on, off and at any pace`, async () => {
  let warms = 0;
  for (let index = 0; index < paces; index++) {
    const random = new Random(`pace ${index}`);
    const graph = randomGraph(random);
    const pace = random.pick([
      { mode: "on" },
      { mode: "auto" },
      { mode: "on", chunk_tokens: 1 + random.int(64) },
      { mode: "auto", max_stall_ms: 1 + random.int(50) },
    ]);
    const said: unknown[] = [];
    for (const incremental_prefill of [{ mode: "off" }, pace]) {
      await play(`pace ${index}`, { ...graph, incremental_prefill }, async (_world, record) => {
        const ended = await record(`Question ${index}: why?`);
        assert.equal(ended.state, "done");
        said.push(saidBy(ended));
        warms += eventsOf(ended, "warm_done").length;
      }, 1 + random.int(2));
    }
    assert.deepEqual(said[1], said[0], `seed ${index}, ${JSON.stringify(pace)}`);
  }
  assert.ok(warms > 5 * paces, `${warms} warms`);
});

/** Three writers of two other models, and one reader on a server of its own. */
const aside = (incremental_prefill: unknown, slots = "declared", max_tokens = 1500) => ({
  layers: [
    {
      agents: [{ model: "4b" }, { model: "4b" }, { model: "8b" }],
      sampling: { max_tokens, ignore_eos: true },
    },
    { agents: [{ model: "32b" }], sampling: { max_tokens: 20 } },
  ],
  slots,
  incremental_prefill,
});

for (const slots of ["declared", "completion"]) {
  test(`The prompt is in the cache when it is sent, and starts ten times sooner (slots: ${slots})`, async () => {
    const startMs: number[] = [];
    for (const mode of ["off", "auto"]) {
      await play("aside", aside({ mode }, slots), async (_world, record) => {
        const ended = await record("What is the sum of all numbers below one hundred?");
        assert.equal(ended.state, "done");
        const reader = ended.agents.at(-1)!;
        startMs.push(reader.firstTokenAtMs! - reader.startedAtMs!);
        if (mode === "off") return;
        const stopped = eventsOf(ended, "warm_stopped", reader.id)[0];
        const usage = reader.usage!;
        assert.ok(usage.promptTokens > 4000);
        assert.ok(usage.cachedTokens! >= 0.98 * figure(stopped, "stable"), JSON.stringify([usage, stopped]));
        assert.ok(figure(stopped, "stable") >= 0.9 * usage.promptTokens);
        assert.equal(usage.warmTokens, figure(stopped, "computed"));
        assert.ok(usage.warmTokens! + usage.promptTokens - usage.cachedTokens! < usage.promptTokens + 16);
      });
    }
    assert.ok(startMs[1]! * 10 < startMs[0]!, `${startMs[0]} ms, warmed ${startMs[1]} ms`);
  });
}

test("The trace says how much of a prompt was certain when it was sent, however its warming was held back", async () => {
  const writer = (max_tokens: number) => ({ model: "32b", sampling: { max_tokens, ignore_eos: true } });
  const graph = {
    layers: [{ agents: [writer(50), writer(300)] }, { agents: [{ model: "32b" }] }],
    sampling: { max_tokens: 20 },
    incremental_prefill: { mode: "auto" },
  };
  await play("held", graph, async (_world, record) => {
    const ended = await record("What is certain?");
    const reader = ended.agents.at(-1)!;
    const stopped = eventsOf(ended, "warm_stopped", reader.id)[0];
    const { promptTokens } = reader.usage!;
    assert.ok(figure(stopped, "yielded") > 0);
    assert.ok(figure(stopped, "stable") > promptTokens - 8, JSON.stringify([promptTokens, stopped]));
  });
});

test("A raw prompt is warmed, too: it is sent as text and found in the cache", async () => {
  const raw = { text: "Q: [input_prompts]\n\n[responses]\n\nA:" };
  const { layers: [writers, readers], ...rest } = aside({ mode: "auto" }, "completion", 600);
  const graph = { ...rest, layers: [writers, { ...readers, prompt: "raw" }] };
  await play(
    "raw",
    graph,
    async (_world, record) => {
      const ended = await record("What is raw?");
      const reader = ended.agents.at(-1)!;
      assert.equal(reader.prompt?.kind, "text");
      assert.ok(eventsOf(ended, "warm_done").length > 8);
      const { cachedTokens, promptTokens } = reader.usage!;
      assert.ok(cachedTokens! >= 0.95 * promptTokens, `${cachedTokens} of ${promptTokens}`);
    },
    1,
    { raw },
  );
});

test("A reader's warms and its prompt go to one worker", async () => {
  await play("sticky", aside({ mode: "on" }), async (world, record) => {
    const ended = await Promise.all(["a", "b", "c", "d"].map((question) => record(question)));
    for (const run of ended) {
      const reader = run.agents.at(-1)!;
      const workers = new Set(eventsOf(run, "warm_sent", reader.id).map((event) => event.data?.["worker"]));
      assert.deepEqual([...workers], [reader.worker]);
    }
    assert.ok(new Set(ended.map((run) => run.agents.at(-1)!.worker)).size > 1, "all went to the same worker");
    assert.ok(engineTotals(world.workers).aborted === 0);
  }, 3);
});

test("A client that leaves at any time leaves nothing running", async () => {
  for (let index = 0; index < often(12); index++) {
    const random = new Random(`leave ${index}`);
    await play(`leave ${index}`, aside({ mode: "on" }, "declared", 400), async (world, record) => {
      const client = new AbortController();
      const left = world.clock.sleep(random.int(2500)).then(() => client.abort(new Error("gone")));
      const ended = await record("What now?", client.signal);
      assert.ok(ended.state === "cancelled" || ended.state === "done");
      await left;
    });
  }
});

test("Broken workers never change an answer because of a warm", async () => {
  let failedWarms = 0;
  const seeds = often(6);
  for (let index = 0; index < seeds; index++) {
    const random = new Random(`broken ${index}`);
    const graph = { ...aside({ mode: "on" }, "declared", 400), deadline_ms: 60_000 };
    let whole: unknown;
    for (const broken of [false, true]) {
      await play(`broken ${index}`, graph, async (world, record) => {
        const question = record("What is broken?");
        if (broken) {
          // Only the reader's workers, and only while the writers write: what breaks are warms.
          const readers = world.workers.filter(({ model }) => model === "32b");
          await world.clock.sleep(200 + random.int(1500));
          const kind = random.pick(["refuse", "status_500", "status_503", "reset", "hang", "slow"] as const);
          const count = 1 + random.int(3);
          random.pick(readers).simulator.inject({ kind, count, ...(kind === "slow" ? { value: 20 } : {}) });
        }
        const ended = await question;
        assert.equal(ended.state, "done", JSON.stringify([index, ended.error]));
        if (!broken) whole = saidBy(ended);
        else assert.deepEqual(saidBy(ended), whole);
        failedWarms += eventsOf(ended, "warm_failed").length;
      }, 2);
    }
  }
  assert.ok(failedWarms > seeds / 4, `${failedWarms} warms failed`);
});
