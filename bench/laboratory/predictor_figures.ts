import { Random } from "../../base/random.ts";
import type { Proposal, ProposalRow } from "./predictors.ts";
import { areaUnderCurve, bootstrapInterval, type Interval, meanOf } from "../statistics/statistics.ts";

/** Draws of the intervals; the questions are drawn, with all their proposals. */
const RESAMPLES = 200;

/** How well a number tells right from wrong: 0.5 is chance, 1 is always. */
export interface PredictorFigures {
  readonly name: string;
  /** What is told apart. */
  readonly tells: "right" | "agreement";
  readonly auc: number;
  readonly interval: Interval;
  /** Proposals, or pairs of them, that have the number. */
  readonly count: number;
}

/** One observation: the number, and whether it was right (or agreed). */
interface Observation {
  readonly value: number;
  readonly positive: boolean;
}

type Observe = (row: ProposalRow) => Observation[];

/** The predictors of being right, and of two answers' agreement, by their areas under the curve. */
export function predictorFigures(rows: readonly ProposalRow[], seed: string): PredictorFigures[] {
  if (rows.length === 0) return [];
  const models = [...new Set(rows.flatMap(({ proposals }) => proposals.map(({ model }) => model)))];
  const confidence = (name: string, of: (proposal: Proposal) => number | null, model?: string) =>
    [
      `${name}${model === undefined ? "" : `, ${model} alone`}`,
      "right",
      (row: ProposalRow) =>
        row.proposals.flatMap((proposal) => {
          const value = of(proposal);
          return value === null || (model !== undefined && proposal.model !== model)
            ? []
            : [{ value, positive: proposal.right }];
        }),
    ] as const;
  const metrics = ["fcs", "fcs_u", "cosine"] as const;
  const wanted: (readonly [string, PredictorFigures["tells"], Observe])[] = [
    confidence("confidence (geometric)", ({ confidence }) => confidence),
    ...models.map((model) => confidence("confidence (geometric)", ({ confidence }) => confidence, model)),
    confidence("confidence of the last 8 tokens", ({ tail }) => tail),
    confidence("lowest window of 8 tokens", ({ lowest }) => lowest),
    ["others that state the same", "right", sameAnswers],
    ...metrics.map((metric) => [`mean ${metric} to the others`, "right", meanSimilarity(metric)] as const),
    ...metrics.map((metric) => [`${metric} of two answers`, "agreement", pairSimilarity(metric)] as const),
  ];
  return wanted.map(([name, tells, observe]) => {
    const auc = (of: readonly ProposalRow[]) => {
      const seen = of.flatMap(observe);
      const values = (positive: boolean) =>
        seen.filter((one) => one.positive === positive).map(({ value }) => value);
      return areaUnderCurve(values(true), values(false));
    };
    const draws = { random: new Random(`${seed}/${name}`), resamples: RESAMPLES };
    return {
      name,
      tells,
      auc: auc(rows),
      interval: bootstrapInterval(rows, auc, draws),
      count: rows.flatMap(observe).length,
    };
  });
}

/** Accuracy of single draws by model, over all proposals. */
export function proposalAccuracy(rows: readonly ProposalRow[]): Readonly<Record<string, number>> {
  const all = rows.flatMap(({ proposals }) => proposals);
  const models = [...new Set(all.map(({ model }) => model))];
  return Object.fromEntries(
    models.map((model) => [
      model,
      meanOf(all.filter((one) => one.model === model).map(({ right }) => right ? 1 : 0)),
    ]),
  );
}

const sameAnswers: Observe = ({ proposals }) =>
  proposals.map(({ right, stated }, index) => ({
    value: proposals.filter((other, at) => at !== index && stated !== null && other.stated === stated).length,
    positive: right,
  }));

function meanSimilarity(metric: "fcs" | "fcs_u" | "cosine"): Observe {
  return ({ proposals, pairs }) =>
    proposals.flatMap(({ right }, index) => {
      const values = pairs.filter(({ a, b }) => a === index || b === index)
        .flatMap(({ similarity }) => similarity[metric] ?? []);
      return values.length === 0 ? [] : [{ value: meanOf(values), positive: right }];
    });
}

function pairSimilarity(metric: "fcs" | "fcs_u" | "cosine"): Observe {
  return ({ proposals, pairs }) =>
    pairs.flatMap(({ a, b, similarity }) => {
      const [value, one, other] = [similarity[metric], proposals[a]?.stated, proposals[b]?.stated];
      return value === undefined || one === null || other === null
        ? []
        : [{ value, positive: one === other }];
    });
}
