import { Random } from "../../base/random.ts";
import { withAgents } from "./graphs.ts";
import type { ExperimentOptions } from "./modes.ts";
import type { ReplayAgent, ReplayRun } from "./recorded_graph.ts";
import { replayPrompts } from "./replay_prompts.ts";
import { makeExperimentWorld, type WorldModel } from "./world.ts";
import { meanOf, quantile, sumOf } from "../statistics/statistics.ts";
import type { Graph } from "../../router/moa/graph/graph_types.ts";
import type { RunRecord } from "../../router/moa/record/run_record.ts";
import type { Router } from "../../router/router.ts";
import { builtinTokenizer } from "../../simulator/server/backend.ts";
import type { SimulatorOptions } from "../../simulator/server/simulator_options.ts";
import type { ScriptedAnswers } from "../../simulator/text/scripted.ts";

/** The ways in which recorded runs are simulated. */
export const REPLAY_MODES = [
  { mode: "recorded", name: "as recorded" },
  { mode: "off", name: "#2 without incremental prefill" },
  { mode: "auto", name: "#3 with incremental prefill" },
] as const;

export type ReplayMode = (typeof REPLAY_MODES)[number]["mode"];

/** Options of `replayRuns`. */
export interface ReplayOptions extends ExperimentOptions {
  readonly runs: readonly ReplayRun[];
  readonly modes: readonly ReplayMode[];
  /** By the runs' models. */
  readonly modelCosts: ReadonlyMap<string, SimulatorOptions["cost"]>;
}

/** A recorded run and its simulation; times in ms from the run's start. */
export interface ReplayedRun {
  readonly id: string;
  readonly graph: string;
  readonly arrivalMs: number;
  readonly recordedMs: number;
  readonly simulatedMs: number;
  /** Simulated over recorded. */
  readonly ratio: number;
  /** Of the root; null where the record has none. */
  readonly recordedTtftMs: number | null;
  readonly simulatedTtftMs: number;
  readonly ttftRatio: number | null;
}

/** Figures of one mode over all runs; tokens are sums. */
export interface ReplayedRuns {
  readonly mode: ReplayMode;
  readonly name: string;
  readonly runs: readonly ReplayedRun[];
  readonly recordedMeanMs: number;
  readonly simulatedMeanMs: number;
  readonly medianRatio: number;
  /** Runs whose simulated latency is at most 10 % off. */
  readonly within: number;
  /** Those of `ttftRuns` whose time to the root's first token is. */
  readonly ttftWithin: number;
  readonly ttftRuns: number;
  readonly promptTokens: TokenPair;
  readonly completionTokens: TokenPair;
  readonly cachedTokens: TokenPair;
  readonly gpus: number;
}

/** Tokens of the records and of their simulation. */
export interface TokenPair {
  readonly recorded: number;
  readonly simulated: number;
}

/** A simulated latency is close to the recorded one when it is at most this share of it away. */
const CLOSE = 0.1;

/** Simulates recorded runs in virtual time, each mode in a world of its own. */
export async function replayRuns(options: ReplayOptions): Promise<ReplayedRuns[]> {
  const figures: ReplayedRuns[] = [];
  for (const { mode, name } of REPLAY_MODES) {
    if (!options.modes.includes(mode)) continue;
    options.onPart?.(`${options.runs.length} runs, ${name}`);
    figures.push(await replayOnce(options, mode, name));
  }
  return figures;
}

async function replayOnce(options: ReplayOptions, mode: ReplayMode, name: string): Promise<ReplayedRuns> {
  const { runs, serving, version, seed, slots, signal } = options;
  const shapes = new Shapes(slots);
  const names = runs.map((run) => shapes.nameOf(run, mode));
  const answers = reasoningAnswers(runs);
  const world = makeExperimentWorld({
    serving,
    version,
    seed,
    graphs: shapes.graphs,
    models: [...options.modelCosts].map(([model, cost], index): WorldModel => ({
      name: model,
      host: `m${index + 1}`,
      cost,
      answers,
    })),
  });
  const prompts = replayPrompts(runs, seed);
  const records: RunRecord[] = [];
  await world.clock.run(async () => {
    const router = world.router();
    try {
      await router.ready();
      await Promise.all(runs.map(async (run, index) => {
        await world.clock.sleep(run.arrivalMs, signal);
        const graph = graphOfRun(router, names[index]!, index, run, prompts[index]!);
        records[index] = await ask(router, graph, run, signal);
      }));
    } finally {
      await router.close();
    }
  });
  return figuresOf(runs, records, { mode, name, gpus: world.gpus });
}

/** The graphs of a configuration: one for each shape that runs have. */
class Shapes {
  readonly graphs: Record<string, unknown> = {};
  readonly #slots: ExperimentOptions["slots"];
  readonly #names = new Map<string, string>();

  constructor(slots: ExperimentOptions["slots"]) {
    this.#slots = slots;
  }

  nameOf({ agents, isIncremental }: ReplayRun, mode: ReplayMode): string {
    const prefill = mode === "recorded" ? (isIncremental ? "auto" : "off") : mode;
    const graph = {
      agents: Object.fromEntries(agents.map(({ id, model, reads }) => [id, { model, reads }])),
      incremental_prefill: { mode: prefill },
      slots: this.#slots,
    };
    const key = JSON.stringify(graph);
    let name = this.#names.get(key);
    if (name === undefined) {
      name = `replay/${this.#names.size + 1}`;
      this.#names.set(key, name);
      this.graphs[name] = graph;
    }
    return name;
  }
}

