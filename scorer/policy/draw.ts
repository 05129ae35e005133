import type { Random } from "../../base/random.ts";
import type { ClusterState } from "./exit_policy.ts";

/** The one draw of a decision, in [0, 1): the same for the same seed, run, cluster and number of completions. */
export function drawFor(random: Random, { runId, cluster, completions }: ClusterState): number {
  return random.stream(JSON.stringify(["early exit", runId, cluster, completions.length])).next();
}
