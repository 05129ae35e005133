import { clusteredInterval } from "../statistics/clustered_share.ts";
import { type Interval, meanOf, standardError, type Summary, summaryOf } from "../statistics/statistics.ts";
import { type LayerFigures, layerFigures } from "./answer_path.ts";
import { type AnswerWork, workOfAll } from "./answer_work.ts";
import type { EvalRecord } from "./eval_record.ts";
import { type EvalModelFigures, modelFigures } from "./model_figures.ts";
import { type ComparedAnswers, compareRight, isRight, pairRecords } from "./paired_records.ts";
import { type ReadingFigures, readingFigures } from "./reading_figures.ts";
import { meanKnown, PLAIN_BASIS, type SpendingBasis, spendingOf } from "./spending.ts";

/** Figures of one filter of a protocol, of all answers of a mode on a set. */
export interface FilterFigures {
  readonly filter: string;
  readonly right: number;
  readonly ungradable: number;
  readonly accuracy: number;
  readonly interval: Interval;
  /** As lm-eval gives it: the sample's standard deviation by the root of the count. */
  readonly stderr: number;
}

/** Figures of one mode on one set; times in ms, tokens of all agents. */
export interface EvalFigures {
  readonly set: string;
  readonly mode: string;
  readonly answers: number;
  readonly right: number;
  readonly wrong: number;
  readonly ungradable: number;
  /** Of the ungradable ones: could not be checked here. */
  readonly unchecked: number;
  /** Of all answers but those that could not be checked; other ungradable ones included. NaN without any. */
  readonly accuracy: number;
  readonly interval: Interval;
  /** The first one is that of the figures above. */
  readonly filters: readonly FilterFigures[];
  /** Answers that the longest length cut off. */
  readonly cut: number;
  readonly latencyMs: Summary;
  readonly completionTokens: number;
  /** Answers that each one was chosen from, on average. */
  readonly drawn: number;
  /** NaN where no answer has one. */
  readonly ttftMs: number;
  readonly promptTokens: number;
  /** Of all answers together; undefined where that of one is not known. */
  readonly work: AnswerWork | undefined;
  readonly reading: ReadingFigures;
  /** Answers whose run is known: figures of layers, and of what was used, are of these. */
  readonly runs: number;
  readonly layers: readonly LayerFigures[];
  readonly models: readonly EvalModelFigures[];
  /** Means for an answer; null where that of one is not known. */
  readonly gpuSeconds: number | null;
  readonly tokenCost: number | null;
  readonly gpuCost: number | null;
}

/** Two modes over the same questions and repeats. */
export interface EvalPair extends ComparedAnswers {
  readonly set: string;
  readonly mode: string;
  readonly against: string;
}

/** The records that figures are of: those of the warm-up are none. */
export function countedRecords(records: readonly EvalRecord[]): EvalRecord[] {
  return records.filter(({ warmUp }) => warmUp !== true);
}

/** Questions that were held back since others were under way, each once; the longest wait in ms. */
export interface HeldQuestions {
  readonly questions: number;
  readonly longestMs: number;
}

/** Waits of the questions that were counted. */
export function heldQuestions(records: readonly EvalRecord[]): HeldQuestions {
  const held = countedRecords(records).filter(({ waitedMs }) => waitedMs !== undefined);
  return {
    questions: new Set(held.map(({ set, question, repeat }) => [set, question, repeat].join("\0"))).size,
    longestMs: Math.max(0, ...held.map(({ waitedMs = 0 }) => waitedMs)),
  };
}

/** Figures of each set and mode, in the order of the records; what they cost is counted by `basis`. */
export function evalFigures(
  records: readonly EvalRecord[],
  basis: SpendingBasis = PLAIN_BASIS,
): EvalFigures[] {
  return [...Map.groupBy(records, ({ set, mode }) => `${set}\0${mode}`).values()].map(
    (group): EvalFigures => {
      const { set, mode } = group[0]!;
      const runs = group.flatMap(({ run }) => run ?? []);
      const spent = group.map((record) => spendingOf(record, basis));
      const count = (outcome: EvalRecord["outcome"]) =>
        group.filter((record) => record.outcome === outcome).length;
      const right = count("right");
      const unchecked = group.filter((record) => record.unchecked !== null).length;
      const checked = group.length - unchecked;
      return {
        set,
        mode,
        answers: group.length,
        right,
        wrong: count("wrong"),
        ungradable: count("ungradable"),
        unchecked,
        accuracy: right / checked,
        interval: intervalOf(group.filter((record) => record.unchecked === null), isRight),
        filters: Object.keys(group[0]!.readings).map((filter) => filterFigures(group, filter)),
        cut: group.filter(({ finish }) => finish === "length").length,
        latencyMs: summaryOf(group.map(({ latencyMs }) => latencyMs)),
        completionTokens: meanOf(group.map(({ completionTokens }) => completionTokens)),
        drawn: meanOf(group.map(({ drawn }) => drawn)),
        ttftMs: meanOf(group.flatMap(({ ttftMs }) => ttftMs === null ? [] : [ttftMs])),
        promptTokens: meanOf(group.map(({ promptTokens }) => promptTokens)),
        work: workOfAll(group.map(({ work }) => work)),
        reading: readingFigures(group),
        runs: runs.length,
        layers: layerFigures(runs),
        models: modelFigures(group, spent),
        gpuSeconds: meanKnown(spent.map(({ gpuSeconds }) => gpuSeconds)),
        tokenCost: meanKnown(spent.map(({ tokenCost }) => tokenCost)),
        gpuCost: meanKnown(spent.map(({ gpuCost }) => gpuCost)),
      };
    },
  );
}

function filterFigures(group: readonly EvalRecord[], filter: string): FilterFigures {
  const outcomeOf = ({ readings }: EvalRecord) => readings[filter]?.outcome;
  const outcomes = group.map(outcomeOf);
  const right = outcomes.filter((outcome) => outcome === "right").length;
  return {
    filter,
    right,
    ungradable: outcomes.filter((outcome) => outcome === "ungradable").length,
    accuracy: right / group.length,
    interval: intervalOf(group, (record) => outcomeOf(record) === "right"),
    stderr: standardError(outcomes.map((outcome) => outcome === "right" ? 1 : 0)),
  };
}

/** Of the share of right answers, over questions: answers to one question are not independent. */
function intervalOf(records: readonly EvalRecord[], isHit: (record: EvalRecord) => boolean): Interval {
  const questions = Map.groupBy(records, ({ question }) => question);
  return clusteredInterval(
    [...questions.values()].map((own) => ({ hits: own.filter(isHit).length, count: own.length })),
  );
}

/** Each mode beside the first one, over what both have answered. */
export function evalPairs(records: readonly EvalRecord[], modes: readonly string[]): EvalPair[] {
  const [against, ...others] = modes;
  if (against === undefined) return [];
  return [...Map.groupBy(records, ({ set }) => set)].flatMap(([set, group]) =>
    others.flatMap((mode): EvalPair[] => {
      const checked = (name: string) =>
        group.filter((record) => record.mode === name && record.unchecked === null);
      const both = pairRecords(checked(mode), checked(against));
      return both.length === 0 ? [] : [{ set, mode, against, ...compareRight(both) }];
    })
  );
}
