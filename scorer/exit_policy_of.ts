import { CanopyError } from "../base/errors.ts";
import type { JsonObject } from "../base/json.ts";
import { type EarlyExitConfig, leastAnswers } from "../cfgs/schema/early_exit.ts";
import { patternProblem } from "../cfgs/schema/safe_pattern.ts";
import { AgreementPolicy } from "./metrics/agreement.ts";
import { AnswerPolicy } from "./metrics/answer.ts";
import { QPolicy } from "./metrics/q.ts";
import { RandomPolicy } from "./metrics/random.ts";
import { VerdictPolicy } from "./metrics/verdict.ts";
import { distinctShareOf, isCreative, textWords } from "./policy/diversity.ts";
import { finite } from "./policy/evidence.ts";
import type {
  ClusterState,
  Evidence,
  EvidenceWanted,
  ExitDecision,
  ExitPolicy,
  PolicyNeeds,
} from "./policy/exit_policy.ts";
import { RunConsensusPolicy, type RunExitPolicy } from "./policy/run_consensus.ts";

/** The policy of the settings; undefined for `none`. Throws `invalid_config` for a pattern that cannot be used. */
export function exitPolicyOf(settings: EarlyExitConfig): ExitPolicy | undefined {
  refuseUnsafePattern(settings);
  const metric = metricOf(settings);
  return metric === undefined ? undefined : new GuardedPolicy(metric, settings);
}

/** The policy of settings of scope `run`. Throws `invalid_config` for a pattern that cannot be used. */
export function runConsensusOf(settings: EarlyExitConfig): RunExitPolicy {
  refuseUnsafePattern(settings);
  return new RunConsensusPolicy(settings);
}

function refuseUnsafePattern({ answer: { pattern } }: EarlyExitConfig): void {
  const problem = pattern === undefined ? undefined : patternProblem(pattern);
  if (problem === undefined) return;
  throw new CanopyError(`early_exit.answer.pattern ${problem}: current value is "${pattern}"`, {
    code: "invalid_config",
    status: 400,
    param: "early_exit.answer.pattern",
  });
}

function metricOf(settings: EarlyExitConfig): ExitPolicy | undefined {
  switch (settings.metric) {
    case "none":
      return undefined;
    case "q":
      return new QPolicy(settings);
    case "answer":
      return new AnswerPolicy(settings);
    case "verdict":
      return new VerdictPolicy(settings);
    case "random":
      return new RandomPolicy(settings);
    case "agreement":
      return new AgreementPolicy(settings);
  }
}

/** A metric behind the rules for all metrics: `min_agents`, `never_skip` and the diversity guard. */
class GuardedPolicy implements ExitPolicy {
  readonly #metric: ExitPolicy;
  readonly #settings: EarlyExitConfig;

  constructor(metric: ExitPolicy, settings: EarlyExitConfig) {
    this.#metric = metric;
    this.#settings = settings;
  }

  get needs(): PolicyNeeds {
    return this.#metric.needs;
  }

  wants(state: ClusterState): EvidenceWanted | undefined {
    return this.#guard(state) === undefined ? this.#metric.wants(state) : undefined;
  }

  decide(state: ClusterState, evidence: Evidence): ExitDecision {
    const common: JsonObject = { metric: this.#settings.metric, completions: state.completions.length };
    const guard = this.#guard(state);
    if (guard !== undefined) {
      return {
        exit: false,
        keep: state.completions.map(({ agent }) => agent),
        consensus: undefined,
        numbers: { ...common, guard },
      };
    }
    const decision = this.#metric.decide(state, evidence);
    const numbers = { ...common, ...decision.numbers };
    return {
      ...decision,
      numbers: decision.exit ? { ...numbers, distinct: distinctOf(state, decision.keep) } : numbers,
    };
  }

  /** The rule that forbids to exit, whatever the metric says. */
  #guard(
    { completions, unfinished, question }: ClusterState,
  ): "min_agents" | "never_skip" | "creative" | undefined {
    if (completions.length < leastAnswers(this.#settings)) return "min_agents";
    const { never_skip: neverSkip } = this.#settings;
    if (unfinished.some(({ agent, model }) => neverSkip.includes(agent) || neverSkip.includes(model))) {
      return "never_skip";
    }
    return this.#settings.diversity_guard && isCreative(question) ? "creative" : undefined;
  }
}

/** Distinct-1 and distinct-2 of all answers, of those that go on, and of those that are left out. */
function distinctOf({ completions }: ClusterState, keep: readonly string[]): JsonObject {
  const all = completions.map(({ agent, text }) => ({ agent, words: textWords(text) }));
  const kept = all.filter(({ agent }) => keep.includes(agent));
  const dropped = all.filter(({ agent }) => !keep.includes(agent));
  const shares = (texts: typeof all) =>
    [1, 2].map((n) => finite(distinctShareOf(texts.map(({ words }) => words), n)));
  return { all: shares(all), kept: shares(kept), dropped: shares(dropped) };
}
