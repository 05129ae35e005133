import type { LaboratoryRow } from "../laboratory/ask.ts";
import {
  BEST_SINGLE,
  DENSE,
  OVERLAPPED,
  STAIRCASE,
  STAIRCASE_OF_ALL,
  TREE,
} from "../laboratory/conditions.ts";
import type { LaboratoryResult } from "../laboratory/experiment.ts";
import {
  comparisonsOf,
  type ConditionComparison,
  type ConditionFigures,
  conditionFigures,
  type FirstWordComparison,
  firstWordsOf,
  votesLike,
} from "../laboratory/laboratory_figures.ts";
import {
  type PredictorFigures,
  predictorFigures,
  proposalAccuracy,
} from "../laboratory/predictor_figures.ts";
import {
  type EngineComparison,
  enginesCompared,
  type SameAnswers,
  sameAnswers,
} from "../laboratory/same_answers.ts";
import { type StoppingFigures, stoppingFigures } from "../laboratory/stopping_figures.ts";
import type { Interval } from "../statistics/statistics.ts";
import { countText, durationText, ratioText, type Report, type ReportTable, shareText } from "./report.ts";

/** Of a way in the plot, in pixels: its name fits. */
const LINE_HEIGHT = 16;

/** Options of `laboratoryReport`. */
export interface LaboratoryReportOptions {
  readonly origin: string;
  readonly settings: Readonly<Record<string, unknown>>;
  /** Of the intervals. */
  readonly seed: string;
  /** Rows from another engine, with which likeliest answers are compared. */
  readonly elsewhere?: readonly LaboratoryRow[] | undefined;
}

/** The laboratory's experiment as tables and a plot. */
export function laboratoryReport(
  result: LaboratoryResult,
  { origin, settings, seed, elsewhere = [] }: LaboratoryReportOptions,
): Report {
  const figures = result.conditions.map(conditionFigures);
  const comparisons = comparisonsOf(result, seed);
  const predictors = predictorFigures(result.proposals, seed);
  const stopping = stoppingFigures(result.proposals, seed, rightOf(result, OVERLAPPED));
  const votes = votesLike(result.conditions);
  const firstWords = firstWordsOf(result, seed);
  const same = sameAnswers(result, elsewhere).filter(({ questions }) => questions > 0);
  const engines = enginesCompared(result, elsewhere);
  return {
    title: "The laboratory: the whole method on real models",
    origin,
    tables: [
      findingsTable(comparisons, votes),
      accuracyTable(figures),
      comparisonsTable(comparisons),
      firstWordsTable(firstWords),
      exitsTable(figures),
      predictorsTable(predictors),
      stoppingTable(stopping),
      undecidedTable(stopping),
      sameTable(same),
      enginesTable(engines),
    ].filter(({ rows }) => rows.length > 0),
    notes: [
      "right: graded with the reader of final answers that early exit uses; behind it the 95 % interval (Wilson)",
      "difference: of the shares of right answers, with the 95 % interval for pairs (Agresti & Min); latency: with that of a paired bootstrap; p: McNemar's exact test; gained, lost: questions that only the first, only the second got right",
      "latency: from a run's start to its last token; with several questions at a time it is that of a loaded machine",
      "written: tokens of all agents, those that nobody read included; as of an exit's cut-off agents only what they had written",
      "chance, as often as …: exits with the same probability at each decision; what a metric is worth is what it has over this",
      "exits of the whole run have their yardstick of chance over the drawn answers: the random metric decides for clusters only",
      "answers, different: proposals that went on, and different final answers among them; right among them: questions where at least one was right",
      "AUC: probability that of a right and a wrong answer (an agreeing and a disagreeing pair) the first has the higher number, 0.5 is chance; interval: bootstrap over questions",
      "answers are read in 20 random orders; as many by chance: the rule's numbers of answers, dealt out to other questions and orders; the most frequent answer counts, of several the first",
      "undecided: of those orders in which all are read and too few agree; by the leader: right answers where the most frequent one is given then; by the whole tree: of mode #3 on the same questions; change: of all right answers, with a bootstrap interval over questions",
      "many comparisons are shown: of twenty without any difference, one has p < 0.05",
    ],
    plot: plotOf(figures),
    data: {
      experiment: "laboratory",
      simulated: false,
      origin,
      settings,
      conditions: figures,
      comparisons,
      firstWords: firstWords.length === 0 ? undefined : firstWords,
      predictors,
      stopping,
      proposals: proposalAccuracy(result.proposals),
      votes,
      same,
      engines,
    },
  };
}

