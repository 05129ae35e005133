import { VirtualClock } from "../../base/clock.ts";
import { Random } from "../../base/random.ts";
import { CanopyError } from "../../base/errors.ts";
import { configSchema, hedgeSchema, type HedgeSettings } from "../../cfgs/schema/config.ts";
import type { HedgeRecord } from "../../router/moa/record/run_record.ts";
import { createRouter, type Router } from "../../router/router.ts";
import { MemoryTransport } from "../../router/transport/memory.ts";
import { builtinTokenizer } from "../../simulator/server/backend.ts";
import type { Simulator } from "../../simulator/server/simulator_options.ts";
import { createSimulator } from "../../simulator/simulator.ts";
import { QUESTIONS } from "../../simulator/text/questions.ts";
import { scriptedAnswers } from "../../simulator/text/scripted.ts";
import { type Summary, summaryOf } from "../statistics/statistics.ts";
import { askAll } from "./workloads/question_arrivals.ts";

/** How one of a model's workers is slow. */
export type Straggling = "now and then" | "always";

/** Ways of being slow, as reports say them. */
export const STRAGGLINGS: Readonly<Record<Straggling, string>> = {
  "now and then": "before each tenth question or so one of the four is made 10 times as slow for one answer",
  "always": "one of the four is always 4 times as slow",
};

/** Options of `measureHedge`. */
export interface HedgeOptions {
  readonly straggling: Straggling;
  /** Of the model whose worker is slow; undefined: no agent is started twice. */
  readonly hedge: HedgeSettings | undefined;
  /** A policy of the configuration. */
  readonly policy: string;
  /** More than `LEARNING`. */
  readonly questions: number;
  /** Questions at the same time. */
  readonly clients: number;
  readonly seed: string;
  readonly signal: AbortSignal;
}

/** Late agents that are started a second time, or none; as `after/max_share`, such as `p95/0.05`. */
export const HEDGES = ["none", "p95/0.05", "p95/0.1", "p70/0.4"] as const;

/** One of `HEDGES`, or another in the same form. Throws `invalid_config` (400) for one that a configuration refuses. */
export function hedgeNamed(name: string): HedgeSettings | undefined {
  if (name === "none") return undefined;
  const [after, share] = name.split("/");
  const { data, error } = hedgeSchema.safeParse({ after, max_share: Number(share) });
  if (data === undefined) {
    throw new CanopyError(`"${name}" is not after/max_share, such as p95/0.05: ${error.issues[0]?.message}`, {
      code: "invalid_config",
      status: 400,
    });
  }
  return data;
}

/** One trial; durations in ms, of whole runs. */
export interface HedgeFigures {
  /** Questions behind the first `LEARNING`. */
  readonly e2eMs: Summary;
  /** Agents that may be started twice. */
  readonly agents: number;
  readonly second: Readonly<Record<NonNullable<HedgeRecord["outcome"]>, number>>;
  /** Of all tokens that were written. */
  readonly wastedShare: number;
  /** Requests of each of the model's workers, the slow one first where one is always slow. */
  readonly perWorker: readonly number[];
  readonly texts: readonly string[];
}

/** A trial among those of `compareHedges`. */
export interface HedgeResult extends Pick<HedgeOptions, "straggling" | "policy"> {
  /** As `hedgeNamed` takes it. */
  readonly hedge: string;
  readonly figures: HedgeFigures;
}

/** Every policy with every hedge, and both ways of being slow. */
export async function compareHedges(
  { policies, hedges, onPart, ...common }:
    & Omit<HedgeOptions, "straggling" | "policy" | "hedge">
    & {
      readonly policies: readonly HedgeOptions["policy"][];
      readonly hedges: readonly string[];
      readonly onPart?: ((part: string) => void) | undefined;
    },
): Promise<HedgeResult[]> {
  const results: HedgeResult[] = [];
  for (const straggling of ["now and then", "always"] as const) {
    for (const policy of policies) {
      for (const hedge of hedges) {
        onPart?.(`${straggling}: ${policy}, ${hedge}`);
        const figures = await measureHedge({ ...common, straggling, policy, hedge: hedgeNamed(hedge) });
        results.push({ straggling, policy, hedge, figures });
      }
    }
  }
  return results;
}

/** Workers of the model whose agents may be started twice. */
const WORKERS = 4;
/** Questions at the beginning that no figure counts: until then too few times are known to call anything late. */
export const LEARNING = 20;
const LEAVES = "8b";
const ROOT = "4b";

