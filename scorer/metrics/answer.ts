import type { EarlyExitConfig } from "../../cfgs/schema/early_exit.ts";
import { type AnswerExtractor, answerExtractor } from "../answers/extract.ts";
import { equalAnswers } from "../answers/equal_answers.ts";
import type { FinalAnswer } from "../answers/final_answer.ts";
import type {
  ClusterState,
  EvidenceWanted,
  ExitDecision,
  ExitPolicy,
  PolicyNeeds,
} from "../policy/exit_policy.ts";
import { type Agreement, consensusOf, couldStop, kept, voteOf } from "../policy/vote.ts";

/** Exits when enough of the final answers that the texts state are equal. A text without one agrees with nothing. */
export class AnswerPolicy implements ExitPolicy {
  readonly needs: PolicyNeeds;
  readonly #settings: EarlyExitConfig;
  readonly #extract: AnswerExtractor;

  constructor(settings: EarlyExitConfig) {
    this.#settings = settings;
    this.#extract = answerExtractor(settings.answer);
    // Only the choice of the best of equal answers looks at confidence.
    this.needs = { logprobs: settings.skip_root !== undefined, similarity: undefined, verdicts: false };
  }

  wants(state: ClusterState): EvidenceWanted | undefined {
    const possible = state.unfinished.length === 0 ||
      couldStop(state, agreement(this.#answers(state)), this.#settings);
    return possible ? { similarities: [], verdicts: [] } : undefined;
  }

  decide(state: ClusterState): ExitDecision {
    const answers = this.#answers(state);
    const vote = voteOf(state, agreement(answers), this.#settings);
    return {
      exit: vote.stops,
      keep: kept(state, vote.leader, this.#settings),
      consensus: consensusOf(state, vote.leader, this.#settings),
      numbers: { answers: answersJson(answers), ...vote.numbers },
    };
  }

  #answers({ completions, question }: ClusterState): (FinalAnswer | undefined)[] {
    return completions.map(({ text }) => this.#extract(text, question));
  }
}

/** Final answers as they go into a trace. */
export function answersJson(answers: readonly (FinalAnswer | undefined)[]) {
  return answers.map((answer) =>
    answer === undefined ? null : { kind: answer.kind, text: answer.text, value: answer.value }
  );
}

function agreement(answers: readonly (FinalAnswer | undefined)[]): Agreement {
  return ([a, b]) => {
    const [first, second] = [answers[a], answers[b]];
    return first !== undefined && second !== undefined && equalAnswers(first, second);
  };
}
