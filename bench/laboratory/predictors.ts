import type { LaboratoryQuestion } from "../datasets/laboratory/question.ts";
import { askGraph } from "./ask.ts";
import { gradeOf } from "./grade.ts";
import { LABORATORY_SIZES } from "./laboratory_graphs.ts";
import type { Router } from "../../router/router.ts";
import { confidenceOf } from "../../scorer/policy/confidence.ts";
import type { Scorer, SimilarityMetric } from "../../scorer/scorer.ts";

/** Proposals of each model for a question. */
const PROPOSALS = 3;
const METRICS: readonly SimilarityMetric[] = ["fcs", "fcs_u", "cosine"];
/** A decision in a run must be fast; this is none. */
const DEADLINE_MS = 60_000;

/** One proposal: what could have told beforehand whether it is right. */
export interface Proposal {
  readonly model: string;
  readonly right: boolean;
  readonly stated: string | null;
  /** exp(mean log p) of its tokens, of its last eight, and the lowest of all windows of eight. */
  readonly confidence: number | null;
  readonly tail: number | null;
  readonly lowest: number | null;
}

/** Nine proposals for one question, and how alike any two of them are. */
export interface ProposalRow {
  readonly question: string;
  readonly proposals: readonly Proposal[];
  readonly pairs: readonly {
    readonly a: number;
    readonly b: number;
    readonly similarity: Readonly<Partial<Record<SimilarityMetric, number>>>;
  }[];
}

/** Name of the graph that draws one answer of a model. */
export function drawnName(model: string): string {
  return `${model}-drawn`;
}

/** Lets each model answer a question several times, and compares all answers. */
export async function proposalRow(
  router: Router,
  scorer: Scorer,
  question: LaboratoryQuestion,
  signal: AbortSignal,
): Promise<ProposalRow> {
  const proposals: Proposal[] = [];
  const texts: string[] = [];
  for (const model of LABORATORY_SIZES) {
    const graph = router.services.moa.graphs.get(drawnName(model));
    if (graph === undefined) throw new Error(`The graph of ${model} is missing`);
    for (let seed = 0; seed < PROPOSALS; seed++) {
      const run = await askGraph(router, graph, {
        question: question.question,
        seed,
        logprobs: true,
        signal,
      });
      const { stated, right } = gradeOf(question, run.text);
      const confidence = (kind: "geometric" | "tail" | "lowest_window") =>
        confidenceOf(run.logprobs, { confidence: kind, confidence_tokens: 8 }) ?? null;
      texts.push(run.text);
      proposals.push({
        model,
        right,
        stated: stated?.value ?? null,
        confidence: confidence("geometric"),
        tail: confidence("tail"),
        lowest: confidence("lowest_window"),
      });
    }
  }
  return { question: question.id, proposals, pairs: await pairsOfTexts(scorer, question.id, texts) };
}

async function pairsOfTexts(
  scorer: Scorer,
  question: string,
  texts: readonly string[],
): Promise<ProposalRow["pairs"]> {
  const idOf = (index: number) => `${question}/${index}`;
  const feeds = texts.map((text, index) => {
    const feed = scorer.open(idOf(index));
    feed.append(text);
    feed.end();
    return feed;
  });
  try {
    const pairs = texts.flatMap((_, b) => Array.from({ length: b }, (_, a) => ({ a, b })));
    return await Promise.all(pairs.map(async ({ a, b }) => {
      const similarity: Partial<Record<SimilarityMetric, number>> = {};
      for (const metric of METRICS) {
        const { value } = await scorer.similarity(idOf(a), idOf(b), metric, DEADLINE_MS);
        if (value !== undefined) similarity[metric] = value;
      }
      return { a, b, similarity };
    }));
  } finally {
    for (const feed of feeds) feed.close();
  }
}
