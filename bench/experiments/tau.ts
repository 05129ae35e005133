import { arrivalsOf } from "./workloads/question_arrivals.ts";
import { checkDenseFits } from "./workloads/dense_fits.ts";
import { type ExitFigures, exitFigures, type ExitOptions, treeWithExit } from "./exit.ts";
import { runExitTrial } from "./exit_run.ts";
import { dense991, tree931 } from "./graphs.ts";
import { scriptedQuestions } from "./scripted_answers.ts";
import { questionsOf } from "./workload.ts";

/** Options of `sweepTau`. */
export interface TauOptions extends ExitOptions {
  readonly taus: readonly number[];
  readonly gammas: readonly number[];
}

/** One pair of parameters of Q. */
export interface TauPoint extends ExitFigures {
  readonly tau: number;
  readonly gamma: number;
}

/** The metric `q` of one workload over both of its parameters. */
export interface TauSweep {
  readonly workload: string;
  /** The tree without exits. */
  readonly without: ExitFigures;
  readonly points: readonly TauPoint[];
}

/** Latency, exit rate and wrong exits of the metric `q` over τ and γ. */
export async function sweepTau(options: TauOptions): Promise<TauSweep[]> {
  const sweeps: TauSweep[] = [];
  for (const workload of options.workloads) {
    checkDenseFits(workload, questionsOf(workload, options.questions, options.seed), options);
    const questions = scriptedQuestions(workload, options.questions, options.seed);
    const { slots, concurrency = arrivalsOf(workload, options.questions) } = options;
    const common = { ...options, questions, concurrency };
    options.onPart?.(`${workload.name}: without exits`);
    const dense = await runExitTrial({ ...common, graph: dense991() });
    const tree = await runExitTrial({ ...common, graph: tree931({ mode: "auto" }, slots) });
    const points: TauPoint[] = [];
    for (const gamma of options.gammas) {
      for (const tau of options.taus) {
        options.onPart?.(`${workload.name}: tau ${tau}, gamma ${gamma}`);
        const graph = treeWithExit({ metric: "q", tau, gamma }, slots);
        const runs = await runExitTrial({ ...common, graph });
        points.push({ tau, gamma, ...exitFigures("#4", "q", runs, { dense, tree }) });
      }
    }
    const without = exitFigures("#3", "tree, incremental prefill", tree, { dense, tree });
    sweeps.push({ workload: workload.name, without, points });
  }
  return sweeps;
}
