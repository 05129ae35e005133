import type { RecordComparison } from "../../evaluation/compare_records.ts";
import {
  answersText,
  COMPARED_HEADS,
  comparedCells,
  PAIRED_NOTES,
  ratioIntervalText,
  repeatNotes,
  setRows,
} from "./paired_texts.ts";
import { countText, ratioText, type Report, shareText } from "../report.ts";

/** Options of `compareReport`. */
export interface CompareReportOptions {
  readonly files: readonly [string, string];
  /** What both evaluations depend on, where it is not the same. */
  readonly otherSettings: readonly string[];
  /** Modes that only the first file, only the second one has, and that are not compared. */
  readonly leftModes: readonly [readonly string[], readonly string[]];
  /** Percentage of a file's answers that may be left out. */
  readonly missing: number;
  /** True where something that answered in one of them is a simulation. */
  readonly simulated: boolean;
}

/** Two evaluations beside each other as a table. */
export function compareReport(
  comparisons: readonly RecordComparison[],
  { files, otherSettings, leftModes, missing, simulated }: CompareReportOptions,
): Report {
  const [first, second] = files;
  const what = `${second} against ${first}`;
  return {
    title: "Two evaluations, over the same questions",
    origin: simulated ? `Simulated engines, so that no figure says anything about models: ${what}` : what,
    tables: [{
      title: what,
      head: ["set", "mode", "answers", "before", "after", ...COMPARED_HEADS, "time", "95 %", "written"],
      rows: comparisons.map((one) => [
        one.set,
        modesText(one),
        answersText(one),
        ...one.accuracies.map((share) => shareText(share)),
        ...comparedCells(one),
        ratioText(one.latencyRatio),
        ratioIntervalText(one.latencyBootstrap.interval),
        ratioText(one.tokensRatio),
      ]),
    }],
    notes: [
      "difference: of the shares of right answers; behind it its 95 % interval for pairs (Agresti & Min); gained, lost: answers that only the second, only the first got right; p: McNemar's exact test",
      ...PAIRED_NOTES,
      ...repeatNotes(comparisons),
      "time, written: the second one's sum by the first one's, of times to the end of the answer and of tokens of all agents; behind time its interval by the paired bootstrap",
      ...comparisons.flatMap((one) => leftOutNotes(one, files, missing)),
      ...files.flatMap((file, at) =>
        leftModes[at]!.map((mode) => `not compared: mode ${mode}, which ${file} alone has`)
      ),
      ...otherSettings.map((setting) => `not the same in both: ${setting}`),
    ],
    plot: plotOf(comparisons),
    data: { experiment: "compare", simulated, files, otherSettings, leftModes, missing, comparisons },
  };
}

/** True where more than this percentage of one file's answers is left out. */
export function lacksAnswers({ given, answers }: RecordComparison, percent: number): boolean {
  return given.some((count) => 100 * (count - answers) > percent * count);
}

/** What is in no figure of a comparison, for each file. */
function leftOutNotes(one: RecordComparison, files: readonly [string, string], missing: number): string[] {
  return files.flatMap((file, at) => {
    const count = one.given[at]!;
    if (count === one.answers) return [];
    const other = files[1 - at]!;
    return [
      `${one.set}, ${modesText(one)}: ${countText(count - one.answers)} of ${
        countText(count)
      } answers of ${file} have none beside them in ${other}, or could not be checked, and are in no figure${
        100 * (count - one.answers) > missing * count
          ? `: more than ${missing} %, so that the others may be the easy ones, and exit code 1`
          : ""
      }`,
    ];
  });
}

function modesText({ modes: [before, after] }: RecordComparison): string {
  return before === after ? before : `${before} → ${after}`;
}

/** Difference of right answers with its interval, a row for each set. */
function plotOf(comparisons: readonly RecordComparison[]): Report["plot"] {
  const y = { field: "mode", type: "nominal", title: null } as const;
  return {
    data: {
      values: comparisons.filter(({ answers }) => answers > 0).map((one) => ({
        ...one.interval,
        ...one,
        mode: modesText(one),
      })),
    },
    facet: { row: setRows(comparisons.map(({ set }) => set)) },
    spec: {
      width: 420,
      layer: [
        {
          mark: { type: "rule" },
          encoding: {
            x: { field: "low", type: "quantitative", title: "difference of the shares of right answers" },
            x2: { field: "high" },
            y,
          },
        },
        {
          mark: { type: "point", filled: true, size: 60 },
          encoding: { x: { field: "difference", type: "quantitative" }, y },
        },
      ],
    },
  };
}
