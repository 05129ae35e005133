import {
  type ByFigure,
  TOPOLOGY_FIGURES,
  type TopologyFigure,
} from "../experiments/topology/outcome_figures.ts";
import type { PlayedFigure } from "../experiments/topology/play_topology.ts";
import type { TopologySearch } from "../experiments/topology/topology.ts";
import type { Interval } from "../statistics/statistics.ts";
import { countText, durationText, type Report, type ReportTable, shareText } from "./report.ts";

/** What else a report of a search says. */
export interface TopologyReportOptions {
  readonly origin: string;
  /** The workload, or the file of records. */
  readonly asked: string;
  /** Sentences on where answers come from. */
  readonly assumptions: readonly string[];
  readonly settings: Readonly<Record<string, unknown>>;
  /** The recommendation on fresh questions; undefined where it was not played. */
  readonly played: readonly PlayedFigure[] | undefined;
  /** The configuration with the recommendation. */
  readonly config: string | undefined;
}

/** Names of the figures, as tables have them. */
export const TOPOLOGY_FIGURE_NAMES: ByFigure<string> = {
  right: "right answers",
  latencyMs: "mean latency",
  tokens: "tokens written",
};

const SHORT_NAMES = { latencyMs: "latency", tokens: "tokens" } as const;

/** A figure in its unit. */
export function topologyFigureText(figure: TopologyFigure, value: number): string {
  if (figure === "right") return shareText(value);
  return figure === "tokens" ? countText(value) : durationText(value);
}

/** `85.5 to 93.5 %`. */
export function topologyBoundsText(figure: TopologyFigure, { low, high }: Interval): string {
  if (figure === "right") return `${(100 * low).toFixed(1)} to ${shareText(high)}`;
  return `${topologyFigureText(figure, low)} to ${topologyFigureText(figure, high)}`;
}

/** Pareto's front of a search, what it recommends, and how that came out, as tables and a plot. */
export function topologyReport(search: TopologySearch, options: TopologyReportOptions): Report {
  const { origin, assumptions, settings, played, config } = options;
  const { chosenOn, heldOut, candidates, next } = search;
  return {
    title: "Right answers against what they cost, by topology, models and exits",
    origin,
    tables: [frontTable(search, options), ...recommendedTables(search, played)],
    notes: [
      ...assumptions,
      `${candidates.length} candidates were compared on the same ${chosenOn} questions, which also say what is on the front: the best of so many looks better there than it is`,
      `held out: ${heldOut} other questions, on which nothing was chosen; n of all intervals`,
      "the recommendation is, of the front within the budget, the cheapest whose right answers are not fewer than the best one's by more than a standard error of the paired difference",
      ...aloneNote(search),
      `next run: bounds that all three means of a run of ${next} fresh questions keep with a probability of 95 %; the intervals of the means are 95 % each`,
      "names: agents by layer, models by layer (mixed: all of them in turn), exit; clusters are of three, as in the paper",
      "tokens: all that is written for a question, what nobody reads included",
      ...played === undefined ? [] : [
        "played: by the real router over simulated engines, its configuration read as canopy serve reads it",
      ],
    ],
    plot: plotOf(search),
    listings: config === undefined ? [] : [{ title: "Recommended configuration", text: config }],
    data: { experiment: "topology", simulated: true, origin, settings, results: search, played },
  };
}

function frontTable(
  { cost, chosenOn, heldOut, candidates, front, recommended }: TopologySearch,
  { asked }: TopologyReportOptions,
): ReportTable {
  const other = cost === "tokens" ? "latencyMs" : "tokens";
  const figures = ["right", cost, other] as const;
  return {
    title:
      `${asked}, ${candidates.length} candidates: Pareto's front of ${TOPOLOGY_FIGURE_NAMES.right} and ` +
      `${TOPOLOGY_FIGURE_NAMES[cost]} on ${chosenOn} questions, and what it comes to on ${heldOut} others`,
    head: [
      "candidate",
      "right",
      SHORT_NAMES[cost],
      "held out: right",
      "95 %",
      SHORT_NAMES[cost],
      "95 %",
      SHORT_NAMES[other],
    ],
    rows: front.map(({ row, heldOut: { means, intervals } }) => [
      row.name === recommended?.name ? `${row.name} (recommended)` : row.name,
      topologyFigureText("right", row.means.right),
      topologyFigureText(cost, row.means[cost]),
      ...figures.flatMap((figure) => [
        topologyFigureText(figure, means[figure]),
        ...figure === other ? [] : [topologyBoundsText(figure, intervals[figure])],
      ]),
    ]),
  };
}

