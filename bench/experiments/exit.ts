import type { RunLimits } from "../../router/moa/graph/run_input.ts";
import { arrivalsOf, type QuestionArrivals } from "./workloads/question_arrivals.ts";
import { checkDenseFits } from "./workloads/dense_fits.ts";
import { type ExitRun, runExitTrial } from "./exit_run.ts";
import { dense991, type GraphSettings, type Slots, tree931 } from "./graphs.ts";
import type { ExperimentOptions } from "./modes.ts";
import { type ModelSize, scriptedQuestions } from "./scripted_answers.ts";
import { questionsOf } from "./workload.ts";
import type { BenchWorkload } from "./workloads/workload_file.ts";
import { SIZES } from "./world.ts";
import { meanOf, type Summary, summaryOf, sumOf } from "../statistics/statistics.ts";

/** Options of `compareExits`. */
export interface ExitOptions extends ExperimentOptions {
  readonly workloads: readonly BenchWorkload[];
  readonly questions: number;
  /** As the workload describes by default. */
  readonly concurrency?: QuestionArrivals | undefined;
}

/** The figures of one mode or metric: durations in ms, tokens as means over the questions. */
export interface ExitFigures {
  readonly mode: "#1" | "#2" | "#3" | "#4";
  /** The deciding metric; `random` exits as often as the metric listed before it. */
  readonly name: string;
  readonly e2eMs: Summary;
  /** Cut of the mean latency against mode #1 and #3, as shares. */
  readonly cutToDense: number;
  readonly cutToTree: number;
  /** Share of the questions answered right. */
  readonly accuracy: number;
  /** Share of the decisions that were exits. */
  readonly exitRate: number;
  /** Of the exits in the first layer those that changed the majority; NaN without exits. */
  readonly wrongExitRate: number;
  readonly leafExits: number;
  readonly lateDecisions: number;
  readonly rootsSkipped: number;
  /** Share of the agents of a size whose answers went on. */
  readonly activation: Readonly<Record<ModelSize, number>>;
  readonly completionTokens: number;
  readonly wastedTokens: number;
  readonly savedTokens: number;
}

/** All modes over the same questions. */
export interface ExitComparison {
  readonly workload: string;
  readonly concurrency: QuestionArrivals;
  readonly modes: readonly ExitFigures[];
}

/** Settings of `early_exit`. */
export type ExitSettings = Readonly<Record<string, unknown>>;

/** The tree with incremental prefill and early exit. */
export function treeWithExit(earlyExit: ExitSettings, slots: Slots): GraphSettings {
  // Questions are random words, which may be those that ask for something creative.
  return { ...tree931({ mode: "auto" }, slots), early_exit: { diversity_guard: false, ...earlyExit } };
}

/** The metrics that are compared, each with `random` at its own rate behind it. */
const METRICS: readonly { readonly name: string; readonly settings: ExitSettings }[] = [
  { name: "q", settings: { metric: "q" } },
  { name: "answer", settings: { metric: "answer" } },
  { name: "agreement", settings: { metric: "agreement" } },
];

/** Rules by which a whole run ends, once some of its agents have said the same. */
const RUN_RULES: readonly { readonly name: string; readonly consensus: ExitSettings }[] = [
  ...[3, 4, 5].map((agree) => ({ name: `${agree} of the run agree`, consensus: { agree } })),
  { name: "4 of the run agree, staged", consensus: { agree: 4, start: "staged" } },
  { name: "4 of the run agree, written up", consensus: { agree: 4, finish: "rewrite" } },
  { name: "6 of the run agree", consensus: { agree: 6 } },
  { name: "6 of the run agree, the needless cut", consensus: { agree: 6, cut: "decided" } },
  { name: "posterior 0.95", consensus: { posterior: 0.95 } },
];

/** Budgets of each question, in a tree without early exit. */
const BUDGETS: readonly { readonly name: string; readonly budget: RunLimits }[] = [
  { name: "budget of 6,000 tokens", budget: { tokens: 6_000 } },
  { name: "budget of 30 s", budget: { latencyMs: 30_000 } },
];