/** The run's graph, in which each agent has a prompt and an answer of the recorded lengths. */
function graphOfRun(
  router: Router,
  name: string,
  index: number,
  run: ReplayRun,
  prompts: ReadonlyMap<string, string>,
): Graph {
  const served = router.services.moa.graphs.get(name);
  if (served === undefined) throw new Error(`Cannot ask: the router does not serve the graph "${name}"`);
  const agents = new Map(run.agents.map((agent) => [agent.id, agent]));
  return withAgents(served, ({ id, sampling }) => {
    const { completionTokens, reasoningTokens } = agents.get(id)!;
    // Reasoning is told from the answer by its tags, which are special tokens.
    const shown = reasoningTokens > 0 ? { skip_special_tokens: false } : {};
    return {
      sampling: {
        ...sampling,
        seed: seedOf(index, run.agents.findIndex((agent) => agent.id === id)),
        max_tokens: completionTokens,
        extra: { ...sampling.extra, ignore_eos: true, ...shown },
      },
      template: {
        kind: "messages",
        messages: [{
          kind: "open",
          base: { role: "user", content: "" },
          parts: [],
          pieces: [{ kind: "literal", text: prompts.get(id)! }, { kind: "responses" }],
        }],
        responses: { item: [{ kind: "answer" }], separator: SEPARATOR },
      },
    };
  });
}

/** Stands between two answers; a token. */
const SEPARATOR = "\n";

/** Most agents of a graph. */
const SEEDS_OF_RUN = 1024;

function seedOf(run: number, agent: number): number {
  return run * SEEDS_OF_RUN + agent;
}

/** Answers that begin with reasoning, where agents have reasoned; undefined where none has. */
function reasoningAnswers(runs: readonly ReplayRun[]): ScriptedAnswers | undefined {
  const texts = new Map<number, string>();
  const random = new Random("reasoning");
  for (const [index, { agents }] of runs.entries()) {
    for (const [at, agent] of agents.entries()) {
      if (agent.reasoningTokens > 0) texts.set(seedOf(index, at), reasoningOf(agent, random));
    }
  }
  if (texts.size === 0) return undefined;
  return {
    answer(_, seed) {
      const text = seed === undefined ? undefined : texts.get(seed);
      return text === undefined ? undefined : { text, doubt: 1 };
    },
  };
}

function reasoningOf({ reasoningTokens }: ReplayAgent, random: Random): string {
  const tokenizer = builtinTokenizer();
  const [word] = tokenizer.encode(" the");
  // Its two tags are tokens, too.
  const ids = Array.from({ length: Math.max(0, reasoningTokens - 2) }, () => word!);
  return `<think>${tokenizer.decode(ids)}</think>${random.int(10)}`;
}

async function ask(router: Router, graph: Graph, run: ReplayRun, signal: AbortSignal): Promise<RunRecord> {
  const started = router.services.moa.start(graph, {
    question: { kind: "chat", messages: [] },
    rootSampling: {},
    choices: 1,
  }, signal);
  for await (const _event of started.output) { /* A client that reads as fast as it can. */ }
  await started.ended;
  const record = started.record();
  if (record.state !== "done") {
    throw new Error(`The simulation of ${run.id} did not end well: ${record.error?.message ?? record.state}`);
  }
  return record;
}

function figuresOf(
  runs: readonly ReplayRun[],
  records: readonly RunRecord[],
  { mode, name, gpus }: Pick<ReplayedRuns, "mode" | "name" | "gpus">,
): ReplayedRuns {
  const replayed = runs.map((run, index): ReplayedRun => {
    const root = records[index]!.agents.find(({ id }) => id === run.agents.at(-1)!.id);
    const simulatedMs = root?.endedAtMs ?? NaN;
    const simulatedTtftMs = root?.firstTokenAtMs ?? NaN;
    return {
      id: run.id,
      graph: run.graph,
      arrivalMs: run.arrivalMs,
      recordedMs: run.e2eMs,
      simulatedMs,
      ratio: simulatedMs / run.e2eMs,
      recordedTtftMs: run.ttftMs ?? null,
      simulatedTtftMs,
      ttftRatio: run.ttftMs === undefined ? null : simulatedTtftMs / run.ttftMs,
    };
  });
  const ttftRatios = replayed.flatMap(({ ttftRatio }) => ttftRatio ?? []);
  const isClose = (ratio: number) => Math.abs(ratio - 1) <= CLOSE;
  const recorded = (of: (agent: ReplayAgent) => number) =>
    sumOf(runs.flatMap(({ agents }) => agents.map(of)));
  const simulated = (of: (usage: RunRecord["usage"]) => number) =>
    sumOf(records.map(({ usage }) => of(usage)));
  return {
    mode,
    name,
    gpus,
    runs: replayed,
    recordedMeanMs: meanOf(replayed.map(({ recordedMs }) => recordedMs)),
    simulatedMeanMs: meanOf(replayed.map(({ simulatedMs }) => simulatedMs)),
    medianRatio: quantile(replayed.map(({ ratio }) => ratio).sort((a, b) => a - b), 0.5),
    within: replayed.filter(({ ratio }) => isClose(ratio)).length,
    ttftWithin: ttftRatios.filter(isClose).length,
    ttftRuns: ttftRatios.length,
    promptTokens: {
      recorded: recorded(({ promptTokens }) => promptTokens),
      simulated: simulated(({ promptTokens }) => promptTokens),
    },
    completionTokens: {
      recorded: recorded(({ completionTokens }) => completionTokens),
      simulated: simulated(({ completionTokens }) => completionTokens),
    },
    cachedTokens: {
      recorded: sumOf(runs.map(({ cachedTokens }) => cachedTokens)),
      simulated: simulated(({ cachedTokens = 0 }) => cachedTokens),
    },
  };
}
