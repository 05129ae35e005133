import type { ChunkSweep, PaceFigures } from "../experiments/chunk.ts";
import { countText, durationText, ratioText, type Report, shareText } from "./report.ts";

/** The sweep over fixed steps of incremental prefill as tables and a plot. */
export function chunkReport(
  sweeps: readonly ChunkSweep[],
  origin: string,
  settings: Readonly<Record<string, unknown>>,
): Report {
  return {
    title: "Latency over the step of incremental prefill",
    origin,
    tables: sweeps.map((sweep) => ({
      title: `${sweep.workload}: the pace that sets itself takes ${
        ratioText(sweep.selfToBest)
      } of the best fixed step`,
      head: ["step", "mean", "first token", "exposed", "to bound", "spliced", "requests"],
      rows: [sweep.off, ...sweep.fixed, sweep.self].map((pace) => [
        `${paceText(pace)}${pace === sweep.best ? " (best)" : ""}`,
        durationText(pace.e2eMs),
        durationText(pace.ttftMs),
        durationText(pace.handOverMs),
        ratioText(pace.ratioToBound),
        shareText(pace.splicedFromCacheShare),
        countText(pace.engineRequests),
      ]),
    })),
    notes: [
      "bound: the longest chain of decodes, with no time for any prefill but that of its first agent's own prompt",
    ],
    plot: plotOf(sweeps),
    data: { experiment: "chunk", simulated: true, origin, settings, results: sweeps },
  };
}

function paceText({ pace }: PaceFigures): string {
  if (pace === "off") return "no incremental prefill";
  return pace === "self" ? "sets itself" : `${pace} tokens`;
}

function plotOf(sweeps: readonly ChunkSweep[]): Report["plot"] {
  const steps = sweeps.flatMap(({ workload, fixed }) =>
    fixed.map(({ pace, ratioToBound }) => ({
      workload,
      tokens: pace,
      ratio: ratioToBound,
      pace: "fixed step",
    }))
  );
  const levels = sweeps.flatMap(({ workload, off, self }) => [
    { workload, ratio: off.ratioToBound, pace: "no incremental prefill" },
    { workload, ratio: self.ratioToBound, pace: "sets itself" },
  ]);
  const ratio = {
    field: "ratio",
    type: "quantitative" as const,
    title: "mean latency / critical-path bound",
    scale: { zero: false },
  };
  const color = {
    field: "pace",
    type: "nominal" as const,
    title: null,
    scale: { domain: ["fixed step", "sets itself", "no incremental prefill"] },
  };
  return {
    data: { values: [...steps, ...levels] },
    facet: {
      column: {
        field: "workload",
        type: "nominal",
        sort: sweeps.map(({ workload }) => workload),
        title: null,
      },
    },
    spec: {
      width: 230,
      height: 240,
      layer: [
        {
          transform: [{ filter: { field: "pace", equal: "fixed step" } }],
          mark: { type: "line", point: true },
          encoding: {
            x: {
              field: "tokens",
              type: "quantitative",
              scale: { type: "log", base: 2 },
              axis: { values: steps.map(({ tokens }) => Number(tokens)), format: "d", grid: false },
              title: "step, tokens",
            },
            y: ratio,
            color,
          },
        },
        {
          transform: [{ filter: { not: { field: "pace", equal: "fixed step" } } }],
          mark: { type: "rule", strokeWidth: 2, strokeDash: [6, 3] },
          encoding: { y: ratio, color },
        },
      ],
    },
    resolve: { scale: { y: "independent" } },
  };
}
