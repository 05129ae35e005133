import { type EvalFigures, evalFigures, evalPairs } from "../evaluation/eval_figures.ts";
import type { Evaluation } from "../evaluation/evaluate.ts";
import { countText, durationText, type Report, shareText } from "./report.ts";

/** Options of `evalReport`. */
export interface EvalReportOptions {
  readonly origin: string;
  /** As the one who asks says it: engines do not tell. */
  readonly simulated: boolean;
  readonly modes: readonly string[];
  /** Labels of the sets by name: a sample is called one. */
  readonly labels: ReadonlyMap<string, string>;
  readonly settings: Readonly<Record<string, unknown>>;
}

/** An evaluation as tables and a plot. */
export function evalReport(
  { records, failures }: Evaluation,
  { origin, simulated, modes, labels, settings }: EvalReportOptions,
): Report {
  const figures = evalFigures(records).sort((a, b) => modes.indexOf(a.mode) - modes.indexOf(b.mode));
  const pairs = evalPairs(records, modes);
  const labelOf = (set: string) => labels.get(set) ?? set;
  return {
    title: "Right answers on data sets",
    origin,
    tables: [
      ...[...labels].map(([set, label]) => ({
        title: label,
        head: ["mode", "answers", "right", "95 %", "wrong", "ungradable", "mean", "p50", "p90", "written"],
        rows: figures.filter((one) => one.set === set).map((one) => [
          one.mode,
          countText(one.answers),
          shareText(one.accuracy),
          `${shareText(one.interval.low)} – ${shareText(one.interval.high)}`,
          countText(one.wrong),
          countText(one.ungradable),
          ...[one.latencyMs.mean, one.latencyMs.p50, one.latencyMs.p90].map(durationText),
          countText(one.completionTokens),
        ]),
      })),
      {
        title: `Beside ${modes[0] ?? ""}, over the same answers`,
        head: ["set", "mode", "answers", "difference", "gained", "lost", "p"],
        rows: pairs.map((one) => [
          labelOf(one.set),
          one.mode,
          countText(one.answers),
          shareText(one.difference),
          countText(one.gained),
          countText(one.lost),
          one.p.toFixed(3),
        ]),
      },
    ].filter(({ rows }) => rows.length > 0),
    notes: [
      "right: of all answers; ungradable ones, which state nothing that can be read, are never right; behind it the 95 % interval (Wilson)",
      "gained, lost: answers that only this mode, only the first one got right; p: McNemar's exact test",
      "mean, p50, p90: from the request to the end of the answer; written: tokens of all agents for an answer",
      ...simulated ? [] : [
        "simulated engines cannot be told from real ones by what they answer: --simulated makes the report say that they are",
      ],
      ...[...failures].map(([error, count]) =>
        `${count} without an answer, left out of all figures: ${error}`
      ),
    ],
    plot: plotOf(figures, modes, labelOf),
    data: {
      experiment: "eval",
      simulated,
      origin,
      settings,
      figures,
      pairs,
      failures: Object.fromEntries(failures),
    },
  };
}

/** Share of right answers of each mode with its interval, a row for each set. */
function plotOf(
  figures: readonly EvalFigures[],
  modes: readonly string[],
  labelOf: (set: string) => string,
): Report["plot"] {
  return {
    data: { values: figures.map((one) => ({ ...one, ...one.interval, set: labelOf(one.set) })) },
    facet: { row: { field: "set", type: "nominal" } },
    spec: {
      width: 420,
      layer: [
        {
          mark: { type: "rule" },
          encoding: {
            x: {
              field: "low",
              type: "quantitative",
              title: "share of right answers",
              scale: { domain: [0, 1] },
            },
            x2: { field: "high" },
            y: { field: "mode", type: "nominal", sort: [...modes], title: null },
          },
        },
        {
          mark: { type: "point", filled: true, size: 60 },
          encoding: {
            x: { field: "accuracy", type: "quantitative" },
            y: { field: "mode", type: "nominal", sort: [...modes], title: null },
          },
        },
      ],
    },
  };
}
