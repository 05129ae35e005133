import {
  countedRecords,
  type EvalFigures,
  evalFigures,
  evalPairs,
  heldQuestions,
} from "../../evaluation/eval_figures.ts";
import type { EvalRecord } from "../../evaluation/eval_record.ts";
import type { Evaluation } from "../../evaluation/evaluate.ts";
import { normalisedFigures } from "../../evaluation/normalised.ts";
import { PLAIN_BASIS, type SpendingBasis } from "../../evaluation/spending.ts";
import { partShares, uncheckedReasons } from "../../grading/part_shares.ts";
import { countText, durationText, type Report } from "../report.ts";
import {
  diversityNotes,
  diversityPlot,
  diversityTables,
  type ReportedDiversity,
} from "./diversity_tables.ts";
import { accuracyTables, type ModeParts, pairTables, partTables } from "./eval_tables.ts";
import { figure4 } from "./figure4.ts";
import { PAIRED_NOTES, repeatNotes, setRows } from "./paired_texts.ts";
import { normalisedTables, spendingNotes, spendingTables } from "./spending_tables.ts";

/** An experiment file as a report tells of it. */
export interface ReportedExperiment {
  /** As the user knows it. */
  readonly name: string;
  readonly text: string;
  /** Options of the command line, each with what it took the place of. */
  readonly overrides: readonly string[];
}

/** Options of `evalReport`. */
export interface EvalReportOptions {
  readonly origin: string;
  /** True where something that answered is a simulation. */
  readonly simulated: boolean;
  readonly modes: readonly string[];
  /** Labels of the sets by name: a sample is called one. */
  readonly labels: ReadonlyMap<string, string>;
  readonly settings: Readonly<Record<string, unknown>>;
  /** SHA-256 of the settings that figures depend on. */
  readonly hash: string;
  readonly experiment?: ReportedExperiment | undefined;
  /** Of costs and GPU time. */
  readonly basis?: SpendingBasis | undefined;
  /** The mode that figures are divided by: #2, the tree without incremental prefill and early exit. */
  readonly baseline?: string | undefined;
  /** Of open-ended prompts, where there are any. */
  readonly diversity?: ReportedDiversity | undefined;
  /** Pages of single questions, seen from the report's page. */
  readonly pages?: Report["pages"];
  /** Further notes, such as where a protocol is not followed to the letter. */
  readonly remarks?: readonly string[] | undefined;
}

const DIFFERENCE_NOTE =
  "difference: of the shares of right answers; behind it its 95 % interval for pairs (Agresti & Min); gained, lost: answers that only this mode, only the first one got right; p: McNemar's exact test";

/** An evaluation as tables and a plot. */
export function evalReport({ records: all, failures }: Evaluation, options: EvalReportOptions): Report {
  const { origin, simulated, modes, labels, settings, experiment, basis = PLAIN_BASIS, baseline, diversity } =
    options;
  const records = countedRecords(all);
  const figures = evalFigures(records, basis).sort((a, b) => modes.indexOf(a.mode) - modes.indexOf(b.mode));
  const pairs = evalPairs(records, modes);
  const normalised = baseline === undefined ? [] : normalisedFigures(records, { modes, by: baseline, basis });
  const parts = [...Map.groupBy(records, ({ set, mode }) => `${set}\0${mode}`).values()].flatMap((group) =>
    partShares(group).map((shares): ModeParts => ({ set: group[0]!.set, mode: group[0]!.mode, ...shares }))
  );
  // That samples are by Canopy stands above the first tables: in each row it would be most of its width.
  const labelOf = (set: string) => (labels.get(set) ?? set).replace(/ \([^)]*by Canopy[^)]*\)/, "");
  const isOpenOnly = diversity !== undefined && figures.every(({ accuracy }) => Number.isNaN(accuracy));
  return {
    title: isOpenOnly ? "Answers to open-ended prompts" : "Right answers on data sets",
    origin,
    tables: [
      ...accuracyTables(figures, labels, labelOf),
      ...diversity === undefined ? [] : diversityTables(diversity, labelOf),
      ...spendingTables(figures, labelOf),
      ...normalisedTables(normalised, labelOf),
      ...pairTables(pairs, labelOf),
      ...partTables(parts, labelOf),
    ],
    notes: [
      ...accuracyNotes(figures, records),
      ...diversity === undefined ? [] : diversityNotes(diversity),
      ...options.remarks ?? [],
      ...pairs.length === 0 ? [] : [DIFFERENCE_NOTE, ...PAIRED_NOTES],
      ...repeatNotes(pairs),
      "mean, p50, p90: from the request to the last word of the answer; written: tokens of all agents for an answer, drawn: answers that it was chosen from",
      ...spendingNotes(figures, { simulated }),
      ...normalisedNotes(options),
      ...paceNotes(all),
      ...simulated ? [] : [
        "nothing that was asked says that it is simulated, as Canopy's own simulated engines do",
      ],
      ...experimentNotes(options.hash, experiment),
      ...[...failures].map(([error, count]) =>
        `${count} without an answer, left out of all figures: ${error}`
      ),
    ],
    plot: isOpenOnly && diversity !== undefined
      ? diversityPlot(diversity.figures, modes, labelOf)
      : plotOf(figures, modes, labelOf),
    plots: figure4({ records, figures, normalised, modes, labelOf }),
    pages: options.pages,
    listings: experiment === undefined
      ? []
      : [{ title: `Experiment file ${experiment.name}`, text: experiment.text }],
    data: {
      experiment: "eval",
      experimentFile: experiment === undefined
        ? undefined
        : { name: experiment.name, overrides: experiment.overrides, text: experiment.text },
      simulated,
      origin,
      settings,
      figures,
      pairs,
      normalised,
      parts,
      diversity,
      warmUpAnswers: all.length - records.length,
      held: heldQuestions(all),
      failures: Object.fromEntries(failures),
    },
  };
}

