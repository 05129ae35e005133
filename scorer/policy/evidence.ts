import type { Json, JsonObject } from "../../base/json.ts";
import { type ConfidenceSettings, logprobMean } from "./confidence.ts";
import type { ClusterState, Completion, Evidence, Pair } from "./exit_policy.ts";

/** A similarity that can be calculated with; a scorer that answers something else knows nothing. */
export function knownSimilarity(evidence: Evidence, pair: Pair): number | undefined {
  const value = evidence.similarity(pair)?.value;
  return value !== undefined && Number.isFinite(value) ? value : undefined;
}

/** A verdict's probability in [0, 1]; anything else is not known. */
export function knownVerdict(evidence: Evidence, pair: Pair): number | undefined {
  const yes = evidence.verdict(pair)?.yes;
  return yes !== undefined && yes >= 0 && yes <= 1 ? yes : undefined;
}

/** All similarities that are known or were asked for, by pair of agents, for the trace. */
export function similarityTable({ completions }: ClusterState, evidence: Evidence): JsonObject[] {
  return eachPair(completions.length).flatMap((pair) => {
    const found = evidence.similarity(pair);
    if (found === undefined) return [];
    return [{
      of: pair.map((place) => completions[place]!.agent),
      metric: found.metric,
      value: finite(found.value),
      tokens: [...found.tokens],
      ...(found.effectiveDimensions === undefined
        ? {}
        : { effective_dimensions: found.effectiveDimensions.map(finite) }),
      ...(found.reason === undefined ? {} : { reason: found.reason }),
    }];
  });
}

/** All verdicts that are known or were asked for, by pair of agents, for the trace. */
export function verdictTable({ completions }: ClusterState, evidence: Evidence): JsonObject[] {
  return eachPair(completions.length).flatMap((pair) => {
    const found = evidence.verdict(pair);
    if (found === undefined) return [];
    return [{
      of: pair.map((place) => completions[place]!.agent),
      yes: finite(found.yes),
      model: found.model,
      ...(found.reason === undefined ? {} : { reason: found.reason }),
    }];
  });
}

/** An answer's confidence with what it is made of, for the trace; a mean of minus infinity is null, its confidence 0. */
export function confidenceJson({ agent, logprobs }: Completion, settings: ConfidenceSettings): JsonObject {
  const mean = logprobMean(logprobs, settings);
  return {
    agent,
    tokens: mean?.tokens ?? null,
    mean_logprob: finite(mean?.meanLogprob),
    confidence: finite(mean === undefined ? undefined : Math.exp(mean.meanLogprob)),
  };
}

/** A number as JSON knows it: null for what is not known or not finite, and one zero only. */
export function finite(value: number | undefined): Json {
  return value !== undefined && Number.isFinite(value) ? value + 0 : null;
}

function eachPair(count: number): Pair[] {
  return Array.from(
    { length: count },
    (_, second) => Array.from({ length: second }, (_, first): Pair => [first, second]),
  ).flat();
}
