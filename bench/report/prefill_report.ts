import { PREFILL_VARIANTS, type PrefillFigures, type PrefillVariant } from "../experiments/prefill.ts";
import { durationText, type Report, shareText } from "./report.ts";

/** The micro-benchmark of the second layer as a table and a plot. */
export function prefillReport(
  figures: readonly PrefillFigures[],
  origin: string,
  settings: Readonly<Record<string, unknown>>,
): Report {
  const name = (variant: PrefillVariant) =>
    PREFILL_VARIANTS.find((known) => known.variant === variant)?.name ?? variant;
  return {
    title: "Latency of the second layer",
    origin,
    tables: [{
      title: "Second layer, from the last precursor's last token to the aggregator's last token",
      head: ["model", "prefill", "mean", "p50", "p90", "first token", "saved", "saved at most"],
      rows: figures.map(({ model, variant, layerMs, handOverMs, saved, mostSaved }) => [
        model,
        name(variant),
        durationText(layerMs.mean),
        durationText(layerMs.p50),
        durationText(layerMs.p90),
        durationText(handOverMs.mean),
        shareText(saved),
        shareText(mostSaved),
      ]),
    }],
    notes: [
      "first token: from the last precursor's last token to the aggregator's first one",
      "lower bound: the aggregator's decode alone, its prompt read and handed over in no time",
    ],
    plot: {
      data: {
        values: figures.map(({ model, variant, saved }) => ({
          model,
          variant: name(variant),
          latency: 1 - saved,
          label: shareText(1 - saved, 0),
        })),
      },
      encoding: {
        x: { field: "model", type: "nominal", sort: null, title: null, axis: { labelAngle: 0 } },
        xOffset: { field: "variant", type: "nominal", sort: null },
        y: {
          field: "latency",
          type: "quantitative",
          title: "mean latency, whole prompt at once = 100 %",
          axis: { format: ".0%" },
        },
      },
      width: 560,
      height: 260,
      layer: [
        {
          mark: "bar",
          encoding: {
            color: {
              field: "variant",
              type: "nominal",
              scale: { domain: PREFILL_VARIANTS.map((known) => known.name) },
              title: null,
            },
          },
        },
        {
          mark: { type: "text", dy: -6, fontSize: 9 },
          encoding: { text: { field: "label", type: "nominal" } },
        },
      ],
    },
    data: { experiment: "prefill", simulated: true, origin, settings, results: figures },
  };
}
