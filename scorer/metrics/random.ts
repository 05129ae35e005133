import { Random } from "../../base/random.ts";
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

  constructor({ probability }: EarlyExitConfig) {
    this.#probability = probability;
  }

  wants(): EvidenceWanted {
    return { similarities: [], verdicts: [] };
  }

  decide(state: ClusterState): ExitDecision {
    const u = drawFor({ ...state, completions: state.completions.length });
    return {
      exit: u < this.#probability,
      keep: state.completions.map(({ agent }) => agent),
      consensus: undefined,
      numbers: { probability: this.#probability, u, seed: state.seed },
    };
  }
}

/** The one draw of a decision, in [0, 1): the same for the same seed, cluster and number of completions. */
export function drawFor({ seed, cluster, completions }: DrawKey): number {
  return new Random(JSON.stringify(["early exit", seed, cluster, completions])).next();
}

/** Name of a draw; `completions`: how many there are. */
export interface DrawKey extends Pick<ClusterState, "seed" | "cluster"> {
  readonly completions: number;
}
