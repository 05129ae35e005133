import assert from "node:assert/strict";
import { test } from "node:test";
import { often } from "../../properties.ts";
import { Random } from "../../../base/random.ts";
import type { RunRecord } from "../../../router/moa/record/run_record.ts";
import type { TraceEvent } from "../../../router/moa/record/trace.ts";
import { createRouter } from "../../../router/router.ts";
import type { ExitPolicy } from "../../../scorer/policy/exit_policy.ts";
import { builtinTokenizer } from "../../../simulator/server/backend.ts";
import { services } from "../../router/moa/fake_scorer.ts";
import { ask } from "../warm_world.ts";
import { engineTotals, makeWorld, sizes } from "../world.ts";

/** Exits at random, and keeps some of the answers. */
function randomPolicy(random: Random): ExitPolicy {
  return {
    needs: { logprobs: false, similarity: undefined, verdicts: false },
    wants: () => ({ similarities: [], verdicts: [] }),
    decide: ({ cluster, completions }) => {
      const mine = random.stream(`${cluster} ${completions.length}`);
      const kept = completions.filter(() => mine.int(2) === 0);
      const keep = (kept.length === 0 ? completions : kept).map(({ agent }) => agent);
      return { exit: mine.int(2) === 0, keep, consensus: undefined, numbers: {} };
    },
  };
}

async function play(seed: string): Promise<RunRecord> {
  const random = new Random(seed);
  // Simulated models say the same to the same prompt, unless the seed tells them apart.
  const agents = [...sizes, ...sizes].map(({ name }, index) => ({ model: name, sampling: { seed: index } }));
  const world = makeWorld({
    seed,
    replicas: 1,
    graphs: {
      moa: {
        layers: [{ clusters: 2, agents }, { agents: [{ model: "8b" }, { model: "32b" }] }, {
          agents: [{ model: "4b" }],
        }],
        sampling: { max_tokens: 30 + random.int(200) },
        slots: random.pick(["declared", "completion"]),
        early_exit: { metric: "answer", min_agents: 2 },
        incremental_prefill: { mode: "on" },
      },
    },
    model: { tokenizer: "built-in" },
  });
  return await world.clock.run(async () => {
    const router = createRouter({
      config: world.config,
      clock: world.clock,
      random: world.random.stream("router"),
      transport: world.transport,
      loadTokenizer: () => Promise.resolve(builtinTokenizer()),
      earlyExit: services({ policyOf: () => randomPolicy(random.stream("exits")) }),
    });
    await router.ready();
    const record = await ask(router, "moa", `What does ${seed} mean?`);
    await world.clock.sleep(1000);
    assert.equal(engineTotals(world.workers).running, 0);
    await router.close();
    assert.equal(world.transport.inFlight, 0);
    return record;
  });
}

/** A successor's prompt holds the answers that were kept, in order, no others, and its ids are those of its text. */
function checkPrompts({ agents, events }: RunRecord): void {
  const tokenizer = builtinTokenizer();
  const readers: [string, string][] = [["l1.c1", "l2.c1.a1"], ["l1.c2", "l2.c1.a2"], ["l2.c1", "l3.c1.a1"]];
  for (const [cluster, reader] of readers) {
    const closed = events.find((event) => event.type === "cluster_closed" && event.cluster === cluster);
    const prompt = agents.find(({ id }) => id === reader)?.prompt;
    if (closed === undefined || prompt === undefined) continue;
    assert.ok(prompt.kind === "tokens", "the router makes the ids");
    const text = tokenizer.decode(prompt.ids);
    assert.deepEqual([...prompt.ids], tokenizer.encode(text));
    const kept = agentsIn(closed, "answers");
    const places = kept.map((id) => text.indexOf(textOf(agents, id)));
    assert.ok(places.every((place) => place >= 0), `${reader} does not read ${kept.join(", ")}`);
    for (const id of [...agentsIn(closed, "dropped"), ...agentsIn(closed, "unread")]) {
      const written = textOf(agents, id);
      if (written.length > 40) assert.ok(!text.includes(written), `${reader} reads ${id}`);
    }
  }
}

function agentsIn({ data }: TraceEvent, name: string): string[] {
  const list = data?.[name];
  return Array.isArray(list) ? list.map(String) : [];
}

function textOf(agents: RunRecord["agents"], id: string): string {
  return agents.find((agent) => agent.id === id)?.text.trim() ?? "";
}

test("however exits shrink what is read, a spliced and warmed prompt is exactly that of what was kept", async () => {
  const seeds = often(10);
  const seen = { exits: 0, unread: 0, warmed: 0 };
  for (let index = 0; index < seeds; index++) {
    const record = await play(`splice-${index}`);
    assert.equal(record.state, "done");
    checkPrompts(record);
    seen.exits += record.exits.filter(({ exit }) => exit).length;
    for (const event of record.events) {
      if (event.type === "cluster_closed") seen.unread += agentsIn(event, "unread").length;
      if (event.type === "warm_done") seen.warmed++;
    }
  }
  assert.ok(seen.exits >= seeds && seen.unread >= seeds / 3 && seen.warmed >= seeds, JSON.stringify(seen));
});
