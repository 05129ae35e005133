import { distinctShare, textWords } from "../../../scorer/policy/diversity.ts";
import type { Scorer } from "../../../scorer/scorer.ts";
import { type PairedBootstrap, pairedBootstrap } from "../../statistics/paired_bootstrap.ts";
import { meanOf } from "../../statistics/statistics.ts";
import type { EvalRecord } from "../eval_record.ts";
import { embeddingSpread } from "./embedding_spread.ts";
import { selfBleu } from "./self_bleu.ts";

/** Measures of how unlike several answers to one prompt are; but for self-BLEU more is more unlike. */
export const DIVERSITY_MEASURES = ["distinct1", "distinct2", "distinct3", "selfBleu", "spread"] as const;

/** One of them. */
export type DiversityMeasure = (typeof DIVERSITY_MEASURES)[number];

/** Means over the prompts of a set that a mode has answered at least twice. */
export interface DiversityFigures extends Readonly<Record<DiversityMeasure, number>> {
  readonly set: string;
  readonly mode: string;
  readonly prompts: number;
  /** Answers to all of them. */
  readonly answers: number;
  /** Of an answer: with more words shares of distinct ones fall by themselves. */
  readonly words: number;
}

/** A mode's measures less those of the first one, over the prompts of both. */
export interface DiversityDifference {
  readonly set: string;
  readonly mode: string;
  readonly against: string;
  readonly prompts: number;
  readonly differences: Readonly<
    Record<DiversityMeasure, { readonly difference: number } & PairedBootstrap>
  >;
}

/** How unlike a mode's answers are, and beside the first mode's. */
export interface Diversity {
  readonly figures: readonly DiversityFigures[];
  readonly differences: readonly DiversityDifference[];
}

interface PromptDiversity extends Readonly<Record<DiversityMeasure, number>> {
  readonly prompt: string;
  readonly answers: number;
  readonly words: number;
}

/**
 * How unlike the answers of each mode to one prompt are, of the records that are to open-ended prompts; nothing where no
 * prompt was answered twice. Rejects as `embeddingSpread`.
 */
export async function diversityOf(
  records: readonly EvalRecord[],
  modes: readonly string[],
  scorer: Scorer,
): Promise<Diversity> {
  const figures: DiversityFigures[] = [];
  const differences: DiversityDifference[] = [];
  for (const [set, ofSet] of Map.groupBy(records, (record) => record.set)) {
    const measured = new Map<string, readonly PromptDiversity[]>();
    for (const mode of modes) {
      const prompts = await promptsOf(ofSet.filter((record) => record.mode === mode), scorer);
      if (prompts.length === 0) continue;
      measured.set(mode, prompts);
      figures.push({ set, mode, ...meansOf(prompts) });
    }
    const [against, ...others] = measured;
    for (const [mode, prompts] of others) {
      const pairs = prompts.flatMap((one) => {
        const other = against![1].find(({ prompt }) => prompt === one.prompt);
        return other === undefined ? [] : [[one, other] as const];
      });
      if (pairs.length === 0) continue;
      const compared = DIVERSITY_MEASURES.map((measure) => [measure, differenceOf(pairs, measure)]);
      differences.push({
        set,
        mode,
        against: against![0],
        prompts: pairs.length,
        differences: Object.fromEntries(compared) as DiversityDifference["differences"],
      });
    }
  }
  return { figures, differences };
}

async function promptsOf(records: readonly EvalRecord[], scorer: Scorer): Promise<PromptDiversity[]> {
  const found: PromptDiversity[] = [];
  for (const [prompt, answers] of Map.groupBy(records, ({ question }) => question)) {
    if (answers.length < 2) continue;
    const texts = answers.map(({ text }) => text);
    const words = texts.map((text) => textWords(text));
    const distinct = (n: number) => distinctShare(texts, n) ?? NaN;
    found.push({
      prompt,
      answers: answers.length,
      words: meanOf(words.map(({ length }) => length)),
      distinct1: distinct(1),
      distinct2: distinct(2),
      distinct3: distinct(3),
      selfBleu: selfBleu(words),
      spread: await embeddingSpread(texts, scorer),
    });
  }
  return found;
}

function meansOf(prompts: readonly PromptDiversity[]): Omit<DiversityFigures, "set" | "mode"> {
  /** Over the prompts of which it is known: answers of a word have no pairs of words. */
  const mean = (of: (one: PromptDiversity) => number) =>
    meanOf(prompts.map(of).filter((value) => !Number.isNaN(value)));
  return {
    prompts: prompts.length,
    answers: prompts.reduce((sum, { answers }) => sum + answers, 0),
    words: mean(({ words }) => words),
    distinct1: mean(({ distinct1 }) => distinct1),
    distinct2: mean(({ distinct2 }) => distinct2),
    distinct3: mean(({ distinct3 }) => distinct3),
    selfBleu: mean(({ selfBleu }) => selfBleu),
    spread: mean(({ spread }) => spread),
  };
}

function differenceOf(
  pairs: readonly (readonly [PromptDiversity, PromptDiversity])[],
  measure: DiversityMeasure,
) {
  const known = pairs.map(([one, other]) => [one[measure], other[measure]] as const)
    .filter((values) => !values.some(Number.isNaN));
  const difference = meanOf(known.map(([one, other]) => one - other));
  return {
    difference,
    ...pairedBootstrap(known, (first, second) => (first - second) / known.length, 0),
  };
}
