import type { EarlyExitConfig } from "../../cfgs/schema/early_exit.ts";
import { knownVerdict, verdictTable } from "../policy/evidence.ts";
import type {
  ClusterState,
  Evidence,
  EvidenceWanted,
  ExitDecision,
  ExitPolicy,
  PolicyNeeds,
} from "../policy/exit_policy.ts";
import { consensusOf, couldStop, kept, pairsOf, usablePlaces, voteOf } from "../policy/vote.ts";

/** Exits when a served model says of enough answers that they agree, each with each. */
export class VerdictPolicy implements ExitPolicy {
  readonly needs: PolicyNeeds;
  readonly #settings: EarlyExitConfig;

  constructor(settings: EarlyExitConfig) {
    this.#settings = settings;
    this.needs = { logprobs: settings.skip_root !== undefined, similarity: undefined, verdicts: true };
  }

  wants(state: ClusterState): EvidenceWanted | undefined {
    const places = usablePlaces(state);
    const worthwhile = state.unfinished.length === 0
      ? places.length > 1
      : couldStop(state, () => undefined, this.#settings);
    return worthwhile ? { similarities: [], verdicts: pairsOf(places) } : undefined;
  }

  decide(state: ClusterState, evidence: Evidence): ExitDecision {
    const { threshold } = this.#settings.verdict;
    const vote = voteOf(state, (pair) => {
      const yes = knownVerdict(evidence, pair);
      return yes === undefined ? undefined : yes >= threshold;
    }, this.#settings);
    return {
      exit: vote.stops,
      keep: kept(state, vote.leader, this.#settings),
      consensus: consensusOf(state, vote.leader, this.#settings),
      numbers: { verdicts: verdictTable(state, evidence), threshold, ...vote.numbers },
    };
  }
}
