import type { EarlyExitConfig } from "../../cfgs/schema/early_exit.ts";
import { qualityOf } from "./quality.ts";
import { drawFor } from "./random.ts";
import { confidenceOf } from "../policy/confidence.ts";
import { confidenceJson, finite, knownSimilarity, similarityTable } from "../policy/evidence.ts";
import type {
  ClusterState,
  Evidence,
  EvidenceWanted,
  ExitDecision,
  ExitPolicy,
  PolicyNeeds,
} from "../policy/exit_policy.ts";
import { pairsOf } from "../policy/vote.ts";

/**
 * The paper's metric (Faster-MoA, Algorithm 1): exit with probability Q, or when Q is at least a threshold. It sees
 * confidence and whether the answers are about the same thing, not whether they agree; so all answers go on, and it
 * knows no consensus.
 */
export class QPolicy implements ExitPolicy {
  readonly needs: PolicyNeeds;
  readonly #settings: EarlyExitConfig;

  constructor(settings: EarlyExitConfig) {
    this.#settings = settings;
    this.needs = { logprobs: true, similarity: settings.similarity ?? "fcs", verdicts: false };
  }

  wants({ completions }: ClusterState): EvidenceWanted | undefined {
    if (completions.length < 2 && !this.#settings.paper_literal) return undefined;
    return { similarities: pairsOf([...completions.keys()]), verdicts: [] };
  }

  decide(state: ClusterState, evidence: Evidence): ExitDecision {
    const { tau, gamma, decide, threshold, paper_literal: literal } = this.#settings;
    const { completions } = state;
    const each = completions.map(({ logprobs }) => confidenceOf(logprobs, this.#settings));
    const known = each.filter((confidence) => confidence !== undefined);
    const complete = known.length === each.length;
    const weights = complete ? known : undefined;
    const { cBar, p, b, q } = qualityOf(
      completions.length,
      weights,
      (i, j) => knownSimilarity(evidence, [j, i]),
      { tau, gamma, literal },
    );
    const sampled = decide === "sample";
    const u = drawFor({ ...state, completions: completions.length });
    const enough = complete || this.#settings.without_logprobs === "ignore";
    const exit = q !== undefined && enough && (sampled ? u < q : q >= threshold);
    return {
      exit,
      keep: completions.map(({ agent }) => agent),
      consensus: undefined,
      numbers: {
        confidences: completions.map((completion) => confidenceJson(completion, this.#settings)),
        similarities: similarityTable(state, evidence),
        c_bar: finite(cBar),
        p: finite(p),
        b: finite(b),
        q: finite(q),
        tau,
        gamma: literal ? 0.5 : gamma,
        paper_literal: literal,
        ...(sampled ? { u, seed: state.seed } : { threshold }),
        ...(enough ? {} : { unknown: "confidence" }),
        ...(enough && q === undefined ? { unknown: "similarity" } : {}),
      },
    };
  }
}
