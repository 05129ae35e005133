import type { EarlyExitConfig } from "../../cfgs/schema/early_exit.ts";
import { type AnswerExtractor, answerExtractor } from "../answers/extract.ts";
import { equalAnswers } from "../answers/equal_answers.ts";
import type { FinalAnswer } from "../answers/final_answer.ts";
import { answersJson } from "./answer.ts";
import { finite, knownSimilarity, knownVerdict, similarityTable, verdictTable } from "../policy/evidence.ts";
import type {
  ClusterState,
  Evidence,
  EvidenceWanted,
  ExitDecision,
  ExitPolicy,
  Pair,
  PolicyNeeds,
} from "../policy/exit_policy.ts";
import {
  type Agreement,
  consensusOf,
  couldStop,
  kept,
  pairsOf,
  usablePlaces,
  voteOf,
} from "../policy/vote.ts";

/** Shorter answers, in tokens, have no similarity that means anything (no second-moment metric has). */
const LEAST_TOKENS = 8;

/**
 * Our own metric: two answers agree when the final answers that they state are equal; where one of them states none,
 * when a served model says so. Similarity is only a veto: against answers that agree but are not about the same thing,
 * and against those whose similarity is unknown.
 */
export class AgreementPolicy implements ExitPolicy {
  readonly needs: PolicyNeeds;
  readonly #settings: EarlyExitConfig;
  readonly #extract: AnswerExtractor;

  constructor(settings: EarlyExitConfig) {
    this.#settings = settings;
    this.#extract = answerExtractor(settings.answer);
    this.needs = {
      logprobs: settings.skip_root !== undefined,
      similarity: settings.similarity ?? "fcs_u",
      verdicts: true,
    };
  }

  wants(state: ClusterState): EvidenceWanted | undefined {
    const answers = this.#answers(state);
    const places = usablePlaces(state);
    const agree: Agreement = (pair) => statedAgreement(answers, pair);
    const worthwhile = state.unfinished.length === 0
      ? places.length > 1
      : couldStop(state, agree, this.#settings);
    if (!worthwhile) return undefined;
    const open = pairsOf(places).filter((pair) => agree(pair) !== false);
    return { similarities: open, verdicts: open.filter((pair) => agree(pair) === undefined) };
  }

  decide(state: ClusterState, evidence: Evidence): ExitDecision {
    const { verdict: { threshold }, veto_below: vetoBelow } = this.#settings;
    const answers = this.#answers(state);
    const vote = voteOf(state, (pair) => {
      const stated = statedAgreement(answers, pair);
      if (stated !== undefined) return stated;
      const yes = knownVerdict(evidence, pair);
      return yes === undefined ? undefined : yes >= threshold;
    }, this.#settings);
    const vetoes = pairsOf(vote.leader).map((pair) => vetoOf(pair, evidence, vetoBelow));
    const veto = vetoes.find((reason) => reason !== undefined);
    const leader = veto === undefined ? vote.leader : [];
    return {
      exit: vote.stops && veto === undefined,
      keep: kept(state, leader, this.#settings),
      consensus: consensusOf(state, leader, this.#settings),
      numbers: {
        answers: answersJson(answers),
        verdicts: verdictTable(state, evidence),
        similarities: similarityTable(state, evidence),
        threshold,
        veto_below: finite(vetoBelow),
        ...(veto === undefined ? {} : { veto }),
        ...vote.numbers,
      },
    };
  }

  #answers({ completions, question }: ClusterState): (FinalAnswer | undefined)[] {
    return completions.map(({ text }) => this.#extract(text, question));
  }
}

/** Undefined when one of the two states no final answer. */
function statedAgreement(answers: readonly (FinalAnswer | undefined)[], [a, b]: Pair): boolean | undefined {
  const [first, second] = [answers[a], answers[b]];
  return first === undefined || second === undefined ? undefined : equalAnswers(first, second);
}

function vetoOf(
  pair: Pair,
  evidence: Evidence,
  below: number,
): "off_topic" | "similarity_unknown" | undefined {
  const value = knownSimilarity(evidence, pair);
  if (value === undefined) return "similarity_unknown";
  if (value >= below) return undefined;
  const tokens = evidence.similarity(pair)?.tokens ?? [0, 0];
  return Math.min(...tokens) < LEAST_TOKENS ? undefined : "off_topic";
}