function recommendedTables(
  { recommended, budget, next, candidates }: TopologySearch,
  played: TopologyReportOptions["played"],
): ReportTable[] {
  const limits = [
    ...budget.latencyMs === undefined ? [] : [`a mean latency of ${durationText(budget.latencyMs)}`],
    ...budget.tokens === undefined ? [] : [`${countText(budget.tokens)} tokens a question`],
  ].join(" and ");
  if (recommended === undefined) {
    const least = (figure: TopologyFigure) => Math.min(...candidates.map(({ means }) => means[figure]));
    return [{
      title: `Nothing is recommended: no candidate is within ${limits}`,
      head: ["figure", "least of all candidates"],
      rows: (["latencyMs", "tokens"] as const).map((figure) => [
        TOPOLOGY_FIGURE_NAMES[figure],
        topologyFigureText(figure, least(figure)),
      ]),
    }];
  }
  return [{
    title: `Recommended${limits === "" ? "" : ` within ${limits}`}: ${recommended.name}`,
    head: [
      "figure",
      "predicted",
      "95 % interval",
      `next run of ${next}`,
      ...played === undefined ? [] : ["played", "within"],
    ],
    rows: TOPOLOGY_FIGURES.map((figure) => [
      TOPOLOGY_FIGURE_NAMES[figure],
      topologyFigureText(figure, recommended.means[figure]),
      topologyBoundsText(figure, recommended.intervals[figure]),
      topologyBoundsText(figure, recommended.next[figure]),
      ...(played ?? []).filter((one) => one.figure === figure).flatMap((one) => [
        topologyFigureText(figure, one.played),
        one.within ? "yes" : "no",
      ]),
    ]),
  }];
}

function aloneNote({ recommended }: TopologySearch): string[] {
  if (recommended?.alone === undefined) return [];
  const { alone, name } = recommended;
  const { gained, lost, p, means, difference, interval } = alone;
  const figures = TOPOLOGY_FIGURES.map((figure) =>
    `${TOPOLOGY_FIGURE_NAMES[figure]} ${topologyFigureText(figure, means[figure])}`
  );
  const points = (share: number) => (100 * share).toFixed(1);
  return [
    `the largest model alone (${alone.name}) on the held-out questions: ${
      figures.join(", ")
    }; ${name} is right in ` +
    `${points(difference)} points more of them (95 % interval ${points(interval.low)} to ${
      points(interval.high)
    }; ${gained} gained, ${lost} lost, McNemar's p ${p < 0.001 ? "below 0.001" : p.toFixed(3)})`,
  ];
}

function plotOf({ cost, candidates, front, recommended, budget }: TopologySearch): Report["plot"] {
  const costOf = ({ means }: TopologySearch["candidates"][number]) =>
    cost === "tokens" ? means.tokens : means.latencyMs / 1000;
  const point = (row: TopologySearch["candidates"][number]) => ({
    name: row.name,
    exit: row.exit,
    cost: costOf(row),
    right: row.means.right,
  });
  const chosen = candidates.filter(({ name }) => name === recommended?.name).map(point);
  const limit = cost === "tokens" ? budget.tokens : budget.latencyMs && budget.latencyMs / 1000;
  const x = {
    field: "cost",
    type: "quantitative" as const,
    scale: { type: "log" as const, nice: false, padding: 12 },
    title: cost === "tokens" ? "tokens written for a question" : "mean latency, seconds",
  };
  const y = {
    field: "right",
    type: "quantitative" as const,
    scale: { zero: false },
    title: "share of right answers",
  };
  return {
    width: 520,
    height: 320,
    layer: [
      {
        data: { values: candidates.map(point) },
        mark: { type: "point", filled: true, size: 35, opacity: 0.6 },
        encoding: { x, y, color: { field: "exit", type: "nominal", title: "exit" } },
      },
      {
        data: { values: front.map(({ row }) => point(row)) },
        mark: { type: "line", interpolate: "step-after", color: "#444444" },
        encoding: { x, y },
      },
      {
        data: { values: chosen },
        mark: { type: "point", shape: "diamond", size: 200, color: "black", strokeWidth: 2 },
        encoding: { x, y },
      },
      {
        data: { values: chosen },
        mark: { type: "text", align: "left", dx: 10, dy: 14 },
        encoding: { x, y, text: { field: "name", type: "nominal" } },
      },
      {
        data: { values: limit === undefined ? [] : [{ cost: limit }] },
        mark: { type: "rule", strokeDash: [4, 4] },
        encoding: { x },
      },
    ],
  };
}
