import {
  countedRecords,
  type EvalFigures,
  evalFigures,
  type EvalPair,
  evalPairs,
  heldQuestions,
} from "../evaluation/eval_figures.ts";
import type { EvalRecord } from "../evaluation/eval_record.ts";
import type { Evaluation } from "../evaluation/evaluate.ts";
import type { PairedAnswers } from "../statistics/paired_answers.ts";
import { sumOf } from "../statistics/statistics.ts";
import { type PartShares, partShares, uncheckedReasons } from "../grading/part_shares.ts";
import { countText, durationText, type Report, type ReportTable, shareText } from "./report.ts";

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
  /** Further notes, such as where a protocol is not followed to the letter. */
  readonly remarks?: readonly string[] | undefined;
}

/** An evaluation as tables and a plot. */
export function evalReport(
  { records: all, failures }: Evaluation,
  { origin, simulated, modes, labels, settings, hash, experiment, remarks = [] }: EvalReportOptions,
): Report {
  const records = countedRecords(all);
  const figures = evalFigures(records).sort((a, b) => modes.indexOf(a.mode) - modes.indexOf(b.mode));
  const pairs = evalPairs(records, modes);
  const parts = [...Map.groupBy(records, ({ set, mode }) => `${set}\0${mode}`).values()].flatMap((group) =>
    partShares(group).map((shares): ModeParts => ({ set: group[0]!.set, mode: group[0]!.mode, ...shares }))
  );
  const labelOf = (set: string) => labels.get(set) ?? set;
  return {
    title: "Right answers on data sets",
    origin,
    tables: [...tablesOf(figures, pairs, { modes, labels }), ...partTables(parts, labelOf)],
    notes: [
      "right: of all answers; ungradable ones, which state nothing that can be read, are never right; behind it the 95 % interval (Wilson)",
      ...uncheckedReasons(records).map(([reason, count]) =>
        `${count} ungradable, in no share, because they could not be checked: ${reason}`
      ),
      "cut: answers that the longest length has cut off",
      ...figures.some(({ filters }) => filters.length > 1)
        ? [
          "filter: what takes the answer out of the text, the first one counts above; canopy: the graders of the protocol chat; ± is the standard error, as lm-eval gives it",
        ]
        : [],
      ...remarks,
      "difference: of the shares of right answers; behind it its 95 % interval for pairs (Agresti & Min); gained, lost: answers that only this mode, only the first one got right; p: McNemar's exact test",
      ...repeatNotes(pairs),
      "mean, p50, p90: from the request to the end of the answer; written: tokens of all agents for an answer, drawn: answers that it was chosen from",
      ...figures.some(({ work }) => work !== undefined)
        ? [
          "first word: until the answer's first text, of answers that are chosen from several the whole time; read, cached: prompt tokens of all calls, and the share of them that was found in a cache; wasted: written, and read by nobody; saved: estimate of what exits spared; cost: by the models' prices, – where one has none; written by: shares of the tokens written",
        ]
        : [],
      ...paceNotes(all),
      ...simulated ? [] : [
        "nothing that was asked says that it is simulated, as Canopy's own simulated engines do",
      ],
      ...experimentNotes(hash, experiment),
      ...[...failures].map(([error, count]) =>
        `${count} without an answer, left out of all figures: ${error}`
      ),
    ],
    plot: plotOf(figures, modes, labelOf),
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
      parts,
      warmUpAnswers: all.length - records.length,
      held: heldQuestions(all),
      failures: Object.fromEntries(failures),
    },
  };
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

/** 20 answers to as many questions → `20`; 200 to them → `200 (20 questions)`. */
export function answersText({ answers, questions }: PairedAnswers): string {
  const text = countText(answers);
  return answers === questions ? text : `${text} (${countText(questions)} questions)`;
}

/** How repeats are compared, where there are any. */
export function repeatNotes(pairs: readonly PairedAnswers[]): string[] {
  return pairs.every(({ answers, questions }) => answers === questions) ? [] : [
    "answers to one question are not independent: where questions were asked several times, the interval of a difference is over questions, and p is that of the exact sign-flip test over questions, not McNemar's",
  ];
}

