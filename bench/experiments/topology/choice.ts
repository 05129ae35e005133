import { meanOf, standardError } from "../../statistics/statistics.ts";
import type { TopologyOutcome } from "./costed_topology.ts";
import { paretoFront } from "./front.ts";
import { type TopologyFigure, topologyMeans } from "./outcome_figures.ts";

/** Limits on means over the questions. */
export interface TopologyBudget {
  readonly latencyMs?: number | undefined;
  readonly tokens?: number | undefined;
}

/** The figure that right answers are weighed against: the one that the budget limits, latency where it limits both or none. */
export function costFigure({ latencyMs, tokens }: TopologyBudget): Exclude<TopologyFigure, "right"> {
  return latencyMs === undefined && tokens !== undefined ? "tokens" : "latencyMs";
}

/**
 * Of the front of those within the budget, the cheapest whose right answers are not fewer than the best one's by more
 * than a standard error of the paired difference (Breiman and others 1984): a question or two more are no reason to pay
 * twice. Undefined where nothing is within the budget. `outcomes`: of the same questions in the same order.
 */
export function chooseTopology<Tried extends { readonly outcomes: readonly TopologyOutcome[] }>(
  tried: readonly Tried[],
  budget: TopologyBudget,
): Tried | undefined {
  const affordable = tried.map((one) => ({ one, means: topologyMeans(one.outcomes) }))
    .filter(({ means }) =>
      means.latencyMs <= (budget.latencyMs ?? Infinity) && means.tokens <= (budget.tokens ?? Infinity)
    );
  const cost = costFigure(budget);
  const front = paretoFront(
    affordable.map(({ one, means }) => ({ one, cost: means[cost], right: means.right })),
  );
  const best = front.at(-1);
  return front.find(({ one, right }) => {
    const fewer = one.outcomes.map((outcome, at) =>
      Number(best?.one.outcomes[at]?.right === true) - Number(outcome.right)
    );
    return right === best?.right || meanOf(fewer) <= standardError(fewer);
  })?.one;
}
