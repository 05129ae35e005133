import { arrivalsOf, type QuestionArrivals } from "./workloads/question_arrivals.ts";
import { type GraphSettings, ROOT_LAYER, tree931 } from "./graphs.ts";
import type { ExperimentOptions } from "./modes.ts";
import { runTrial } from "./trial.ts";
import { questionsOf } from "./workload.ts";
import type { BenchWorkload } from "./workloads/workload_file.ts";
import { meanOf, type Summary, summaryOf, sumOf } from "../statistics/statistics.ts";

/** Options of `measureStaircase`. */
export interface StaircaseOptions extends ExperimentOptions {
  readonly workloads: readonly BenchWorkload[];
  readonly questions: number;
  /** As the workload describes by default. */
  readonly concurrency?: QuestionArrivals | undefined;
}

/** The ways that are compared; the first words of each are compared with those of mode #3. */
export const STAIRCASE_WAYS = [
  { way: "single", name: "largest model alone" },
  { way: "tree", name: "#3 tree, incremental prefill" },
  { way: "root", name: "staircase root" },
  { way: "all", name: "staircase of all layers" },
] as const;

type StaircaseWay = (typeof STAIRCASE_WAYS)[number]["way"];

/** Figures of one way on one workload; durations in ms, tokens and calls are sums over all questions. */
export interface StaircaseFigures {
  readonly workload: string;
  readonly way: StaircaseWay;
  readonly name: string;
  readonly ttftMs: Summary;
  readonly e2eMs: Summary;
  /** Longest silence in an answer that has begun. */
  readonly stallMs: Summary;
  /** Share of mode #3's mean time to the first word that is saved; negative where it comes later. */
  readonly sooner: number;
  readonly calls: number;
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly completionTokens: number;
  /** Tokens that the engines computed of prompts, warms included. */
  readonly prefilledTokens: number;
}

/** Asks the same questions in all ways; equal agents write equally many tokens in each. */
export async function measureStaircase(options: StaircaseOptions): Promise<StaircaseFigures[]> {
  const figures: StaircaseFigures[] = [];
  for (const workload of options.workloads) {
    const questions = questionsOf(workload, options.questions, options.seed);
    const concurrency = options.concurrency ?? arrivalsOf(workload, options.questions);
    const rows: StaircaseFigures[] = [];
    for (const { way, name } of STAIRCASE_WAYS) {
      options.onPart?.(`${workload.name}: ${name}`);
      const { runs, work } = await runTrial({
        ...options,
        graph: graphOf(way, options),
        questions,
        concurrency,
      });
      const sum = (of: (run: (typeof runs)[number]) => number) => sumOf(runs.map(of));
      rows.push({
        workload: workload.name,
        way,
        name,
        ttftMs: summaryOf(runs.map(({ ttftMs }) => ttftMs)),
        e2eMs: summaryOf(runs.map(({ e2eMs }) => e2eMs)),
        stallMs: summaryOf(runs.map(({ stallMs }) => stallMs)),
        sooner: 0,
        calls: sum(({ calls }) => calls),
        promptTokens: sum(({ promptTokens }) => promptTokens),
        cachedTokens: sum(({ cachedTokens }) => cachedTokens),
        completionTokens: sum(({ completionTokens }) => completionTokens),
        prefilledTokens: work.prefilledTokens,
      });
    }
    const yardstick = meanOf(rows.filter(({ way }) => way === "tree").map(({ ttftMs }) => ttftMs.mean));
    figures.push(...rows.map((row) => ({ ...row, sooner: 1 - row.ttftMs.mean / yardstick })));
  }
  return figures;
}

function graphOf(way: StaircaseWay, { slots }: Pick<ExperimentOptions, "slots">): GraphSettings {
  const tree = tree931({ mode: "auto" }, slots);
  if (way === "single") return { layers: [ROOT_LAYER] };
  return way === "tree" ? tree : { ...tree, root: "staircase", staircase: { climbs: way } };
}