/** Notes that say how to have the same again. */
function experimentNotes(hash: string, experiment: ReportedExperiment | undefined): string[] {
  const settings = `SHA-256 of the settings that figures depend on: ${hash}`;
  if (experiment === undefined) return [settings];
  const { name, overrides } = experiment;
  const over = overrides.length === 0 ? "as it stands" : `and over it ${overrides.join("; ")}`;
  return [`experiment file ${name}, ${over}`, settings];
}

function tablesOf(
  figures: readonly EvalFigures[],
  pairs: readonly EvalPair[],
  { modes, labels }: Pick<EvalReportOptions, "modes" | "labels">,
): ReportTable[] {
  const labelOf = (set: string) => labels.get(set) ?? set;
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
        `${shareText(one.interval.low)} – ${shareText(one.interval.high)}`,
        countText(one.wrong),
        countText(one.ungradable),
        countText(one.cut),
        ...[one.latencyMs.mean, one.latencyMs.p50, one.latencyMs.p90].map(durationText),
        countText(one.completionTokens),
        one.drawn.toFixed(1),
      ]),
    })),
    filterTable(figures, labelOf),
    workTable(figures, labelOf),
    {
      title: `Beside ${modes[0] ?? ""}, over the same answers`,
      head: ["set", "mode", "answers", "difference", "95 %", "gained", "lost", "p"],
      rows: pairs.map((one) => [
        labelOf(one.set),
        one.mode,
        answersText(one),
        shareText(one.difference),
        `${shareText(one.interval.low)} – ${shareText(one.interval.high)}`,
        countText(one.gained),
        countText(one.lost),
        one.p.toFixed(3),
      ]),
    },
  ].filter(({ rows }) => rows.length > 0);
}

/** What each filter of a protocol gives; no rows where there is only one. */
function filterTable(figures: readonly EvalFigures[], labelOf: (set: string) => string): ReportTable {
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

/** What answers took, on average; no rows where nothing tells it. */
function workTable(figures: readonly EvalFigures[], labelOf: (set: string) => string): ReportTable {
  return {
    title: "What an answer took",
    head: [
      "set",
      "mode",
      "first word",
      "calls",
      "read",
      "cached",
      "written",
      "wasted",
      "saved",
      "cost",
      "written by",
    ],
    rows: figures.flatMap((one) => {
      const { work, answers } = one;
      if (work === undefined) return [];
      const each = (value: number | null) => value === null ? "–" : countText(value / answers);
      const all = sumOf(Object.values(work.models).map(({ completionTokens }) => completionTokens));
      return [[
        labelOf(one.set),
        one.mode,
        Number.isNaN(one.ttftMs) ? "–" : durationText(one.ttftMs),
        (work.calls / answers).toFixed(1),
        countText(one.promptTokens),
        work.cachedTokens === null ? "–" : shareText(work.cachedTokens / answers / one.promptTokens),
        countText(one.completionTokens),
        each(work.wastedTokens),
        each(work.savedTokens),
        work.cost === null ? "–" : (work.cost / answers).toPrecision(3),
        Object.entries(work.models).map(([model, { completionTokens }]) =>
          `${model} ${shareText(completionTokens / all, 0)}`
        ).join(", "),
      ]];
    }),
  };
}

interface ModeParts extends PartShares {
  readonly set: string;
  readonly mode: string;
}

/** Answers that are checked part by part: all parts met, and single parts; none where no answer is. */
function partTables(parts: readonly ModeParts[], labelOf: (set: string) => string): ReportTable[] {
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

/** A row of a plot for each set, in their order, its name above it: names are long. */
export function setRows(sets: readonly string[]) {
  return {
    field: "set",
    type: "nominal" as const,
    sort: [...new Set(sets)],
    header: { title: null, labelOrient: "top" as const, labelAngle: 0, labelAnchor: "start" as const },
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
