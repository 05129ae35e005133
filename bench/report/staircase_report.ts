import { STAIRCASE_WAYS, type StaircaseFigures } from "../experiments/staircase.ts";
import { countText, durationText, type Report, shareText } from "./report.ts";

/** First words of a staircase beside those of a root that waits, as tables and a plot. */
export function staircaseReport(
  figures: readonly StaircaseFigures[],
  origin: string,
  settings: Readonly<Record<string, unknown>>,
): Report {
  const workloads = [...new Set(figures.map(({ workload }) => workload))];
  return {
    title: "Time to the first word of a staircase",
    origin,
    tables: workloads.flatMap((workload) => {
      const rows = figures.filter((row) => row.workload === workload);
      return [
        {
          title: `${workload}: latency`,
          head: [
            "way",
            "first word",
            "p50",
            "p90",
            "sooner than #3",
            "longest silence",
            "whole answer",
            "p90",
          ],
          rows: rows.map(({ name, ttftMs, e2eMs, stallMs, sooner }) => [
            name,
            durationText(ttftMs.mean),
            durationText(ttftMs.p50),
            durationText(ttftMs.p90),
            shareText(sooner),
            durationText(stallMs.mean),
            durationText(e2eMs.mean),
            durationText(e2eMs.p90),
          ]),
        },
        {
          title: `${workload}: tokens`,
          head: ["way", "calls", "read", "cached", "computed", "written"],
          rows: rows.map((row) => [
            row.name,
            countText(row.calls),
            countText(row.promptTokens),
            countText(row.cachedTokens),
            countText(row.prefilledTokens),
            countText(row.completionTokens),
          ]),
        },
      ];
    }),
    notes: [
      "the models say random words: nothing here tells what a staircase does to the quality of answers; `bench laboratory --part staircase` asks real small models",
      "longest silence: of an answer that has begun, until its root has more to read; mean over the questions",
      "read, cached: prompt tokens of all calls, each step's whole prompt counted; computed: by the engines, warms included",
      "the largest model alone writes as much as a proposer does",
    ],
    plot: plotOf(figures, workloads),
    data: { experiment: "staircase", simulated: true, origin, settings, results: figures },
  };
}

function plotOf(figures: readonly StaircaseFigures[], workloads: readonly string[]): Report["plot"] {
  return {
    data: {
      values: figures.flatMap(({ workload, name, ttftMs }) => ({
        workload,
        way: name,
        seconds: ttftMs.mean / 1000,
        label: durationText(ttftMs.mean),
      })),
    },
    encoding: {
      x: { field: "workload", type: "nominal", sort: [...workloads], title: null, axis: { labelAngle: 0 } },
      xOffset: { field: "way", type: "nominal", sort: STAIRCASE_WAYS.map(({ name }) => name) },
      y: { field: "seconds", type: "quantitative", title: "mean time to the first word, seconds" },
    },
    width: 560,
    height: 260,
    layer: [
      {
        mark: "bar",
        encoding: {
          color: {
            field: "way",
            type: "nominal",
            scale: { domain: STAIRCASE_WAYS.map(({ name }) => name) },
            title: null,
          },
        },
      },
      {
        mark: { type: "text", dy: -6, fontSize: 9 },
        encoding: { text: { field: "label", type: "nominal" } },
      },
    ],
  };
}
