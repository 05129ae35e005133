import type { ExitSets, LoadedSets } from "../experiments/exit_sets/exit_sets.ts";
import { EXIT_GOAL, type SetFigure, type SetFigures } from "../experiments/exit_sets/set_figures.ts";
import { arrivalsText } from "../experiments/workloads/question_arrivals.ts";
import type { Interval } from "../statistics/statistics.ts";
import { countText, durationText, ratioText, type Report, type ReportTable, shareText } from "./report.ts";

/** What was costed. */
export interface ExitSetsShown {
  readonly workload: string;
  readonly sets: number;
  readonly questions: number;
  readonly play: number;
}

/** Rules that end whole runs, over several sets of questions, as tables and a plot. */
export function exitSetsReport(
  result: ExitSets,
  origin: string,
  shown: ExitSetsShown & Readonly<Record<string, unknown>>,
): Report {
  const { seeds, loads } = result;
  const { sets, questions, workload } = shown;
  const goal = `${shareText(EXIT_GOAL.mean, 0)} of #1's mean latency and ${
    shareText(EXIT_GOAL.p95, 0)
  } of its p95, with at most ${100 * EXIT_GOAL.right} point fewer right answers`;
  return {
    title: "Early exit of whole runs, over sets of questions",
    origin,
    tables: [...loads.flatMap((load) => tablesOf(load, shown)), ...playedTables(result)],
    notes: [
      `${sets} sets of ${questions} questions (${workload}), seeds ${
        seeds.sets.join(", ")
      }: nothing was tuned on them; the posterior has learned from 1,000 other questions, seed ${seeds.learning}`,
      "simulated: answers are scripted, right and wrong ones drawn by model size and difficulty; costed on the cost model from event to event, with the router's own rules, not played by the router",
      `reached: whether a row cuts ${goal}; by the figures themselves, the intervals say how sure`,
      "intervals: 95 %, over the questions of all sets (bootstrap for cuts, for pairs of answers for right ones); in square brackets the least and the greatest of the sets, which is the one to look at under load, where questions of a set wait for each other",
      "by chance: right answers where as many answers are read as by the rule, whatever they say, and the most frequent one is given",
      "early: share of the questions that ended before the root; written: tokens of a question, those that nobody reads included",
      "of 9 agree: the same as a share of the nine agents that read nobody; undecided, the leader: when all of those have answered and the rule has not ended the run, the answer that leads is the run's",
      "oracle: ends with the first right answer, as no rule can",
    ],
    plot: plotOf(loads),
    data: { experiment: "exit sets", simulated: true, origin, settings: shown, results: result },
  };
}

function tablesOf({ atOnce, rows }: LoadedSets, { workload, sets, questions }: ExitSetsShown): ReportTable[] {
  const title = `${workload}, ${sets} × ${questions} questions, ${arrivalsText(atOnce)}`;
  return [
    {
      title: `${title}: latency`,
      head: ["rule", "mean", "cut to #1 (95 %) [sets]", "p95", "cut of p95 (95 %) [sets]", "reached"],
      rows: rows.map((row) => [
        row.name,
        durationText(row.meanMs),
        cutText(row.meanCut),
        durationText(row.p95Ms),
        cutText(row.p95Cut),
        reachedText(row),
      ]),
    },
    {
      title: `${title}: answers and tokens`,
      head: [
        "rule",
        "right",
        "points to #1 (95 %)",
        "by chance",
        "early",
        "written",
        "spared of #1",
        "spared of #2",
      ],
      rows: rows.map((row) => [
        row.name,
        shareText(row.right),
        `${pointsText(row.difference)} (${pointsText(row.interval.low)} to ${pointsText(row.interval.high)})`,
        row.chance === undefined ? "" : shareText(row.chance),
        shareText(row.early),
        countText(row.tokens),
        shareText(row.spared.dense),
        shareText(row.spared.tree),
      ]),
    },
  ];
}

function playedTables({ loads, played }: ExitSets): ReportTable[] {
  if (played.length === 0) return [];
  return loads.map(({ atOnce }) => ({
    title: `Costed by played, the same questions, ${arrivalsText(atOnce)}`,
    head: [
      "rule",
      "mean latency",
      "tokens",
      "latencies more than 3 % apart",
      "right, costed",
      "right, played",
    ],
    rows: played.filter((one) => one.atOnce === atOnce).map(({ name, latency, tokens, apart, right }) => [
      name,
      ratioText(latency),
      ratioText(tokens),
      String(apart),
      String(right.costed),
      String(right.played),
    ]),
  }));
}

function cutText({ value, interval, sets }: SetFigure): string {
  return `${shareText(value)} (${boundsText(interval)}) [${boundsText(sets)}]`;
}

function boundsText({ low, high }: Interval): string {
  return `${(100 * low).toFixed(1)} to ${(100 * high).toFixed(1)}`;
}

function pointsText(share: number): string {
  return `${share > 0 ? "+" : ""}${(100 * share).toFixed(1)}`;
}

function reachedText({ chance, reached }: SetFigures): string {
  if (chance === undefined) return "";
  const not = Object.entries(reached).filter(([, is]) => !is).map(([part]) => part);
  return not.length === 0 ? "yes" : `not: ${not.join(", ")}`;
}

function plotOf(loads: readonly LoadedSets[]): Report["plot"] {
  const values = loads.flatMap(({ atOnce, rows }) =>
    rows.map(({ name, meanCut, difference }) => ({
      rule: name,
      load: arrivalsText(atOnce),
      cut: 100 * meanCut.value,
      points: 100 * difference,
    }))
  );
  return {
    data: { values },
    facet: { column: { field: "load", type: "nominal", title: null } },
    spec: {
      width: 300,
      mark: { type: "point", filled: true, size: 80 },
      encoding: {
        x: { field: "cut", type: "quantitative", title: "cut of #1's mean latency, %" },
        y: { field: "points", type: "quantitative", title: "right answers less #1's, points" },
        color: { field: "rule", type: "nominal", title: null, sort: null },
      },
    },
  };
}
