import type { Random } from "../../base/random.ts";
import type { EarlyExitConfig } from "../../cfgs/schema/early_exit.ts";
import type {
  ClusterState,
  EvidenceWanted,
  ExitDecision,
  ExitPolicy,
  PolicyNeeds,
} from "../policy/exit_policy.ts";

/** Exits with a set probability, whatever the answers are: the ablation that any gain must be compared with. */
export class RandomPolicy implements ExitPolicy {
  readonly needs: PolicyNeeds = { logprobs: false, similarity: undefined, verdicts: false };
  readonly #probability: number;
  readonly #random: Random;

  constructor({ probability }: EarlyExitConfig, random: Random) {
    this.#probability = probability;
    this.#random = random;
  }

  wants(): EvidenceWanted {
    return { similarities: [], verdicts: [] };
  }

  decide(state: ClusterState): ExitDecision {
    const u = drawFor(this.#random, state);
    return {
      exit: u < this.#probability,
      keep: state.completions.map(({ agent }) => agent),
      consensus: undefined,
      numbers: { probability: this.#probability, u },
    };
  }
}

/** The one draw of a decision, in [0, 1): the same for the same seed, run, cluster and number of completions. */
export function drawFor(random: Random, { runId, cluster, completions }: ClusterState): number {
  return random.stream(JSON.stringify(["early exit", runId, cluster, completions.length])).next();
}
