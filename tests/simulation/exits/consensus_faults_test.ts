import assert from "node:assert/strict";
import process from "node:process";
import { test } from "node:test";
import { Random } from "../../../base/random.ts";
import type { Fault } from "../../../simulator/engine/faults.ts";
import { QUESTIONS } from "../../../simulator/text/questions.ts";
import { scriptedAnswers } from "../../../simulator/text/scripted.ts";
import { services } from "../../router/moa/fake_scorer.ts";
import { engineTotals, makeWorld, sizes, type World } from "../world.ts";

/** `CANOPY_EXIT_SEEDS=1000` plays as many; on Bun, where virtual timers take longer, a few have to do. */
const SEEDS = Number(process.env["CANOPY_EXIT_SEEDS"] ?? ("Deno" in globalThis ? 24 : 8));

const FAULTS: readonly Fault["kind"][] = ["refuse", "status_500", "status_503", "reset", "truncate", "slow"];
const SKILLS = { "4b": 0.6, "8b": 0.7, "32b": 0.85 };
const COINCIDENCE = 0.3;

interface Vote {
  readonly agent: string;
  readonly model: keyof typeof SKILLS;
  readonly text: string;
  readonly value: string;
}

interface Decision {
  readonly exit: boolean;
  readonly agent?: string;
  readonly reason?: string;
  readonly votes: readonly Vote[];
  readonly rule: "agree" | "posterior";
  readonly needed?: number;
  readonly level?: number;
  readonly posterior?: number;
  readonly open?: readonly string[];
  readonly undecided?: boolean;
  readonly undecided_posterior?: number;
  readonly undecided_level?: number;
}

/** A run's record as a client gets it. */
interface Recorded {
  readonly state: string;
  readonly root_skipped: boolean;
  readonly rewrite: { readonly given: string } | null;
  readonly agents: readonly { readonly state: string; readonly text: string }[];
  readonly usage: { readonly spent?: { readonly ended_by: string | null } };
  readonly events: readonly { readonly type: string; readonly data?: Decision }[];
}

function randomGraph(random: Random): object {
  const agents = sizes.map(({ name }) => ({ model: name }));
  const rule = random.pick([{ agree: 2 }, { agree: 3 }, { agree: 4 }, {
    posterior: 0.9,
    skills: SKILLS,
    coincidence: COINCIDENCE,
  }]);
  return {
    sampling: { max_tokens: 400, temperature: 1 },
    layers: [{ clusters: 3, agents }, { agents }, { agents: [{ model: "32b" }] }],
    incremental_prefill: { mode: random.pick(["off", "on"]) },
    early_exit: {
      scope: "run",
      diversity_guard: false,
      consensus: {
        ...rule,
        best: random.pick(["largest", "first"]),
        finish: random.pick(["text", "text", "rewrite"]),
        cut: random.pick(["never", "decided"]),
        undecided: random.pick(["root", "leader"]),
        undecided_level: 0.5,
        ...(random.int(3) === 0 ? { start: "staged", stage_ms: 1 + random.int(3_000) } : {}),
      },
    },
  };
}

/** Faults of random kinds at random moments of the run; true when one cuts a stream. */
function strike(world: World, random: Random, signal: AbortSignal): boolean {
  let cuts = false;
  for (let fault = random.int(6); fault > 0; fault--) {
    const kind = random.pick(FAULTS);
    cuts ||= kind === "truncate";
    const value = kind === "truncate" ? random.int(60) : 1 + random.int(10);
    const simulator = random.pick(world.workers).simulator;
    const inject = () => simulator.inject({ kind, count: 1 + random.int(3), value });
    if (random.int(2) === 0) inject();
    else world.clock.sleep(random.int(2_000), signal).then(inject, () => {});
  }
  return cuts;
}

