import { answerPath } from "../../evaluation/answer_path.ts";
import type { EvalFigures } from "../../evaluation/eval_figures.ts";
import type { EvalRecord } from "../../evaluation/eval_record.ts";
import type { NormalisedFigures } from "../../evaluation/normalised.ts";
import type { Report, ReportPlot } from "../report.ts";
import { setRows } from "./paired_texts.ts";
import type { SetLabel } from "./spending_tables.ts";

/** What the plots are of. */
export interface Figure4Options {
  readonly records: readonly EvalRecord[];
  readonly figures: readonly EvalFigures[];
  readonly normalised: readonly NormalisedFigures[];
  /** In the order of the plots. */
  readonly modes: readonly string[];
  readonly labelOf: SetLabel;
}

/** Most answers of a mode on a set that are drawn as points. */
const MAX_POINTS = 300;
const WIDTH = 300;

/** The plots of the paper's Fig. 4 (i) to (iii), as far as these results have what they show. */
export function figure4(options: Figure4Options): ReportPlot[] {
  const { figures, normalised } = options;
  const isGraph = figures.some(({ layers }) => layers.length > 0);
  return [
    ...isGraph
      ? [{
        name: "fig4-i",
        title: "As Fig. 4(i): agents used, and where the time goes",
        plot: usePlot(options),
      }]
      : [],
    ...normalised.length > 0
      ? [{
        name: "fig4-ii",
        title: `As Fig. 4(ii): latency divided by ${normalised[0]!.by}, and right answers`,
        plot: normalisedPlot(options),
      }]
      : [],
    ...figures.some(({ layers }) => layers.length > 2)
      ? [{ name: "fig4-iii", title: "As Fig. 4(iii): the second layer", plot: secondLayerPlot(options) }]
      : [],
  ];
}

/** (i): of each model's agents those whose text was used, and the critical path by layers. */
function usePlot({ figures, modes, labelOf }: Figure4Options): Report["plot"] {
  const rows = setRows(figures.map(({ set }) => labelOf(set)));
  const used = figures.flatMap(({ set, mode, models }) =>
    models.flatMap(({ model, usedShare }) =>
      usedShare === null ? [] : [{ set: labelOf(set), mode, model, share: usedShare }]
    )
  );
  const parts = figures.flatMap(({ set, mode, layers }) =>
    layers.flatMap(({ layer, exposedMs, writingMs }) =>
      [["exposed", exposedMs], ["writing", writingMs]].map(([part, ms], at) => ({
        set: labelOf(set),
        mode,
        part: `layer ${layer} ${part}`,
        order: 2 * layer + at,
        seconds: Number(ms) / 1000,
      }))
    )
  );
  const y = { field: "mode", type: "nominal", sort: [...modes], title: null } as const;
  return {
    hconcat: [
      {
        data: { values: used },
        facet: { row: rows },
        spec: {
          width: WIDTH,
          height: { step: 9, for: "offset" },
          mark: { type: "bar" },
          encoding: {
            y,
            yOffset: { field: "model" },
            x: { field: "share", type: "quantitative", title: "agents used", scale: { domain: [0, 1] } },
            color: { field: "model", type: "nominal", title: null },
          },
        },
      },
      {
        data: { values: parts },
        facet: { row: rows },
        spec: {
          width: WIDTH,
          mark: { type: "bar" },
          encoding: {
            y,
            x: { field: "seconds", type: "quantitative", title: "seconds on the critical path" },
            color: {
              field: "part",
              type: "nominal",
              title: null,
              sort: parts.map(({ part }) => part),
              legend: { columns: 2 },
            },
            order: { field: "order", type: "quantitative" },
          },
        },
      },
    ],
    resolve: { scale: { color: "independent" } },
  };
}

/** (ii): latency by that of #2 with its interval, and the share of right answers. */
function normalisedPlot({ figures, normalised, modes, labelOf }: Figure4Options): Report["plot"] {
  const rows = setRows(figures.map(({ set }) => labelOf(set)));
  const sets = [...new Set(normalised.map(({ set }) => set))];
  const latencies = [
    ...sets.map((set) => ({ set: labelOf(set), mode: normalised[0]!.by, value: 1, low: 1, high: 1 })),
    ...normalised.map(({ set, mode, latency, latencyBootstrap: { interval } }) => ({
      set: labelOf(set),
      mode,
      value: latency,
      ...interval,
    })),
  ];
  const shares = figures.filter(({ accuracy }) => !Number.isNaN(accuracy)).map((one) => ({
    set: labelOf(one.set),
    mode: one.mode,
    value: one.accuracy,
    ...one.interval,
  }));
  const x = { field: "mode", type: "nominal", sort: [...modes], title: null } as const;
  const half = (values: readonly object[], title: string, domain?: readonly [number, number]) => ({
    data: { values: [...values] },
    facet: { row: rows },
    spec: {
      width: WIDTH,
      height: 140,
      layer: [
        {
          mark: { type: "bar" as const, opacity: 0.75 },
          encoding: {
            x,
            y: {
              field: "value",
              type: "quantitative" as const,
              title,
              ...domain === undefined ? {} : { scale: { domain: [...domain] } },
            },
          },
        },
        {
          mark: { type: "rule" as const },
          encoding: { x, y: { field: "low", type: "quantitative" as const }, y2: { field: "high" } },
        },
      ],
    },
  });
  return {
    hconcat: [
      half(latencies, `latency divided by ${normalised[0]!.by}`),
      half(shares, "share of right answers", [0, 1]),
    ],
  };
}

/** (iii): from the last token of what the second layer's agent on the critical path reads to its own first one. */
function secondLayerPlot({ records, modes, labelOf }: Figure4Options): Report["plot"] {
  const points = [...Map.groupBy(records, ({ set, mode }) => `${set}\0${mode}`).values()].flatMap((group) =>
    group.flatMap((record) => secondLayer(record)).slice(0, MAX_POINTS)
  ).map((point) => ({ ...point, set: labelOf(point.set) }));
  return {
    data: { values: points },
    facet: { row: setRows(points.map(({ set }) => set)) },
    spec: {
      width: 2 * WIDTH,
      height: 200,
      mark: { type: "point", filled: true, opacity: 0.6 },
      encoding: {
        x: { field: "tokens", type: "quantitative", title: "tokens of the answers that it reads" },
        y: {
          field: "exposedMs",
          type: "quantitative",
          title: "ms from their end to its first token",
        },
        color: { field: "mode", type: "nominal", sort: [...modes], title: null },
      },
    },
  };
}

function secondLayer({ set, mode, run }: EvalRecord) {
  if (run === undefined) return [];
  const link = answerPath(run).find(({ layer }) => layer === 2);
  const reader = run.agents.find(({ id }) => id === link?.agent);
  if (link === undefined || reader === undefined) return [];
  const read = run.agents.filter(({ id, state }) => state === "done" && reader.reads.includes(id));
  const tokens = read.reduce((sum, { completionTokens }) => sum + completionTokens, 0);
  return [{ set, mode, tokens, exposedMs: link.exposedMs }];
}
