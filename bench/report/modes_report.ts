import { arrivalsText, type QuestionArrivals } from "../experiments/workloads/question_arrivals.ts";
import type { ModesComparison } from "../experiments/modes.ts";
import { countText, durationText, ratioText, type Report, type ReportTable, shareText } from "./report.ts";

/** The comparison of the modes as tables and a plot. */
export function modesReport(
  comparisons: readonly ModesComparison[],
  origin: string,
  settings: Readonly<Record<string, unknown>>,
): Report {
  return {
    title: "End-to-end latency by mode",
    origin,
    tables: comparisons.flatMap(tablesOf),
    notes: [
      "bound: the longest chain of decodes, with no time for any prefill but that of its first agent's own prompt",
      "exposed: from a precursor's last token to its successor's first one, summed over the chain that was waited for",
      "spliced: of what agents read of others, the share that was cached when their prompt was sent",
      "computed: prompt tokens that the engines computed, warms included",
    ],
    plot: plotOf(comparisons),
    data: { experiment: "run", simulated: true, origin, settings, results: comparisons },
  };
}

function tablesOf({ workload, concurrency, modes }: ModesComparison): ReportTable[] {
  const title = titleOf(workload, concurrency);
  return [
    {
      title: `${title}: latency`,
      head: ["mode", "mean", "p50", "p90", "first token", "exposed", "per minute", "to #2", "to bound"],
      rows: modes.map((mode) => [
        `${mode.mode} ${mode.name}`,
        durationText(mode.e2eMs.mean),
        durationText(mode.e2eMs.p50),
        durationText(mode.e2eMs.p90),
        durationText(mode.ttftMs.mean),
        durationText(mode.pathMs.handOver),
        mode.questionsPerMinute.toFixed(2),
        ratioText(mode.ratioToTree),
        ratioText(mode.ratioToBound ?? NaN),
      ]),
    },
    {
      title: `${title}: tokens`,
      head: ["mode", "calls", "requests", "read", "cached", "spliced", "computed", "written"],
      rows: modes.map((mode) => [
        `${mode.mode} ${mode.name}`,
        countText(mode.calls),
        countText(mode.engineRequests),
        countText(mode.promptTokens),
        shareText(mode.cachedShare),
        shareText(mode.splicedFromCacheShare),
        countText(mode.prefilledTokens),
        countText(mode.completionTokens),
      ]),
    },
  ];
}

const PARTS = [
  { part: "decode", key: "decode" },
  { part: "exposed prefill", key: "handOver" },
  { part: "first agent's prompt", key: "leaf" },
] as const;

function plotOf(comparisons: readonly ModesComparison[]): Report["plot"] {
  const values = comparisons.flatMap(({ workload, concurrency, modes }) =>
    modes.flatMap(({ mode, name, pathMs }) =>
      PARTS.map(({ part, key }, order) => ({
        workload: titleOf(workload, concurrency),
        mode: `${mode} ${name}`,
        part,
        order,
        seconds: pathMs[key] / 1000,
      }))
    )
  );
  const order = comparisons.map(({ workload, concurrency }) => titleOf(workload, concurrency));
  const bars = (title: string, parts: readonly string[], labels: boolean) => ({
    title: { text: title, fontSize: 12, fontWeight: "normal" as const },
    transform: [{ filter: { field: "part", oneOf: [...parts] } }],
    facet: { row: { field: "workload", type: "nominal" as const, sort: order, header: ROW_HEADER } },
    spec: {
      width: 330,
      height: 22 * 3,
      mark: { type: "bar" as const, height: 15 },
      encoding: {
        y: { field: "mode", type: "nominal" as const, title: null, axis: { labels, ticks: labels } },
        x: { field: "seconds", type: "quantitative" as const, title: "seconds" },
        color: {
          field: "part",
          type: "nominal" as const,
          scale: { domain: PARTS.map(({ part }) => part) },
          title: null,
        },
        order: { field: "order", type: "quantitative" as const },
      },
    },
    resolve: { scale: { x: "independent" as const } },
  });
  return {
    data: { values },
    hconcat: [
      bars("Mean latency along the critical path", PARTS.map(({ part }) => part), true),
      bars("Of it, what is not decode", PARTS.slice(1).map(({ part }) => part), false),
    ],
  };
}

const ROW_HEADER = {
  labelAngle: 0,
  labelAlign: "left" as const,
  labelAnchor: "start" as const,
  labelOrient: "top" as const,
  title: null,
};

function titleOf(workload: string, concurrency: QuestionArrivals): string {
  return `${workload}, ${arrivalsText(concurrency)}`;
}
