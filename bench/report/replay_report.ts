import type { ReplayRuns } from "../experiments/recorded_graph.ts";
import type { ReplayedRun, ReplayedRuns } from "../experiments/replay.ts";
import { countText, durationText, ratioText, type Report, type ReportTable, shareText } from "./report.ts";

/** Most runs of a mode that a table shows: those that are furthest off. */
const MAX_ROWS = 40;

/** Recorded runs beside their simulation, as tables and a plot. `assumed`: further notes, a sentence each. */
export function replayReport(
  figures: readonly ReplayedRuns[],
  origin: string,
  { recorded, assumed, settings }: {
    readonly recorded: ReplayRuns;
    readonly assumed: readonly string[];
    readonly settings: Readonly<Record<string, unknown>>;
  },
): Report {
  return {
    title: "Recorded runs and their simulation",
    origin,
    tables: [latencies(figures), tokens(figures), ...figures.map(runsTable)],
    notes: [
      "recorded: from the run's start to its last token, as its record says; first token: the last agent's",
      "within 10 %: runs whose simulated time is at most a tenth away from the recorded one",
      ...(figures.some(({ runs }) => runs.length > MAX_ROWS)
        ? [`of each mode the ${MAX_ROWS} runs that are furthest off are shown; all are in the JSON file`]
        : []),
      ...assumed,
      ...lacksOf(recorded),
    ],
    plot: plotOf(figures),
    data: {
      experiment: "replay",
      simulated: true,
      origin,
      settings,
      lacks: lacksOf(recorded),
      results: figures,
    },
  };
}

/** What the records lack, and what stands in for it: a sentence each. */
export function lacksOf(recorded: ReplayRuns): string[] {
  const { runs, left, agentsLeft, agentsRepeated, runsWithoutTexts, reasoningByText, servers } = recorded;
  const many = [...servers].filter(([, count]) => count > 1).map(([model, count]) => `${model} ${count}`);
  const withoutTtft = runs.filter(({ ttftMs }) => ttftMs === undefined).length;
  const lines: (string | undefined)[] = [
    left.size === 0
      ? undefined
      : `left out: ${[...left].map(([why, count]) => `${count} whose run ${why}`).join(", ")}`,
    runsWithoutTexts === 0
      ? undefined
      : `${runsWithoutTexts} runs without texts: their leaves are taken to have asked the same, and their cached ` +
        "beginnings to be no longer than that",
    agentsLeft === 0
      ? undefined
      : `${agentsLeft} agents that failed, were ended early or were read by nobody are not simulated: their work ` +
        "is missing in the load",
    agentsRepeated === 0
      ? undefined
      : `${agentsRepeated} agents were called more than once: simulated is one call, of the mean prompt and of all ` +
        "that they wrote",
    reasoningByText === 0
      ? undefined
      : `${reasoningByText} agents reasoned, and their engines did not count it: its share of their text is taken`,
    withoutTtft === 0 ? undefined : `${withoutTtft} runs have no time of their first token`,
    many.length === 0
      ? undefined
      : `more servers answered than are simulated, one for each model: ${many.join(", ")}`,
    runs.length > 1 ? "arrivals are known to the second" : undefined,
    "records have no log-probabilities, and exits are not decided anew: who was not waited for is not waited for",
  ];
  return lines.filter((line) => line !== undefined);
}

function latencies(figures: readonly ReplayedRuns[]): ReportTable {
  return {
    title: "Latency",
    head: [
      "mode (simulated)",
      "runs",
      "recorded mean",
      "simulated mean",
      "ratio",
      "median ratio",
      "within 10 %",
      "first token within 10 %",
    ],
    rows: figures.map((one) => [
      one.name,
      countText(one.runs.length),
      durationText(one.recordedMeanMs),
      durationText(one.simulatedMeanMs),
      ratioText(one.simulatedMeanMs / one.recordedMeanMs),
      ratioText(one.medianRatio),
      `${one.within} (${shareText(one.within / one.runs.length)})`,
      one.ttftRuns === 0 ? "–" : `${one.ttftWithin} of ${one.ttftRuns}`,
    ]),
  };
}

function tokens(figures: readonly ReplayedRuns[]): ReportTable {
  return {
    title: "Tokens of the same agents",
    head: [
      "mode (simulated)",
      "read, recorded",
      "simulated",
      "cached, recorded",
      "simulated",
      "written, recorded",
      "simulated",
    ],
    rows: figures.map(({ name, promptTokens, cachedTokens, completionTokens }) => [
      name,
      ...[promptTokens, cachedTokens, completionTokens].flatMap(({ recorded, simulated }) => [
        countText(recorded),
        countText(simulated),
      ]),
    ]),
  };
}

function runsTable({ name, runs }: ReplayedRuns): ReportTable {
  const off = ({ ratio }: ReplayedRun) => Math.abs(Math.log(ratio));
  const shown = new Set([...runs].sort((a, b) => off(b) - off(a)).slice(0, MAX_ROWS));
  return {
    title: `Runs, ${name} (simulated)`,
    head: [
      "run",
      "graph",
      "arrival",
      "recorded",
      "simulated",
      "ratio",
      "first token, recorded",
      "simulated",
      "ratio",
    ],
    rows: runs.filter((run) => shown.has(run)).map((run) => [
      run.id,
      run.graph,
      durationText(run.arrivalMs),
      durationText(run.recordedMs),
      durationText(run.simulatedMs),
      ratioText(run.ratio),
      durationText(run.recordedTtftMs ?? NaN),
      durationText(run.simulatedTtftMs),
      ratioText(run.ttftRatio ?? NaN),
    ]),
  };
}

function plotOf(figures: readonly ReplayedRuns[]): Report["plot"] {
  const values = figures.flatMap(({ name, runs }) =>
    runs.map(({ id, recordedMs, simulatedMs }) => ({
      mode: name,
      run: id,
      recorded: recordedMs / 1000,
      simulated: simulatedMs / 1000,
    }))
  );
  const most = Math.max(0, ...values.flatMap(({ recorded, simulated }) => [recorded, simulated]));
  const line = (share: number) => ({
    data: { values: [{ x: 0, y: 0 }, { x: most, y: share * most }] },
    mark: { type: "line" as const, strokeDash: share === 1 ? [1, 0] : [4, 4], color: "#999", clip: true },
    encoding: {
      x: { field: "x", type: "quantitative" as const },
      y: { field: "y", type: "quantitative" as const },
    },
  });
  return {
    width: 420,
    height: 420,
    layer: [
      line(1),
      line(0.9),
      line(1.1),
      {
        data: { values },
        mark: { type: "point", filled: true, size: 45 },
        encoding: {
          x: { field: "recorded", type: "quantitative", title: "recorded, seconds" },
          y: { field: "simulated", type: "quantitative", title: "simulated, seconds" },
          color: { field: "mode", type: "nominal", title: "simulated" },
        },
      },
    ],
  };
}
