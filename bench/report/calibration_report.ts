import type { MeasuredCost } from "../load/calibrate.ts";
import { decodeResiduals, type FittedCost, prefillResiduals } from "../load/fit_cost.ts";
import { meanOf } from "../statistics/statistics.ts";
import { countText, durationText, type Report, shareText } from "./report.ts";

/** Above this error of a point a note says that the model does not fit. */
const LARGE_ERROR = 0.1;

/** A fitted cost beside what was measured, as tables and a plot. */
export function calibrationReport(
  { prefills, decodes }: MeasuredCost,
  cost: FittedCost,
  { origin, notes, settings }: {
    readonly origin: string;
    readonly notes: readonly string[];
    readonly settings: Readonly<Record<string, unknown>>;
  },
): Report {
  const read = prefillResiduals(cost, prefills);
  const written = decodeResiduals(cost, decodes);
  const errors = [...read, ...written].map(({ error }) => Math.abs(error));
  const largest = Math.max(...errors);
  return {
    title: "Cost of an endpoint, measured and fitted",
    origin,
    tables: [
      {
        title: "Prompts: time to the first token",
        head: ["tokens", "measured", "fitted", "error"],
        rows: read.map(({ point, fittedMs, error }) => [
          countText(point.tokens),
          durationText(point.ms),
          durationText(fittedMs),
          shareText(error),
        ]),
      },
      {
        title: "Answers: time of a step",
        head: ["streams", "tokens before", "measured", "fitted", "error"],
        rows: written.map(({ point, fittedMs, error }) => [
          countText(point.streams),
          countText(point.context),
          durationText(point.ms),
          durationText(fittedMs),
          shareText(error),
        ]),
      },
      { title: "Parameters", head: ["parameter", "value"], rows: parametersOf(cost) },
    ],
    notes: [
      `mean error of the fit ${shareText(meanOf(errors))}, largest ${shareText(largest)}`,
      ...(largest > LARGE_ERROR
        ? ["the cost model does not fit all of it: was the endpoint used by others, or the machine busy?"]
        : []),
      ...notes,
    ],
    plot: plotOf(read, written),
    data: { experiment: "calibrate", origin, settings, parameters: cost, prefill: read, decode: written },
  };
}

function parametersOf(cost: FittedCost): string[][] {
  return [
    ["front end, each request", durationText(cost.requestMs)],
    ["prompt: a step at least", durationText(cost.f)],
    ["prompt: 1,000 tokens", durationText(1000 * cost.b)],
    ["prompt: attention of 1,000 tokens to 1,000", durationText(1e6 * cost.d)],
    ["prompt: sharpness of the bend between the two", cost.q.toFixed(2)],
    ["answers: a step", durationText(cost.d0)],
    ["answers: 100 streams more", durationText(100 * cost.d1)],
    ["answers: 100,000 tokens of context", durationText(100_000 * cost.d2)],
    ["overhead of a step, not fitted", durationText(cost.stepMs)],
    ["overhead of 100 sequences, not fitted", durationText(100 * cost.sequenceMs)],
  ];
}

function plotOf(
  read: ReturnType<typeof prefillResiduals>,
  written: ReturnType<typeof decodeResiduals>,
): Report["plot"] {
  const both = (x: number, name: string, measured: number, fitted: number) => [
    { x, name, kind: "measured", ms: measured },
    { x, name, kind: "fitted", ms: fitted },
  ];
  const chart = (title: string, axis: string, values: ReturnType<typeof both>) => ({
    title: { text: title, fontSize: 12, fontWeight: "normal" as const },
    width: 300,
    height: 260,
    data: { values },
    mark: { type: "point" as const, size: 45 },
    encoding: {
      x: { field: "x", type: "quantitative" as const, title: axis },
      y: { field: "ms", type: "quantitative" as const, title: "ms" },
      color: { field: "kind", type: "nominal" as const, title: null },
      shape: { field: "kind", type: "nominal" as const, title: null },
    },
  });
  return {
    hconcat: [
      chart(
        "Time to the first token",
        "tokens of the prompt",
        read.flatMap(({ point, fittedMs }) => both(point.tokens, "prompt", point.ms, fittedMs)),
      ),
      chart(
        "Time of a step in which streams decode",
        "streams",
        written.flatMap(({ point, fittedMs }) => both(point.streams, "step", point.ms, fittedMs)),
      ),
    ],
  };
}