/** Questions in plain words, and what was found. */
function findingsTable(
  comparisons: readonly ConditionComparison[],
  { tokens, time }: { readonly tokens: string | undefined; readonly time: string | undefined },
): ReportTable {
  const asked: (readonly [string, string, string | undefined])[] = [
    ["Does the tree lose right answers against all-to-all?", TREE, DENSE],
    ["Does incremental prefill change answers, or time?", OVERLAPPED, TREE],
    ["Is the tree better than the best single model?", TREE, BEST_SINGLE],
    ["… than its vote at equal tokens?", TREE, tokens],
    ["… than its vote at equal time?", TREE, time],
    ["Does q, as printed, beat chance?", "#4 q, as printed", "#4 chance, as often as q, as printed"],
    ["Does q, as we read it, beat chance?", "#4 q, ours", "#4 chance, as often as q, ours"],
    ["Do final answers beat chance?", "#4 answer", "#4 chance, as often as answer"],
    ["What does a staircase root cost?", STAIRCASE, OVERLAPPED],
    ["… a staircase of all layers?", STAIRCASE_OF_ALL, OVERLAPPED],
    ["What does exit by agreement cost, and spare?", "#4 agreement", OVERLAPPED],
    ["What does exit of the whole run cost, and spare?", "#4 run, 4 agree", OVERLAPPED],
  ];
  const rows = asked.flatMap(([question, name, against]) => {
    const found = comparisons.find((one) => one.name === name && one.against === against);
    return found === undefined ? [] : [[
      question,
      verdictOf(found),
      points(found.difference),
      pText(found.p),
      `× ${ratioText(found.latencyRatio)}`,
      `× ${ratioText(found.tokensRatio)}`,
    ]];
  });
  return {
    title: "What was asked, and what was found",
    head: ["question", "right answers", "difference", "p", "latency", "written"],
    rows,
  };
}

function verdictOf({ difference, p }: ConditionComparison): string {
  if (p >= 0.05) return "no difference that could be seen";
  return difference > 0 ? "more" : "fewer";
}

function accuracyTable(figures: readonly ConditionFigures[]): ReportTable {
  return {
    title: "Every way to answer",
    head: ["way", "right", "95 %", "first word", "mean", "p50", "p90", "read", "written", "wasted"],
    rows: figures.map((one) => [
      one.name,
      shareText(one.accuracy),
      intervalText(one.interval),
      durationText(one.firstMs ?? NaN),
      durationText(one.latencyMs.mean),
      durationText(one.latencyMs.p50),
      durationText(one.latencyMs.p90),
      countText(one.promptTokens),
      countText(one.completionTokens),
      countText(one.wastedTokens),
    ]),
  };
}

function comparisonsTable(comparisons: readonly ConditionComparison[]): ReportTable {
  return {
    title: "Pairs, over the same questions",
    head: ["first", "second", "difference", "95 %", "gained", "lost", "p", "latency", "95 %", "written"],
    rows: comparisons.map((one) => [
      one.name,
      one.against,
      points(one.difference),
      `${points(one.interval.low)} … ${points(one.interval.high)}`,
      countText(one.gained),
      countText(one.lost),
      pText(one.p),
      `× ${ratioText(one.latencyRatio)}`,
      `${ratioText(one.latencyInterval.low)} … ${ratioText(one.latencyInterval.high)}`,
      `× ${ratioText(one.tokensRatio)}`,
    ]),
  };
}

function firstWordsTable(comparisons: readonly FirstWordComparison[]): ReportTable {
  return {
    title: "First words, over the same questions",
    head: ["first", "second", "its first word", "the second's", "share", "95 %", "sooner"],
    rows: comparisons.map(({ name, against, firstMs, againstMs, ratio, interval }) => [
      name,
      against,
      durationText(firstMs),
      durationText(againstMs),
      `× ${ratioText(ratio)}`,
      `${ratioText(interval.low)} … ${ratioText(interval.high)}`,
      ratio < 1 ? shareText(1 - ratio) : "–",
    ]),
  };
}

function exitsTable(figures: readonly ConditionFigures[]): ReportTable {
  const shown = figures.filter(({ part, name }) => part === "exits" || name === OVERLAPPED);
  return {
    title: "Early exit: what went on, and what was spared",
    head: [
      "way",
      "exits",
      "answers",
      "different",
      "right among them",
      "right at the end",
      "wasted",
      "saved (estimate)",
    ],
    rows: shown.length < 2 ? [] : shown.map((one) => [
      one.name,
      shareText(one.exitRate),
      one.leaves.toFixed(2),
      one.differentAnswers.toFixed(2),
      shareText(one.rightAmongLeaves),
      shareText(one.accuracy),
      countText(one.wastedTokens),
      countText(one.savedTokens),
    ]),
  };
}

function predictorsTable(predictors: readonly PredictorFigures[]): ReportTable {
  return {
    title: "What tells that an answer is right, or that two agree",
    head: ["number", "tells", "AUC", "95 %", "observations"],
    rows: predictors.map(({ name, tells, auc, interval, count }) => [
      name,
      tells,
      ratioText(auc),
      `${ratioText(interval.low)} … ${ratioText(interval.high)}`,
      countText(count),
    ]),
  };
}

