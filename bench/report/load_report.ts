import type { LoadResult } from "../load/load.ts";
import { countText, durationText, type Report } from "./report.ts";
import type { DurationHistogram } from "../statistics/histogram.ts";

const METRICS = [
  { key: "ttft", json: "ttft", name: "time to first token" },
  { key: "tpot", json: "tpot", name: "time per output token" },
  { key: "itl", json: "itl", name: "between two pieces of text" },
  { key: "e2e", json: "e2el", name: "end to end" },
] as const;

/** Shares of the curve in the plot. */
const SHARES = Array.from({ length: 100 }, (_, index) => index / 100).concat(0.995, 0.999);

/** A measured load as tables and a plot; its JSON has the names of vLLM's `bench serve`. */
export function loadReport(
  result: LoadResult,
  origin: string,
  settings: Readonly<Record<string, unknown>>,
): Report {
  const seconds = result.durationMs / 1000;
  return {
    title: "Latency under load",
    origin,
    tables: [
      {
        title: "Latency",
        head: ["", "mean", "p50", "p90", "p99", "max"],
        rows: METRICS.map(({ key, name }) => {
          const durations = result[key];
          return [
            name,
            ...[durations.mean, ...[0.5, 0.9, 0.99].map((share) => durations.quantile(share)), durations.max]
              .map(durationText),
          ];
        }),
      },
      {
        title: "Throughput",
        head: ["answered", "failed", "at once", "seconds", "requests/s", "tokens read/s", "tokens written/s"],
        rows: [[
          countText(result.completed),
          countText(result.failed),
          countText(result.maxConcurrent),
          seconds.toFixed(2),
          (result.completed / seconds).toFixed(2),
          countText(result.inputTokens / seconds),
          countText(result.outputTokens / seconds),
        ]],
      },
    ],
    notes: [
      ...(result.allOutputTokens > result.outputTokens
        ? [`All agents together wrote ${countText(result.allOutputTokens / seconds)} tokens/s`]
        : []),
      ...[...result.errors].map(([error, count]) => `${count} failed: ${error}`),
    ],
    plot: plotOf(result),
    data: {
      experiment: "load",
      simulated: false,
      origin,
      ...settings,
      duration: seconds,
      completed: result.completed,
      failed: result.failed,
      total_input_tokens: result.inputTokens,
      total_output_tokens: result.outputTokens,
      total_output_tokens_of_all_agents: result.allOutputTokens,
      request_throughput: result.completed / seconds,
      output_throughput: result.outputTokens / seconds,
      total_token_throughput: (result.inputTokens + result.outputTokens) / seconds,
      max_concurrent_requests: result.maxConcurrent,
      ...Object.assign({}, ...METRICS.map(({ key, json }) => jsonOf(json, result[key]))),
      errors: Object.fromEntries(result.errors),
    },
  };
}

/** The share of requests over each duration, a curve per metric. */
function plotOf(result: LoadResult): Report["plot"] {
  return {
    data: {
      values: METRICS.filter(({ key }) => result[key].count > 0).flatMap(({ key, name }) =>
        SHARES.map((share) => ({ metric: name, share, ms: result[key].quantile(share) }))
      ),
    },
    facet: {
      column: { field: "metric", type: "nominal", sort: METRICS.map(({ name }) => name), title: null },
    },
    spec: {
      width: 200,
      height: 220,
      mark: { type: "line", interpolate: "step-after" },
      encoding: {
        x: { field: "ms", type: "quantitative", title: "ms", scale: { zero: true } },
        y: { field: "share", type: "quantitative", title: "share of all", axis: { format: ".0%" } },
        order: { field: "share", type: "quantitative" },
      },
    },
    resolve: { scale: { x: "independent" } },
  };
}

function jsonOf(name: string, durations: DurationHistogram): Record<string, number | null> {
  const figures = {
    mean: durations.mean,
    median: durations.quantile(0.5),
    std: durations.standardDeviation,
    p90: durations.quantile(0.9),
    p99: durations.quantile(0.99),
    max: durations.max,
  };
  return Object.fromEntries(
    Object.entries(figures).map(([key, ms]) => [`${key}_${name}_ms`, Number.isFinite(ms) ? ms : null]),
  );
}
