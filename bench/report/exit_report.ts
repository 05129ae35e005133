import { arrivalsText } from "../experiments/workloads/question_arrivals.ts";
import type { ExitComparison, ExitFigures } from "../experiments/exit.ts";
import { countText, durationText, type Report, type ReportTable, shareText } from "./report.ts";

/** The comparison of early exits as tables and a plot. */
export function exitReport(
  comparisons: readonly ExitComparison[],
  origin: string,
  settings: Readonly<Record<string, unknown>>,
): Report {
  return {
    title: "Early exit by metric",
    origin,
    tables: comparisons.flatMap(tablesOf),
    notes: [
      "Answers are scripted: right and wrong ones, and on what wrong ones agree, are drawn by model size and difficulty; similarity is that of words",
      "answer, agreement: never wrong by definition here; q: texts of random words cannot show whether it is better than chance",
      "exits: share of the decisions; random exits as often as the metric above it, and is what a gain must be compared with",
      "wrong: of the exits in the first layer those after which the answers that go on have another majority than all",
      "first answer, whatever it is: no metric can exit earlier, so that this is the most that early exit can cut here; what goes beyond it comes from leaving out the root, or from load under which the dense graph is slower",
      "used: share of the agents of a size whose answers went on",
      "wasted: written and read by nobody; saved: estimate of what was not written",
    ],
    plot: plotOf(comparisons),
    data: { experiment: "exit", simulated: true, origin, settings, results: comparisons },
  };
}

function tablesOf({ workload, concurrency, modes }: ExitComparison): ReportTable[] {
  const title = `${workload}, ${arrivalsText(concurrency)}`;
  return [
    {
      title: `${title}: latency and answers`,
      head: ["mode", "mean", "p90", "cut to #1", "cut to #3", "exits", "wrong", "right answers"],
      rows: modes.map((one) => [
        labelOf(one),
        durationText(one.e2eMs.mean),
        durationText(one.e2eMs.p90),
        shareText(one.cutToDense),
        shareText(one.cutToTree),
        shareText(one.exitRate),
        shareText(one.wrongExitRate),
        shareText(one.accuracy),
      ]),
    },
    {
      title: `${title}: work`,
      head: ["mode", "written", "wasted", "saved", "4b used", "8b used", "32b used", "roots skipped"],
      rows: modes.map((one) => [
        labelOf(one),
        countText(one.completionTokens),
        countText(one.wastedTokens),
        countText(one.savedTokens),
        shareText(one.activation["4b"], 0),
        shareText(one.activation["8b"], 0),
        shareText(one.activation["32b"], 0),
        countText(one.rootsSkipped),
      ]),
    },
  ];
}

function labelOf({ mode, name }: Pick<ExitFigures, "mode" | "name">): string {
  return `${mode} ${name}`;
}

function plotOf(comparisons: readonly ExitComparison[]): Report["plot"] {
  const values = comparisons.flatMap(({ workload, modes }) =>
    modes.map((one, order) => ({
      workload,
      mode: labelOf(one),
      order,
      seconds: one.e2eMs.mean / 1000,
      accuracy: one.accuracy,
    }))
  );
  const y = { field: "mode", type: "nominal" as const, title: null, sort: { field: "order" } };
  const bars = (field: "seconds" | "accuracy", title: string, labels: boolean) => ({
    facet: { row: { field: "workload", type: "nominal" as const, title: null } },
    spec: {
      width: 260,
      mark: { type: "bar" as const },
      encoding: {
        y: { ...y, axis: { labels, ticks: labels } },
        x: { field, type: "quantitative" as const, title },
      },
    },
    resolve: { scale: { x: "independent" as const } },
  });
  return {
    data: { values },
    hconcat: [
      bars("seconds", "mean latency, seconds", true),
      bars("accuracy", "share of right answers", false),
    ],
  };
}