/** Asks questions of three agents of a model on four workers and a root of another model, in virtual time. */
export async function measureHedge(options: HedgeOptions): Promise<HedgeFigures> {
  const clock = new VirtualClock();
  const { straggling, questions, clients, seed, signal } = options;
  const { router, leafWorkers, servers } = worldOf(options, clock);
  const asked = QUESTIONS.filter(({ kind }) => kind !== "open");
  return await clock.run(async () => {
    await router.ready();
    if (straggling === "always") leafWorkers[0]!.inject({ kind: "slow", count: Infinity, value: 4 });
    const before = leafWorkers.map(({ stats }) => stats.requests);
    const runs: AskedRun[] = [];
    await askAll({ count: questions, arrivals: clients, seed, clock, signal }, async (index) => {
      const random = new Random(`${seed}/${index}`);
      if (straggling === "now and then" && random.int(10) === 0) {
        random.pick(leafWorkers).inject({ kind: "slow", count: 1, value: 10 });
      }
      runs[index] = await ask(router, asked[index % asked.length]!.question, signal);
    });
    // An engine hears of an abort a little later than the router goes on.
    await clock.sleep(60_000);
    const left = servers.reduce((sum, server) => sum + server.running, 0);
    if (left > 0) throw new Error(`${left} requests are still at work on the engines`);
    await router.close();
    const perWorker = leafWorkers.map(({ stats }, at) => stats.requests - before[at]!);
    return figuresOf(runs, perWorker);
  }, { limitMs: 1e9 });
}

interface AskedRun {
  readonly text: string;
  readonly e2eMs: number;
  readonly agents: number;
  readonly hedges: readonly HedgeRecord[];
  readonly tokens: number;
  readonly wasted: number;
}

async function ask(router: Router, question: string, signal: AbortSignal): Promise<AskedRun> {
  const { moa } = router.services;
  const graph = moa.graphs.get("tree")!;
  const run = moa.start(graph, {
    question: { kind: "chat", messages: [{ role: "user", content: question }] },
    rootSampling: {},
    choices: 1,
  }, signal);
  let text = "";
  for await (const event of run.output) if (event.type === "delta") text += event.delta.text;
  await run.ended;
  const { agents, usage, events } = run.record();
  const done = events.find(({ type }) => type === "run_done");
  if (done === undefined) throw new Error(`The run did not end well: ${run.record().error?.message}`);
  return {
    text,
    e2eMs: done.atMs,
    agents: agents.length - 1,
    hedges: agents.flatMap(({ hedge }) => hedge ?? []),
    tokens: usage.completionTokens,
    wasted: usage.wastedTokens,
  };
}

function figuresOf(runs: readonly AskedRun[], perWorker: readonly number[]): HedgeFigures {
  const counted = runs.slice(LEARNING);
  const second = { won: 0, lost: 0, failed: 0 };
  for (const { outcome } of counted.flatMap(({ hedges }) => hedges)) second[outcome ?? "lost"]++;
  const sum = (of: (run: AskedRun) => number) => counted.reduce((all, run) => all + of(run), 0);
  return {
    e2eMs: summaryOf(counted.map(({ e2eMs }) => e2eMs)),
    agents: sum(({ agents }) => agents),
    second,
    wastedShare: sum(({ wasted }) => wasted) / sum(({ tokens }) => tokens),
    perWorker,
    texts: runs.map(({ text }) => text),
  };
}

interface HedgeWorld {
  readonly router: Router;
  readonly leafWorkers: readonly Simulator[];
  readonly servers: readonly Simulator[];
}

function worldOf({ hedge, policy, seed }: HedgeOptions, clock: VirtualClock): HedgeWorld {
  const serverOf = (size: typeof LEAVES | typeof ROOT) =>
    createSimulator({
      engine: "sglang",
      models: [size],
      cost: size,
      clock,
      seed,
      answers: scriptedAnswers({ size, seed }),
    });
  const leafWorkers = Array.from({ length: WORKERS }, () => serverOf(LEAVES));
  const servers = new Map([
    ...leafWorkers.map((server, at) => [`${LEAVES}-${at}.sim`, server] as const),
    [`${ROOT}.sim`, serverOf(ROOT)],
  ]);
  const hosts = (size: string) => [...servers.keys()].filter((host) => host.startsWith(size));
  const modelOf = (size: string) => ({
    model: size,
    engine: "sglang",
    tokenizer: "built-in",
    workers: hosts(size).map((host) => `http://${host}`),
    max_in_flight: 100_000,
    policy,
  });
  const config = configSchema.parse({
    server: { max_running: 10_000, max_queued: 10_000 },
    models: {
      [LEAVES]: { ...modelOf(LEAVES), ...(hedge === undefined ? {} : { hedge }) },
      [ROOT]: modelOf(ROOT),
    },
    graphs: {
      tree: {
        sampling: { max_tokens: 120, temperature: 1 },
        layers: [
          { agents: [0, 1, 2].map((place) => ({ model: LEAVES, sampling: { seed: place } })) },
          { agents: [{ model: ROOT, sampling: { seed: 1 } }] },
        ],
        incremental_prefill: { mode: "off" },
      },
    },
  });
  const router = createRouter({
    config,
    clock,
    random: new Random(seed).stream("router"),
    transport: new MemoryTransport((request) => {
      const server = servers.get(new URL(request.url).hostname);
      return server === undefined ? undefined : (outgoing, signal) => server.handle(outgoing, signal);
    }),
    loadTokenizer: () => Promise.resolve(builtinTokenizer()),
  });
  return { router, leafWorkers, servers: [...servers.values()] };
}
