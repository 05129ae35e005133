import assert from "node:assert/strict";
import { test } from "node:test";
import type { JsonObject } from "../../../../base/json.ts";
import { fc } from "../../../properties.ts";
import type { RunRecord } from "../../../../router/moa/record/run_record.ts";
import type { Script } from "../fake_engine.ts";
import { services } from "../fake_scorer.ts";
import { makeWorld, type World } from "../run_harness.ts";
import { played, solution } from "./consensus_world.ts";

/** A member of the first layer: its answer (none: it says nothing final), its pace, and whether it fails. */
interface Leaf {
  readonly answer: number | undefined;
  readonly stepMs: number;
  readonly fails: boolean;
}

/** What the trace says of a cut. */
interface Figures {
  readonly open: readonly string[];
  readonly cut: readonly string[];
  readonly agreeing: readonly string[];
  readonly needed: number;
  readonly most: number;
}

const LEAF: Leaf = { answer: 1, stepMs: 10, fails: false };

/** A tree of nine leaves, three aggregators and a root; who reads others says what most of them say. */
function treeWorld(
  leaves: readonly Leaf[],
  consensus: JsonObject,
  { more = {}, paceMs = [10, 10, 10] }: { more?: JsonObject; paceMs?: readonly number[] } = {},
): World {
  const agents = [{}, {}, {}].map(() => ({ model: "a" }));
  let asked = 0;
  let aggregated = 0;
  return makeWorld({
    graph: {
      layers: [{ clusters: 3, agents }, { agents }, { agents: [{ model: "a" }] }],
      early_exit: { scope: "run", consensus, ...more },
    },
    modelFields: { model: "org/model" },
    prompts: {
      propose: "leaf [input_prompts]",
      aggregate: "mid [responses]",
      synthesize: "root [responses]",
    },
    script: ({ prompt }) => {
      if (prompt.includes("leaf")) return leafScript(leaves[asked++]!);
      const stepMs = prompt.includes("mid") ? paceMs[aggregated++]! : 1;
      const most = mostFrequent(prompt);
      return { pieces: most === undefined ? ["I cannot tell."] : solution(most), stepMs };
    },
    earlyExit: () => services({ policyOf: () => undefined }),
  });
}

function leafScript({ answer, stepMs, fails }: Leaf): Script {
  const pieces = answer === undefined ? ["I cannot ", "tell."] : solution(String(answer));
  return fails
    ? { pieces, stepMs, failAt: { piece: 1, error: new Error("broken") } }
    : { pieces, startMs: 5, stepMs };
}

/** The answer that most of the read texts announce; of equally frequent ones the least. */
function mostFrequent(prompt: string): string | undefined {
  const counts = new Map<string, number>();
  for (const [, value = ""] of prompt.matchAll(/The answer is (\d)\./g)) {
    counts.set(value, (counts.get(value) ?? 0) + 1);
  }
  return [...counts].sort(([a, m], [b, n]) => n - m || a.localeCompare(b))[0]?.[0];
}

/** Three clusters of answers, each member slower than the one before it. */
function clustersOf(...clusters: readonly (readonly number[])[]): Leaf[] {
  return clusters.flat().map((answer, place) => ({ ...LEAF, answer, stepMs: 10 + place }));
}

test("a member whose vote can change neither its cluster nor the run is ended on its engine, and the record says why", async () => {
  const leaves = clustersOf([1, 1, 2], [2, 2, 1], [3, 3, 3]);
  const slow = leaves.map((leaf, place) => place === 2 ? { ...leaf, stepMs: 1_000 } : leaf);
  const waited = await played(treeWorld(slow, { agree: 7 }));
  const world = treeWorld(slow, { agree: 7, cut: "decided" });
  const cut = await played(world);
  assert.equal(cut.text, waited.text);
  assert.ok(cut.answeredMs < waited.answeredMs / 5, `${cut.answeredMs} of ${waited.answeredMs} ms`);
  const [event, ...others] = cut.record.events.filter(({ type }) => type === "agent_cut");
  assert.deepEqual(others, []);
  assert.deepEqual([event?.agent, event?.cluster], ["l1.c1.a3", "l1.c1"]);
  const { saved_tokens: saved, open, ...figures } = event!.data!;
  // The two that are equal, itself and all who had not ended: seven equal ones could not come together.
  assert.deepEqual(figures, {
    reason: "its vote could not matter",
    cut: ["l1.c1.a3"],
    agreeing: ["l1.c1.a1", "l1.c1.a2"],
    needed: 7,
    most: 3 + (open as string[]).length,
  });
  assert.ok(Number(saved) > 0 && (open as string[]).includes("l1.c1.a3"));
  assert.deepEqual(cut.record.cuts, [
    { agent: "l1.c1.a3", cluster: "l1.c1", atMs: event!.atMs, savedTokens: saved },
  ]);
  const agent = cut.record.agents.find(({ id }) => id === "l1.c1.a3");
  assert.deepEqual([agent?.state, agent?.error], [
    "cancelled",
    "Its vote could not matter: l1.c1 is decided without it",
  ]);
  assert.ok((cut.usage.wastedTokens ?? 0) > 0 && (cut.usage.savedTokens ?? 0) >= Number(saved));
  assert.deepEqual([waited.record.cuts, waited.usage.savedTokens], [undefined, undefined]);
});