function stoppingTable(stopping: readonly StoppingFigures[]): ReportTable {
  return {
    title: "Exit of the whole run, beside chance: nine drawn answers, read until a rule holds",
    head: ["rule", "answers read", "right", "as many by chance", "difference", "95 %"],
    rows: stopping.map(({ rule, read, accuracy, chance, difference, interval }) => [
      rule,
      read.toFixed(2),
      shareText(accuracy),
      shareText(chance),
      points(difference),
      `${points(interval.low)} … ${points(interval.high)}`,
    ]),
  };
}

/** Whether a condition was right, by question. */
function rightOf({ conditions }: LaboratoryResult, name: string): ReadonlyMap<string, boolean> {
  const rows = conditions.find(({ condition }) => condition.name === name)?.rows ?? [];
  return new Map(rows.map(({ question, right }) => [question, right]));
}

function undecidedTable(stopping: readonly StoppingFigures[]): ReportTable {
  const undecided = stopping.filter((one) =>
    one.agree !== undefined && one.undecided > 0 && Number.isFinite(one.whole)
  );
  return {
    title: "Too few of nine agree: the answer that leads, beside the whole tree",
    head: ["rule", "undecided", "right by the leader", "by the whole tree", "change", "95 %"],
    rows: undecided.map(({ rule, undecided: share, leader, whole, change, changeInterval }) => [
      rule,
      shareText(share),
      shareText(leader),
      shareText(whole),
      points(change),
      `${points(changeInterval.low)} … ${points(changeInterval.high)}`,
    ]),
  };
}

function sameTable(same: readonly SameAnswers[]): ReportTable {
  return {
    title: "The same likeliest answers as the other engine, to the last character",
    head: ["model", "same", "questions", "share", "different, for instance"],
    rows: same.map(({ name, same: count, questions, different }) => [
      name,
      countText(count),
      countText(questions),
      shareText(count / questions),
      different.slice(0, 3).join(", ") || "–",
    ]),
  };
}

function enginesTable(engines: readonly EngineComparison[]): ReportTable {
  return {
    title: "Every way here and on the other engine, over the same questions",
    head: [
      "way",
      "right",
      "there",
      "difference",
      "95 %",
      "same final answer",
      "exits",
      "there",
      "written, of #3",
      "there",
      "latency, of #3",
      "there",
    ],
    rows: engines.map((one) => [
      one.name,
      shareText(one.right),
      shareText(one.rightElsewhere),
      points(one.difference),
      `${points(one.interval.low)} … ${points(one.interval.high)}`,
      shareText(one.sameFinal),
      shareText(one.exitRate),
      shareText(one.exitRateElsewhere),
      `× ${ratioText(one.tokensRatio)}`,
      `× ${ratioText(one.tokensRatioElsewhere)}`,
      `× ${ratioText(one.latencyRatio)}`,
      `× ${ratioText(one.latencyRatioElsewhere)}`,
    ]),
  };
}

function intervalText({ low, high }: Interval): string {
  return `${(100 * low).toFixed(1)} … ${(100 * high).toFixed(1)}`;
}

/** 0.034 → `+3.4 points`. */
function points(share: number): string {
  return Number.isFinite(share) ? `${share > 0 ? "+" : ""}${(100 * share).toFixed(1)} points` : "–";
}

function pText(p: number): string {
  return p < 0.001 ? "< 0.001" : p.toFixed(3);
}

/** A line for each way, however alike ways are: its right answers with their interval, and what it writes for them. */
function plotOf(figures: readonly ConditionFigures[]): Report["plot"] {
  const values = figures.map(({ name, part, accuracy, interval, completionTokens }) => ({
    name,
    part,
    right: 100 * accuracy,
    low: 100 * interval.low,
    high: 100 * interval.high,
    tokens: completionTokens,
  }));
  const y = { field: "name", type: "nominal" as const, sort: null, title: null };
  const grid = { grid: true, labels: false, ticks: false, domain: false };
  const color = { field: "part", type: "nominal" as const, title: null };
  const x = (title: string) => ({ type: "quantitative" as const, title, scale: { zero: false } });
  const right = x("right answers, %, and their 95 % interval");
  const panel = { width: 330, height: { step: LINE_HEIGHT } };
  return {
    data: { values },
    hconcat: [
      {
        ...panel,
        layer: [
          {
            mark: { type: "rule" as const, opacity: 0.5 },
            encoding: { x: { ...right, field: "low" }, x2: { field: "high" }, y, color },
          },
          {
            mark: { type: "point" as const, filled: true, size: 45 },
            encoding: { x: { ...right, field: "right" }, y: { ...y, axis: { grid: true } }, color },
          },
        ],
      },
      {
        ...panel,
        mark: { type: "point" as const, filled: true, size: 45 },
        encoding: {
          x: {
            ...x("tokens written for a question"),
            field: "tokens",
            scale: { type: "log" as const, nice: false, padding: 12 },
          },
          y: { ...y, axis: grid },
          color,
        },
      },
    ],
  };
}
