import { arrivalsOf, arrivalsText, type QuestionArrivals } from "./workloads/question_arrivals.ts";
import { checkDenseFits } from "./workloads/dense_fits.ts";
import type { RunFigures } from "./figures.ts";
import { dense991, type GraphSettings, type Slots, tree931 } from "./graphs.ts";
import { runTrial, type Trial } from "./trial.ts";
import { questionsOf } from "./workload.ts";
import type { BenchWorkload } from "./workloads/workload_file.ts";
import type { ModelCosts, Serving } from "./world.ts";
import { meanOf, type Summary, summaryOf, sumOf } from "../statistics/statistics.ts";

/** Options that all experiments have in common. */
export interface ExperimentOptions {
  readonly serving: Serving;
  readonly version?: string | undefined;
  readonly costs?: ModelCosts | undefined;
  readonly seed: string;
  /** Order of the answers in the tree's prompts. */
  readonly slots: Slots;
  readonly signal: AbortSignal;
  /** Called before each part of the experiment with what it is. */
  readonly onPart?: (name: string) => void;
}

/** Options of `compareModes`. */
export interface ModesOptions extends ExperimentOptions {
  readonly workloads: readonly BenchWorkload[];
  readonly questions: number;
  /** The whole comparison is made for each of them; as the workload describes by default. */
  readonly concurrency?: readonly QuestionArrivals[] | undefined;
}

/** The modes of the paper that need no early exit. */
export const MODES = [
  { mode: "#1", name: "dense 9-9-1", graph: () => dense991() },
  { mode: "#2", name: "tree 9-3-1", graph: (slots) => tree931({ mode: "off" }, slots) },
  { mode: "#3", name: "tree, incremental prefill", graph: (slots) => tree931({ mode: "auto" }, slots) },
] as const satisfies readonly { mode: string; name: string; graph: (slots: Slots) => GraphSettings }[];

/** The figures of one mode: durations in ms; tokens and calls are sums over all questions. */
export interface ModeFigures {
  readonly mode: (typeof MODES)[number]["mode"];
  readonly name: string;
  readonly gpus: number;
  readonly e2eMs: Summary;
  readonly ttftMs: Summary;
  readonly questionsPerMinute: number;
  readonly calls: number;
  readonly promptTokens: number;
  readonly completionTokens: number;
  /** Share of the prompts' tokens that the engines had cached. */
  readonly cachedShare: number;
  /** Share of what successors read of their precursors that was cached when the prompt was sent. */
  readonly splicedFromCacheShare: number;
  /** Requests to the engines that read prompts, warms included. */
  readonly engineRequests: number;
  /** Tokens that these engines computed, warms included. */
  readonly prefilledTokens: number;
  /** Means over the questions; they add up to the mean latency. */
  readonly pathMs: { readonly leaf: number; readonly handOver: number; readonly decode: number };
  /** Mean critical-path bound of the same graph without incremental prefill; see `criticalPathMs`. */
  readonly boundMs: number;
  /** Mean latency over the bound; only where one question runs at a time, as then nothing else changes the decodes. */
  readonly ratioToBound: number | null;
  /** Mean latency over mode #2's. */
  readonly ratioToTree: number;
  readonly warmEvents: Readonly<Record<string, number>>;
  readonly warmsHeldBack: number;
  readonly perQuestion: readonly { readonly e2eMs: number; readonly ttftMs: number }[];
}

/** All modes over the same questions, asked so many at a time. */
export interface ModesComparison {
  readonly workload: string;
  readonly concurrency: QuestionArrivals;
  readonly modes: readonly ModeFigures[];
}

/** Compares the modes: the same questions and the same lengths of answers, in a fresh world for each mode. */
export async function compareModes(options: ModesOptions): Promise<ModesComparison[]> {
  const comparisons: ModesComparison[] = [];
  for (const workload of options.workloads) {
    const questions = questionsOf(workload, options.questions, options.seed);
    checkDenseFits(workload, questions, options);
    for (const concurrency of options.concurrency ?? [arrivalsOf(workload, options.questions)]) {
      const trials = new Map<string, Trial>();
      for (const { mode, name, graph } of MODES) {
        options.onPart?.(`${workload.name}, ${arrivalsText(concurrency)}: ${mode} ${name}`);
        trials.set(mode, await runTrial({ ...options, graph: graph(options.slots), questions, concurrency }));
      }
      comparisons.push({ workload: workload.name, concurrency, modes: modeFigures(trials, concurrency) });
    }
  }
  return comparisons;
}

function modeFigures(trials: ReadonlyMap<string, Trial>, concurrency: QuestionArrivals): ModeFigures[] {
  const trialOf = (mode: string): Trial => {
    const trial = trials.get(mode);
    if (trial === undefined) throw new Error(`Mode ${mode} was not run`);
    return trial;
  };
  const mean = (trial: Trial, of: (run: RunFigures) => number) => meanOf(trial.runs.map(of));
  const tree = trialOf("#2");
  return MODES.map(({ mode, name }): ModeFigures => {
    const trial = trialOf(mode);
    const { runs } = trial;
    const sum = (of: (run: RunFigures) => number) => sumOf(runs.map(of));
    const e2eMs = mean(trial, (run) => run.e2eMs);
    // Warms must not loosen the bound that they are measured by.
    const boundMs = mean(mode === "#1" ? trial : tree, (run) => run.boundMs);
    const agents = runs.flatMap((run) => run.agents);
    return {
      mode,
      name,
      gpus: trial.gpus,
      e2eMs: summaryOf(runs.map((run) => run.e2eMs)),
      ttftMs: summaryOf(runs.map((run) => run.ttftMs)),
      questionsPerMinute: runs.length / (trial.makespanMs / 60_000),
      calls: sum((run) => run.calls),
      promptTokens: sum((run) => run.promptTokens),
      completionTokens: sum((run) => run.completionTokens),
      cachedShare: sum((run) => run.cachedTokens) / sum((run) => run.promptTokens),
      splicedFromCacheShare: sumOf(agents.map((agent) => agent.splicedFromCache)) /
        sumOf(agents.map((agent) => agent.spliceTokens)),
      engineRequests: trial.work.requests,
      prefilledTokens: trial.work.prefilledTokens,
      pathMs: {
        leaf: mean(trial, (run) => run.path.leafMs),
        handOver: mean(trial, (run) => run.path.handOverMs),
        decode: mean(trial, (run) => run.path.decodeMs),
      },
      boundMs,
      ratioToBound: concurrency === 1 ? e2eMs / boundMs : null,
      ratioToTree: e2eMs / mean(tree, (run) => run.e2eMs),
      warmEvents: trial.warmEvents,
      warmsHeldBack: trial.warmsHeldBack,
      perQuestion: runs.map((run) => ({ e2eMs: run.e2eMs, ttftMs: run.ttftMs })),
    };
  });
}