test("nobody is ended whose vote the run may still need, who is never skipped, or where nothing may end early", async () => {
  const leaves = clustersOf([1, 1, 2], [2, 2, 1], [3, 3, 3]);
  const slow = leaves.map((leaf, place) => place === 2 ? { ...leaf, stepMs: 1_000 } : leaf);
  const cutIn = async (consensus: JsonObject, more: JsonObject = {}, text = "How many are left?") => {
    const world = treeWorld(slow, { cut: "decided", ...consensus }, { more });
    return (await played(world, { question: { kind: "text", text } })).record.cuts;
  };
  assert.equal((await cutIn({ agree: 7 }))?.length, 1);
  assert.equal((await cutIn({ share: 7 / 9 }))?.length, 1);
  // Of the two who say 2, the one at work and three aggregators may still make six.
  assert.equal(await cutIn({ agree: 5 }), undefined);
  assert.equal(await cutIn({ agree: 7 }, { never_skip: ["l1.c1.a3"] }), undefined);
  assert.equal(await cutIn({ agree: 7 }, {}, "Write a poem about autumn"), undefined);
  assert.equal(await cutIn({ posterior: 0.999_999 }), undefined);
  assert.equal(await cutIn({ agree: 7, undecided: "leader" }), undefined);
});

/** Redoes by hand, from the record alone, that nobody who was ended could have changed anything. */
function redoCuts({ events }: RunRecord): void {
  for (const [index, { type, data }] of events.entries()) {
    if (type !== "agent_cut") continue;
    const { open, cut, agreeing, needed, most } = data as Partial<Figures> as Figures;
    const decided = events.slice(0, index).findLast(({ type }) => type === "consensus_decided")?.data;
    const votes = (decided?.["votes"] ?? []) as { agent: string; value: string }[];
    const cast = Map.groupBy(votes.filter(({ agent }) => !open.includes(agent)), ({ value }) => value);
    const largest = Math.max(0, ...[...cast.values()].map(({ length }) => length));
    assert.deepEqual([most, most < needed], [largest + open.length, true]);
    const values = agreeing.map((agent) => votes.find((vote) => vote.agent === agent)?.value);
    assert.equal(new Set(values).size, 1);
    // Clusters are of three: of those who have voted otherwise there is at most one.
    assert.ok(cut.length === 1 && agreeing.length === 2 && open.includes(cut[0]!));
  }
}

test("whatever the votes and their order, a run with cuts answers as one without, and nothing is left running", async () => {
  const leaf = fc.record({
    answer: fc.option(fc.integer({ min: 1, max: 3 }), { nil: undefined, freq: 8 }),
    stepMs: fc.integer({ min: 1, max: 400 }),
    fails: fc.integer({ min: 0, max: 15 }).map((draw) => draw === 0),
  });
  const rule = fc.oneof(
    fc.integer({ min: 4, max: 9 }).map((agree) => ({ agree })),
    fc.integer({ min: 4, max: 9 }).map((of) => ({ share: of / 9 })),
  );
  const pace = fc.array(fc.integer({ min: 1, max: 400 }), { minLength: 3, maxLength: 3 });
  let cuts = 0;
  let runs = 0;
  await fc.assert(
    fc.asyncProperty(
      fc.array(leaf, { minLength: 9, maxLength: 9 }),
      rule,
      pace,
      async (leaves, consensus, paceMs) => {
        const outcome = async (cut: string) => {
          const world = treeWorld(leaves, { ...consensus, cut }, { paceMs });
          const done = await played(world).catch(() => undefined);
          world.assertIdle();
          return done;
        };
        const [never, decided] = [await outcome("never"), await outcome("decided")];
        assert.equal(decided?.text, never?.text);
        assert.equal(decided?.record.rootSkipped, never?.record.rootSkipped);
        if (decided === undefined || never === undefined) return;
        runs++;
        const cutAgents = decided.record.cuts ?? [];
        cuts += cutAgents.length;
        if (cutAgents.length === 0) assert.deepEqual(decided.record.events, never.record.events);
        else assert.ok(decided.answeredMs <= never.answeredMs);
        redoCuts(decided.record);
      },
    ),
    { numRuns: 100 },
  );
  assert.ok(runs > 60 && cuts > 1, `${cuts} cuts in ${runs} runs`);
});