function accuracyNotes(figures: readonly EvalFigures[], records: readonly EvalRecord[]): string[] {
  return [
    "right: of all answers; ungradable ones, which state nothing that can be read, are never right; behind it the 95 % interval (Wilson; where questions were asked several times, with the effective number of answers by the cluster-robust variance over questions)",
    ...uncheckedReasons(records).map(([reason, count]) =>
      `${count} ungradable, in no share, because they could not be checked: ${reason}`
    ),
    "cut: answers that the longest length has cut off",
    ...figures.some(({ filters }) => filters.length > 1)
      ? [
        "filter: what takes the answer out of the text, the first one counts above; canopy: the graders of the protocol chat; ± is the standard error, as lm-eval gives it",
      ]
      : [],
  ];
}

/** On what is divided by #2, as the paper does. */
function normalisedNotes({ baseline, modes }: EvalReportOptions): string[] {
  if (modes.length < 2) return [];
  return [
    baseline === undefined
      ? "not divided by #2 as the paper does: none of these modes is known to be the tree without incremental prefill and early exit; --baseline MODE names one"
      : `divided by ${baseline}: means over the answers that both modes have, as the paper divides by #2`,
  ];
}

/** Notes on answers that do not count, and on questions that came later than they arrived. */
function paceNotes(records: readonly EvalRecord[]): string[] {
  const warmUp = records.filter((record) => record.warmUp === true);
  const questions = new Set(warmUp.map(({ set, question }) => `${set}\0${question}`)).size;
  const held = heldQuestions(records);
  return [
    ...questions === 0 ? [] : [
      `in no figure, since they are of the warm-up: ${counted(warmUp.length, "answer")} to ${
        counted(questions, "question")
      }`,
    ],
    ...held.questions === 0 ? [] : [
      `held back: ${
        counted(held.questions, "question")
      }, arrived while as many as --concurrency allows were under way; ` +
      `the longest wait was ${durationText(held.longestMs)}, in no latency: the load was below --rate`,
    ],
  ];
}

function counted(count: number, what: string): string {
  return `${countText(count)} ${what}${count === 1 ? "" : "s"}`;
}

/** Notes that say how to have the same again. */
function experimentNotes(hash: string, experiment: ReportedExperiment | undefined): string[] {
  const settings = `SHA-256 of the settings that figures depend on: ${hash}`;
  if (experiment === undefined) return [settings];
  const { name, overrides } = experiment;
  const over = overrides.length === 0 ? "as it stands" : `and over it ${overrides.join("; ")}`;
  return [`experiment file ${name}, ${over}`, settings];
}

/** Share of right answers of each mode with its interval, a row for each set. */
function plotOf(
  figures: readonly EvalFigures[],
  modes: readonly string[],
  labelOf: (set: string) => string,
): Report["plot"] {
  return {
    data: {
      values: figures.filter(({ accuracy }) => !Number.isNaN(accuracy)).map((one) => ({
        ...one,
        ...one.interval,
        set: labelOf(one.set),
      })),
    },
    facet: { row: setRows(figures.map(({ set }) => labelOf(set))) },
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
