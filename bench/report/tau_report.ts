import type { TauPoint, TauSweep } from "../experiments/tau.ts";
import { durationText, type Report, type ReportTable, shareText } from "./report.ts";

/** The sweep over the parameters of Q as tables and a plot. */
export function tauReport(
  sweeps: readonly TauSweep[],
  origin: string,
  settings: Readonly<Record<string, unknown>>,
): Report {
  return {
    title: "Early exit by Q over tau and gamma",
    origin,
    tables: sweeps.map(tableOf),
    notes: [
      "Answers are scripted, and similarity is that of words: the tau that fits an embedding model is another one (canopy tune)",
      "wrong: of the exits in the first layer those after which the answers that go on have another majority than all",
    ],
    plot: plotOf(sweeps),
    data: { experiment: "tau", simulated: true, origin, settings, results: sweeps },
  };
}

function tableOf({ workload, without, points }: TauSweep): ReportTable {
  const row = (label: readonly [string, string], one: TauSweep["without"]) => [
    ...label,
    durationText(one.e2eMs.mean),
    shareText(one.cutToTree),
    shareText(one.exitRate),
    shareText(one.wrongExitRate),
    shareText(one.accuracy),
  ];
  return {
    title: workload,
    head: ["tau", "gamma", "mean", "cut to #3", "exits", "wrong", "right answers"],
    rows: [
      row(["no exit", "–"], without),
      ...points.map((point) => row([String(point.tau), String(point.gamma)], point)),
    ],
  };
}

function plotOf(sweeps: readonly TauSweep[]): Report["plot"] {
  const values = sweeps.flatMap(({ workload, points }) =>
    points.map(({ tau, gamma, exitRate, cutToTree }: TauPoint) => ({
      workload,
      tau,
      gamma: `gamma ${gamma}`,
      exitRate,
      cut: cutToTree,
    }))
  );
  const line = (field: "exitRate" | "cut", title: string) => ({
    facet: { row: { field: "workload", type: "nominal" as const, title: null } },
    spec: {
      width: 280,
      height: 160,
      mark: { type: "line" as const, point: true },
      encoding: {
        x: { field: "tau", type: "quantitative" as const },
        y: { field, type: "quantitative" as const, title },
        color: { field: "gamma", type: "nominal" as const, title: null },
      },
    },
  });
  return {
    data: { values },
    hconcat: [
      line("exitRate", "share of decisions that exit"),
      line("cut", "cut of the mean latency against #3"),
    ],
  };
}