/** Asks over HTTP in a world of this seed; what the client has read, and the record. */
async function play(seed: string) {
  const random = new Random(seed).stream("scenario");
  const world = makeWorld({
    seed,
    replicas: 2,
    graphs: { moa: randomGraph(random) },
    model: { retries: random.int(3) },
    answersOf: (size) => scriptedAnswers({ size, seed }),
    earlyExit: () => services({ policyOf: () => undefined }),
  });
  return await world.clock.run(async () => {
    const router = world.router();
    await router.ready();
    const over = new AbortController();
    const cuts = strike(world, random, over.signal);
    const { question } = random.pick(QUESTIONS.filter(({ kind }) => kind !== "open"));
    const stream = random.int(2) === 0;
    const budget = random.int(4) === 0 ? { budget: { latency_ms: 200 + random.int(3_000) } } : {};
    const body = {
      model: "moa",
      stream,
      messages: [{ role: "user", content: question }],
      canopy: budget,
      seed: 7,
    };
    const client = new AbortController();
    if (random.int(6) === 0) {
      world.clock.sleep(random.int(3_000), over.signal).then(() => client.abort(new Error("left")), () => {});
    }
    const response = await router.app.request("/v1/chat/completions", {
      method: "POST",
      body: JSON.stringify(body),
      headers: { "content-type": "application/json" },
      signal: client.signal,
    });
    const text = await read(response, stream).catch(() => undefined);
    over.abort();
    // A simulated engine goes on with a request whose stream it has cut itself.
    await world.clock.sleep(cuts ? 120_000 : 1_000);
    assert.equal(
      engineTotals(world.workers).running,
      0,
      `${seed}: an engine still works after the run`,
    );
    for (const model of router.services.models.values()) {
      for (const worker of model.pool.workers()) assert.equal(worker.inFlight, 0, `${seed}: ${worker.url}`);
    }
    const [run] = router.services.moa.list();
    const record: Recorded = await (await router.app.request(`/v1/runs/${run!.id}`)).json();
    await router.close();
    assert.equal(world.transport.inFlight, 0, `${seed}: an exchange is still open`);
    return { text, record };
  }, { limitMs: 1e7 });
}

/** The text of an answer; undefined of one that failed. */
async function read(response: Response, stream: boolean): Promise<string | undefined> {
  const body = await response.text();
  if (response.status !== 200) return undefined;
  if (!stream) return JSON.parse(body).choices[0].message.content;
  const events = body.split("\n\n").filter((event) => event.startsWith("data: {")).map((event) =>
    JSON.parse(event.slice("data: ".length))
  );
  if (events.some(({ error }) => error !== undefined)) return undefined;
  return events.map(({ choices }) => choices[0]?.delta?.content ?? "").join("");
}

/** Equal answers by hand: these questions have numbers and choices, whose values are equal as texts. */
function groupsOf(votes: readonly Vote[]): Vote[][] {
  return [...Map.groupBy(votes, ({ value }) => value).values()];
}

/** Probability that a group is right, by the formula of docs/early_exit.md, with one kind of questions. */
function posteriorOf(groups: readonly Vote[][], at: number): number {
  const theta = (1 - COINCIDENCE) / COINCIDENCE;
  const likelihood = (right: number) => {
    let product = 1;
    let wrong = 0;
    for (const [index, group] of groups.entries()) {
      for (const [place, { model }] of group.entries()) {
        product *= index === right ? SKILLS[model] : 1 - SKILLS[model];
        if (index !== right) product *= (place === 0 ? theta : place) / (theta + wrong++);
      }
    }
    return product;
  };
  const all = [-1, ...groups.keys()].map(likelihood);
  return likelihood(at) / all.reduce((sum, one) => sum + one, 0);
}

/** The group that leads an undecided run, and the probability that it is right; undefined where the run goes on. */
function leadingOf(groups: readonly Vote[][], { rule, undecided_level: level = 1 }: Decision) {
  const agreed = groups.filter(({ length }) => length > 1);
  if (agreed.length === 0) return undefined;
  const most = Math.max(...agreed.map(({ length }) => length));
  // Of equally large groups anyone's may be the best text.
  if (rule === "agree") return { group: agreed.filter(({ length }) => length === most).flat(), right: NaN };
  const all = agreed.map((group) => ({ group, right: posteriorOf(groups, groups.indexOf(group)) }));
  const best = all.reduce((one, other) => other.right > one.right ? other : one);
  return best.right >= level ? best : undefined;
}