/** Modes #1 to #4 over questions with scripted answers; mode #4 with several metrics, and with chance instead. */
export async function compareExits(options: ExitOptions): Promise<ExitComparison[]> {
  const comparisons: ExitComparison[] = [];
  for (const workload of options.workloads) {
    checkDenseFits(workload, questionsOf(workload, options.questions, options.seed), options);
    const questions = scriptedQuestions(workload, options.questions, options.seed);
    const { slots, concurrency = arrivalsOf(workload, options.questions) } = options;
    const run = (name: string, graph: GraphSettings) => {
      options.onPart?.(`${workload.name}: ${name}`);
      return runExitTrial({ ...options, graph, questions, concurrency });
    };
    const dense = await run("#1 dense 9-9-1", dense991());
    const blocking = await run("#2 tree 9-3-1", tree931({ mode: "off" }, slots));
    const tree = await run("#3 tree, incremental prefill", tree931({ mode: "auto" }, slots));
    const figures = (mode: ExitFigures["mode"], name: string, runs: readonly ExitRun[]) =>
      exitFigures(mode, name, runs, { dense, tree });
    const modes = [
      figures("#1", "dense 9-9-1", dense),
      figures("#2", "tree 9-3-1", blocking),
      figures("#3", "tree, incremental prefill", tree),
    ];
    for (const { name, settings } of METRICS) {
      const own = await run(`#4 ${name}`, treeWithExit(settings, slots));
      modes.push(figures("#4", name, own));
      const chance = treeWithExit({ metric: "random", probability: probabilityOf(own) }, slots);
      const label = `random, as often as ${name}`;
      modes.push(figures("#4", label, await run(`#4 ${label}`, chance)));
    }
    const skipping = treeWithExit({ metric: "agreement", skip_root: 0.6 }, slots);
    modes.push(figures("#4", "agreement, root skipped", await run("#4 agreement, root skipped", skipping)));
    for (const { name, consensus } of RUN_RULES) {
      const graph = treeWithExit({ scope: "run", consensus }, slots);
      modes.push(figures("#4", name, await run(`#4 ${name}`, graph)));
    }
    for (const { name, budget } of BUDGETS) {
      options.onPart?.(`${workload.name}: #4 ${name}`);
      const graph = { ...tree931({ mode: "auto" }, slots), answer_tokens: 1_000 };
      const runs = await runExitTrial({ ...options, graph, questions, concurrency, budget });
      modes.push(figures("#4", name, runs));
    }
    const graph = treeWithExit({ scope: "run" }, slots);
    options.onPart?.(`${workload.name}: #4 oracle`);
    const oracle = await runExitTrial({ ...options, graph, questions, concurrency, oracle: true });
    modes.push(figures("#4", "oracle: somebody is right", oracle));
    const always = treeWithExit({ metric: "random", probability: 1, min_agents: 1 }, slots);
    modes.push(figures("#4", "first answer, whatever it is", await run("#4 first answer", always)));
    comparisons.push({ workload: workload.name, concurrency, modes });
  }
  return comparisons;
}

/**
 * The probability with which chance exits exactly as often in these runs: each question's run draws the same in every
 * trial, so that it is between the draws of the last decision that shall exit and the first one that shall not.
 */
function probabilityOf(runs: readonly ExitRun[]): number {
  const draws = runs.flatMap((run) => run.draws).sort((a, b) => a - b);
  const exits = sumOf(runs.map((run) => run.exits));
  return ((draws[exits - 1] ?? 0) + (draws[exits] ?? 1)) / 2;
}

/** The figures of one trial beside those that it is compared with. */
export function exitFigures(
  mode: ExitFigures["mode"],
  name: string,
  runs: readonly ExitRun[],
  { dense, tree }: { readonly dense: readonly ExitRun[]; readonly tree: readonly ExitRun[] },
): ExitFigures {
  const mean = (of: (run: ExitRun) => number, over = runs) => meanOf(over.map(of));
  const sum = (of: (run: ExitRun) => number) => sumOf(runs.map(of));
  const e2eMs = (run: ExitRun) => run.e2eMs;
  const decisions = sum((run) => run.decisions);
  const leafExits = sum((run) => run.leafExits);
  const activation = SIZES.map((size): [ModelSize, number] => [
    size,
    sum((run) => run.agents[size].used) / sum((run) => run.agents[size].all),
  ]);
  return {
    mode,
    name,
    e2eMs: summaryOf(runs.map(e2eMs)),
    cutToDense: 1 - mean(e2eMs) / mean(e2eMs, dense),
    cutToTree: 1 - mean(e2eMs) / mean(e2eMs, tree),
    accuracy: mean((run) => run.right ? 1 : 0),
    exitRate: decisions === 0 ? 0 : sum((run) => run.exits) / decisions,
    wrongExitRate: leafExits === 0 ? NaN : sum((run) => run.wrongExits) / leafExits,
    leafExits,
    lateDecisions: sum((run) => run.late),
    rootsSkipped: sum((run) => run.rootSkipped ? 1 : 0),
    activation: Object.fromEntries(activation) as Record<ModelSize, number>,
    completionTokens: mean((run) => run.completionTokens),
    wastedTokens: mean((run) => run.wastedTokens),
    savedTokens: mean((run) => run.savedTokens),
  };
}
