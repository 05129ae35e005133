import type { Interval } from "../../statistics/statistics.ts";
import { type ExitTrialOptions, runExitTrial } from "../exit_run.ts";
import { type ByFigure, TOPOLOGY_FIGURES, type TopologyFigure, topologyMeans } from "./outcome_figures.ts";

/** A predicted mean, and that of a run. */
export interface PlayedFigure extends Interval {
  readonly figure: TopologyFigure;
  readonly played: number;
  readonly within: boolean;
}

/** Asks the questions of a graph with the real router over simulated engines, and holds its means to what was predicted. */
export async function playTopology(
  options: Pick<
    ExitTrialOptions,
    "serving" | "seed" | "graph" | "models" | "questions" | "concurrency" | "signal"
  >,
  predicted: ByFigure<Interval>,
): Promise<PlayedFigure[]> {
  const runs = await runExitTrial(options);
  const means = topologyMeans(
    runs.map(({ right, e2eMs, completionTokens }) => ({ right, latencyMs: e2eMs, tokens: completionTokens })),
  );
  return TOPOLOGY_FIGURES.map((figure) => {
    const { low, high } = predicted[figure];
    const played = means[figure];
    return { figure, low, high, played, within: played >= low && played <= high };
  });
}
