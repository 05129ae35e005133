import { CanopyError } from "../../../base/errors.ts";
import type { EarlyExitConfig } from "../../../cfgs/schema/early_exit.ts";
import type { ExitAudit } from "../../../scorer/audit/exit_audit.ts";
import type { ExitPolicy } from "../../../scorer/policy/exit_policy.ts";
import type { RunExitPolicy } from "../../../scorer/policy/run_consensus.ts";
import type { TokenCandidate, VerdictSubject } from "../../../scorer/policy/verdict_prompt.ts";
import type { Scorer } from "../../../scorer/scorer.ts";

/** The question to a judging model whether two answers agree, and the reading of its reply of one token. */
export interface VerdictQuestion {
  /** The user message; what it holds before the second answer does not depend on that one. */
  prompt(about: VerdictSubject): string;
  /** The probability of yes, in [0, 1], from the candidates of the reply's first token; undefined when it is neither yes nor no. */
  yes(candidates: readonly TokenCandidate[]): number | undefined;
}

/** The parts of the scorer that early exit needs: the router knows no more of it. */
export interface EarlyExitServices {
  readonly scorer: Scorer;
  readonly verdict: VerdictQuestion;
  /** The policy of a cluster's settings; undefined: it waits for all its members. Throws 400 `invalid_config`. */
  policyOf(settings: EarlyExitConfig): ExitPolicy | undefined;
  /** The policy of a graph's settings of scope `run`. Throws 400 `invalid_config`. */
  consensusOf(settings: EarlyExitConfig): RunExitPolicy;
  /** A watch over the exits of a graph with such settings. */
  auditOf(settings: EarlyExitConfig, graph: string): ExitAudit;
}

/**
 * The policies of clusters, each made once. Without services there is none. Throws 400 `invalid_config` for settings
 * that no policy can be made of.
 */
export class ExitPolicies {
  readonly services: EarlyExitServices | undefined;
  readonly #policies = new WeakMap<EarlyExitConfig, { readonly policy: ExitPolicy | undefined }>();
  readonly #audits = new WeakMap<EarlyExitConfig, ExitAudit>();

  constructor(services: EarlyExitServices | undefined) {
    this.services = services;
  }

  of(settings: EarlyExitConfig): ExitPolicy | undefined {
    if (settings.metric === "none") return undefined;
    if (this.services === undefined) throw withoutScorer("metric", settings.metric, "none");
    let made = this.#policies.get(settings);
    if (made === undefined) {
      this.#policies.set(settings, made = { policy: this.services.policyOf(settings) });
    }
    return made.policy;
  }

  /** The policy by which a whole run ends; undefined: only its clusters may end early. Throws as `of`. */
  ofRun(settings: EarlyExitConfig): RunExitPolicy | undefined {
    if (settings.scope !== "run") return undefined;
    if (this.services === undefined) throw withoutScorer("scope", "run", "cluster");
    return this.services.consensusOf(settings);
  }

  /** The watch over the exits of a graph with these settings, one for all runs; undefined where none is audited. */
  auditOf(settings: EarlyExitConfig, graph: string): ExitAudit | undefined {
    if (settings.consensus.audit === 0 || this.services === undefined) return undefined;
    let audit = this.#audits.get(settings);
    if (audit === undefined) this.#audits.set(settings, audit = this.services.auditOf(settings, graph));
    return audit;
  }
}

function withoutScorer(field: string, value: string, instead: string): CanopyError {
  return new CanopyError(
    `early_exit.${field} is "${value}", but this router was made without a scorer: use "${instead}"`,
    { code: "invalid_config", status: 400, param: `early_exit.${field}` },
  );
}