/** Redoes a run's decisions from its record alone; the agreed answer's text where it ended by one. */
function redo(seed: string, { events }: Recorded): string | undefined {
  const decisions = events.flatMap(({ type, data }) => type === "consensus_decided" ? [data!] : []);
  for (const [index, decision] of decisions.entries()) {
    const { exit, agent, reason, votes, rule, needed = 0, level = 1, posterior, open } = decision;
    const groups = groupsOf(votes);
    const most = Math.max(0, ...groups.map(({ length }) => length));
    const leader = groups.findIndex(({ length }) => length === most);
    const holds = rule === "agree" ? most >= needed : most > 1 && posteriorOf(groups, leader) >= level;
    if (rule === "posterior" && most > 0) {
      assert.ok(Math.abs(posteriorOf(groups, leader) - posterior!) < 1e-9, `${seed}: posterior ${posterior}`);
    }
    assert.ok(open?.every((id) => votes.every((vote) => vote.agent !== id)) ?? true, `${seed}: ${open}`);
    const isUndecided = !holds && open?.length === 0;
    assert.equal(decision.undecided === true, isUndecided, `${seed}: decision ${index}`);
    const leading = isUndecided ? leadingOf(groups, decision) : undefined;
    if (leading !== undefined && rule === "posterior") {
      assert.ok(Math.abs(leading.right - decision.undecided_posterior!) < 1e-9, `${seed}: ${leading.right}`);
    }
    assert.equal(
      exit,
      (holds || leading !== undefined) && reason === undefined,
      `${seed}: decision ${index}`,
    );
    if (!exit) continue;
    assert.equal(index, decisions.length - 1, `${seed}: a decision after the exit`);
    const own = votes.find((vote) => vote.agent === agent);
    const agreed = leading === undefined ? groups.filter(({ length }) => length === most) : [leading.group];
    assert.ok(agreed.some((group) => group.includes(own!)), `${seed}: ${agent}`);
    return own!.text;
  }
  return undefined;
}

test(`${SEEDS} seeds of faults over HTTP: every decision can be redone, an early answer was agreed, nothing is left`, async () => {
  const outcomes = { exits: 0, rewrites: 0, budgets: 0, roots: 0, failed: 0 };
  for (let number = 0; number < SEEDS; number++) {
    const seed = `exits/${number}`;
    const { text, record } = await play(seed);
    const agreed = redo(seed, record);
    assert.ok(
      record.agents.every(({ state }) => !["running", "queued"].includes(state)),
      `${seed}: agents work`,
    );
    const stated = [...(text ?? "").matchAll(/The answer is ([^\n]*)\./g)].map((match) => match[1]!.trim())
      .at(-1);
    if (text === undefined || record.state !== "done") outcomes.failed++;
    else if (agreed !== undefined) {
      outcomes.exits++;
      if (record.rewrite !== null) outcomes.rewrites++;
      assert.equal(stated, agreed.replace(/\.$/, ""), `${seed}: ${text}`);
    } else if (typeof record.usage.spent?.ended_by === "string") outcomes.budgets++;
    else {
      outcomes.roots++;
      assert.equal(text, record.agents.at(-1)?.text, seed);
    }
  }
  assert.ok(outcomes.exits > SEEDS / 4, JSON.stringify(outcomes));
});

test("the same seed decides the same over HTTP, at the same moments", async () => {
  for (const seed of ["exits/1", "exits/4"]) {
    const [one, other] = [await play(seed), await play(seed)];
    assert.equal(one.text, other.text);
    assert.deepEqual(one.record.events, other.record.events);
  }
});
