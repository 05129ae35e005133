import { earlyExitSchema } from "../../../cfgs/schema/early_exit.ts";
import { exitPolicyOf, runConsensusOf } from "../../../scorer/exit_policy_of.ts";
import type { ExitPolicy } from "../../../scorer/policy/exit_policy.ts";
import type { RunVotes } from "../../../scorer/policy/run_consensus.ts";
import { BASE_ASSUMPTIONS } from "../sensitivity/assumptions.ts";

/** A way to end clusters, or whole runs, early. */
export interface ExitRule {
  /** As it is asked for, such as `agree:3`. */
  readonly name: string;
  /** `early_exit` of a graph with these models; undefined for none. */
  settings(models: readonly string[]): Readonly<Record<string, unknown>> | undefined;
  /** Agents before the root without which it never exits. */
  readonly least: number;
  /** The deciding part of it; the router's own, but for chance. */
  readonly decides: ExitDecider;
}

export type ExitDecider =
  | { readonly kind: "never" }
  /** `ends`: the agent whose answer the run of the question with this number ends with; undefined: it goes on. */
  | { readonly kind: "run"; ends(state: RunVotes, number: number): string | undefined }
  | { readonly kind: "cluster"; readonly policy: ExitPolicy | undefined }
  /** A cluster ends with this chance after each answer from the so-manieth on. */
  | { readonly kind: "chance"; readonly chance: number; readonly from: number };

/** The forms of rules. */
export const EXIT_FORMS = ["none", "agree:K", "posterior:P", "answer", "q"] as const;

/**
 * The rule of this name; undefined where there is none. `skills`: shares of right answers by model, which `posterior`
 * weighs votes by.
 */
export function exitRuleOf(name: string, skills: Readonly<Record<string, number>>): ExitRule | undefined {
  const [, form, text] = /^([a-z]+)(?::([0-9.]+))?$/.exec(name) ?? [];
  const value = text === undefined ? undefined : Number(text);
  if (value === undefined) {
    if (form === "none") return { name, settings: () => undefined, least: 0, decides: { kind: "never" } };
    if (form === "answer") {
      const settings = { metric: "answer" };
      const policy = exitPolicyOf(earlyExitSchema.parse(settings));
      return { name, settings: () => settings, least: 3, decides: { kind: "cluster", policy } };
    }
    if (form !== "q") return undefined;
    const { exit } = BASE_ASSUMPTIONS;
    return { name, settings: () => ({ metric: "q" }), least: 3, decides: { kind: "chance", ...exit } };
  }
  if (form === "agree" && Number.isSafeInteger(value) && value >= 2) {
    return runRule(name, value, () => ({ agree: value }));
  }
  if (form !== "posterior" || !(value > 0.5 && value < 1)) return undefined;
  const known = Object.entries(skills);
  return runRule(name, 2, (models) => ({
    posterior: value,
    skills: Object.fromEntries(known.filter(([model]) => models === undefined || models.includes(model))),
  }));
}

function runRule(
  name: string,
  least: number,
  consensus: (models?: readonly string[]) => Readonly<Record<string, unknown>>,
): ExitRule {
  const settings = (models?: readonly string[]) => ({ scope: "run", consensus: consensus(models) });
  const policy = runConsensusOf(earlyExitSchema.parse(settings()));
  return { name, settings, least, decides: { kind: "run", ends: (state) => policy.decide(state).agent } };
}
