import { PAPER_CUTS, type Sensitivity, type SensitivityRow } from "../experiments/sensitivity/sensitivity.ts";
import { durationText, type Report, type ReportTable, shareText } from "./report.ts";

const MODES = PAPER_CUTS.map(({ mode }) => mode);
const BASE = "base";

/** Which of the paper's cuts come out under which assumptions, as tables and a plot. */
export function sensitivityReport(
  result: Sensitivity,
  origin: string,
  settings: Readonly<Record<string, unknown>>,
): Report {
  const { base, alone, searches, workload, questions } = result;
  return {
    title: "Assumptions that the paper's cuts need",
    origin,
    tables: [
      {
        title:
          `${workload}, ${questions} questions: cut of the mean latency against #1, one assumption changed at a time`,
        head: ["assumption", "#1 takes", ...MODES, "reached", "by one question"],
        rows: [base, ...alone].map(rowOf),
      },
      ...searches.map(searchTable),
    ],
    notes: [
      "Simulated: costed on the simulator's cost model of H200 GPUs (decode steps, memory, queues of prompts, exits); router and network are not played; chance alone decides where clusters exit",
      "base: one question at a time on pairs, whole answers are read, exits with 85 % from the second answer on; lengths, limit and correlation are the workload's",
      "reached: which of 62 % (#2), 76 % (#3) and 90 % (#4) the mean latencies give; by one question: which one the greatest cut of a single question gives, as the paper's are called its greatest",
      "joined on #2: the paper measured #1 and #2 on one engine and #2 to #4 on another, and multiplied the ratios",
      "Prompts that do not fit a GPU's memory together wait for each other here; a real pair may fail them when they wait too long",
      "bound: no exit can come earlier; it is in none of the sets of assumptions below",
      "A set begins with the base, and takes the assumption that adds most in each line, one of a kind; another set may do with as few",
    ],
    plot: plotOf(result),
    data: { experiment: "sensitivity", simulated: true, origin, settings, results: result },
  };
}

function rowOf(row: SensitivityRow): string[] {
  return [
    row.changes.length === 0 ? BASE : row.changes.join("; "),
    durationText(row.denseMs),
    ...MODES.map((mode) => shareText(row.cuts[mode])),
    reachedText(row.cuts),
    reachedText(row.greatest),
  ];
}

function reachedText(cuts: SensitivityRow["cuts"]): string {
  const reached = PAPER_CUTS.filter(({ mode, share }) => cuts[mode] >= share);
  return reached.length === 0 ? "none" : reached.map(({ share }) => shareText(share, 0)).join(", ");
}

function searchTable(
  { mode, share, asStated, reached, steps }: Sensitivity["searches"][number],
): ReportTable {
  const name = shareText(share, 0);
  const count = steps.length - 1;
  const scope = asStated ? "one question at a time" : "load as it may be";
  return {
    title: reached
      ? `${name} of ${mode}, ${scope}: reached with ${
        count === 0 ? "the base alone" : count === 1 ? "one change" : `${count} changes`
      }`
      : `${name} of ${mode}, ${scope}: not reached, and of the other assumptions none adds to it`,
    head: ["with", "cut"],
    rows: steps.map((step, at) => [
      at === 0 ? BASE : `and ${step.changes.at(-1)}`,
      shareText(step.cuts[mode]),
    ]),
  };
}

function plotOf({ base, alone }: Sensitivity): Report["plot"] {
  const values = [base, ...alone].flatMap((row, order) =>
    MODES.map((mode) => ({ assumption: row.changes[0] ?? BASE, mode, cut: row.cuts[mode], order }))
  );
  return {
    width: 420,
    layer: [
      {
        data: { values: PAPER_CUTS.map(({ mode, share }) => ({ mode, share })) },
        mark: { type: "rule", strokeDash: [4, 4] },
        encoding: {
          x: { field: "share", type: "quantitative" },
          color: { field: "mode", type: "nominal", title: null },
        },
      },
      {
        data: { values },
        mark: { type: "point", filled: true, size: 50 },
        encoding: {
          y: {
            field: "assumption",
            type: "nominal",
            title: null,
            sort: { field: "order" },
            axis: { labelLimit: 320 },
          },
          x: {
            field: "cut",
            type: "quantitative",
            title: "cut of the mean latency against #1; dashed: the paper's greatest",
          },
          color: { field: "mode", type: "nominal", title: null },
        },
      },
    ],
  };
}
