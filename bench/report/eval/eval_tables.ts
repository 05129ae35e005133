import type { EvalFigures, EvalPair } from "../../evaluation/eval_figures.ts";
import type { PartShares } from "../../grading/part_shares.ts";
import { countText, durationText, type ReportTable, shareText } from "../report.ts";
import { answersText, COMPARED_HEADS, comparedCells, intervalText } from "./paired_texts.ts";
import type { SetLabel } from "./spending_tables.ts";

/** Tables of right answers: a table for each of `labels`, the sets' names for people; `labelOf` are shorter ones. */
export function accuracyTables(
  figures: readonly EvalFigures[],
  labels: ReadonlyMap<string, string>,
  labelOf: SetLabel,
): ReportTable[] {
  return [
    ...[...labels].map(([set, label]) => ({
      title: label,
      head: [
        ...[
          "mode",
          "answers",
          "right",
          "95 %",
          "wrong",
          "ungradable",
          "cut",
          "mean",
          "p50",
          "p90",
          "written",
          "drawn",
        ],
      ],
      rows: figures.filter((one) => one.set === set).map((one) => [
        one.mode,
        countText(one.answers),
        shareText(one.accuracy),
        intervalText(one.interval),
        countText(one.wrong),
        countText(one.ungradable),
        countText(one.cut),
        ...[one.latencyMs.mean, one.latencyMs.p50, one.latencyMs.p90].map(durationText),
        countText(one.completionTokens),
        one.drawn.toFixed(1),
      ]),
    })),
    filterTable(figures, labelOf),
  ].filter(({ rows }) => rows.length > 0);
}

/** Each mode's right answers beside those of the first one; none where there is only one. */
export function pairTables(pairs: readonly EvalPair[], labelOf: SetLabel): ReportTable[] {
  const [first] = pairs;
  if (first === undefined) return [];
  return [{
    title: `Beside ${first.against}, over the same answers`,
    head: ["set", "mode", "answers", ...COMPARED_HEADS],
    rows: pairs.map((one) => [
      labelOf(one.set),
      one.mode,
      answersText(one),
      ...comparedCells(one),
    ]),
  }];
}

/** What each filter of a protocol gives; no rows where there is only one. */
function filterTable(figures: readonly EvalFigures[], labelOf: SetLabel): ReportTable {
  return {
    title: "By filter",
    head: ["set", "mode", "filter", "answers", "right", "±", "ungradable"],
    rows: figures.filter(({ filters }) => filters.length > 1).flatMap((one) =>
      one.filters.map(({ filter, accuracy, stderr, ungradable }) => [
        labelOf(one.set),
        one.mode,
        filter,
        countText(one.answers),
        shareText(accuracy),
        shareText(stderr),
        countText(ungradable),
      ])
    ),
  };
}

/** Parts of a mode's answers to a set. */
export interface ModeParts extends PartShares {
  readonly set: string;
  readonly mode: string;
}

/** Answers that are checked part by part: all parts met, and single parts; none where no answer is. */
export function partTables(parts: readonly ModeParts[], labelOf: SetLabel): ReportTable[] {
  if (parts.length === 0) return [];
  return [{
    title: "Part by part",
    head: ["set", "mode", "checked", "answers", "all met", "parts", "met", "not checked"],
    rows: parts.map((one) => [
      labelOf(one.set),
      one.mode,
      one.way,
      countText(one.answers),
      shareText(one.allMet),
      countText(one.parts),
      shareText(one.met),
      countText(one.unchecked),
    ]),
  }];
}
