import { PLACING_CASES, type PlacingResult, PREFIXES } from "../experiments/placing.ts";
import { durationText, type Report, shareText } from "./report.ts";

/** Policies of placing as tables and a plot. */
export function placingReport(
  results: readonly PlacingResult[],
  origin: string,
  settings: Readonly<Record<string, unknown>>,
): Report {
  return {
    title: "Policies of placing",
    origin,
    tables: PLACING_CASES.map(({ name, prompts, cachedPrefixes }) => ({
      title: prompts === "random"
        ? `${name} that share nothing`
        : `${name}, each of which holds ${cachedPrefixes} of ${PREFIXES.count} prefixes of ${PREFIXES.bytes} bytes`,
      head: ["policy", "prefixes found", "requests of each reader", "spread", "mean", "p90", "all"],
      rows: results.filter((result) => result.name === name).map(({ policy, figures }) => [
        policy,
        prompts === "random" ? "–" : shareText(figures.hits),
        figures.perServer.join(" / "),
        figures.spread.toFixed(2),
        durationText(figures.durationMs.mean),
        durationText(figures.durationMs.p90),
        durationText(figures.totalMs),
      ]),
    })),
    notes: [
      "prefixes found: requests whose shared prefix was in the cache of the server that read them; the first request of each cannot find it",
      "spread: requests of the reader that got the most, by those of the one that got the least",
    ],
    plot: {
      data: {
        values: results.map(({ name, policy, figures }) => ({ name, policy, hits: figures.hits })),
      },
      mark: "bar",
      encoding: {
        x: { field: "name", type: "nominal", sort: null, title: null, axis: { labelAngle: 0 } },
        xOffset: { field: "policy", type: "nominal", sort: null },
        y: { field: "hits", type: "quantitative", title: "prefixes found", axis: { format: "%" } },
        color: { field: "policy", type: "nominal", sort: null, title: null },
      },
      width: 640,
      height: 260,
    },
    data: { experiment: "placing", simulated: true, origin, settings, results },
  };
}
