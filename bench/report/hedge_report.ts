import { type HedgeResult, LEARNING, STRAGGLINGS } from "../experiments/hedge.ts";
import { durationText, type Report, shareText } from "./report.ts";

/** Second attempts before a slow worker, as tables and a plot. */
export function hedgeReport(
  results: readonly HedgeResult[],
  origin: string,
  settings: Readonly<Record<string, unknown>>,
): Report {
  const stragglings = [...new Set(results.map(({ straggling }) => straggling))];
  return {
    title: "One slow worker, with second attempts and without",
    origin,
    tables: stragglings.map((straggling) => ({
      title: STRAGGLINGS[straggling],
      head: [
        "policy",
        "hedge",
        "mean",
        "p50",
        "p90",
        "p99",
        "second attempts",
        "won",
        "tokens wasted",
        "requests",
      ],
      rows: results.filter((result) => result.straggling === straggling).map(({ policy, hedge, figures }) => {
        const { e2eMs, second: { won, lost, failed }, agents, wastedShare, perWorker } = figures;
        const tried = won + lost + failed;
        return [
          policy,
          hedge,
          ...[e2eMs.mean, e2eMs.p50, e2eMs.p90, e2eMs.p99].map(durationText),
          shareText(tried / agents),
          tried === 0 ? "–" : shareText(won / tried),
          shareText(wastedShare),
          perWorker.join(" / "),
        ];
      }),
    })),
    notes: [
      `durations of whole runs, without the first ${LEARNING} questions, in which too few times are known to call anything late`,
      "hedge: a model's after/max_share; second attempts: of its agents; won: of these attempts",
      "requests: of each of the model's workers, second attempts and the first questions included; the first worker is the one that is always slow",
      new Set(results.map(({ figures }) => JSON.stringify(figures.texts))).size === 1
        ? "the texts of all rows are the same"
        : "the texts of the rows differ",
    ],
    plot: plotOf(results),
    data: {
      experiment: "hedge",
      simulated: true,
      origin,
      settings,
      results: results.map(({ figures: { texts: _texts, ...figures }, ...result }) => ({
        ...result,
        ...figures,
      })),
    },
  };
}

function plotOf(results: readonly HedgeResult[]): Report["plot"] {
  const values = results.map(({ straggling, policy, hedge, figures }) => ({
    workers: straggling,
    row: `${policy}, ${hedge}`,
    p99: figures.e2eMs.p99 / 1000,
  }));
  return {
    data: { values },
    mark: "bar",
    encoding: {
      x: { field: "workers", type: "nominal", sort: null, title: "a slow worker", axis: { labelAngle: 0 } },
      xOffset: { field: "row", type: "nominal", sort: null },
      y: { field: "p99", type: "quantitative", title: "p99, in s" },
      color: { field: "row", type: "nominal", sort: null, title: null },
    },
    width: 640,
    height: 260,
  };
}
