import type { z } from "zod";
import { type EarlyExitConfig, earlyExitSchema } from "../../../cfgs/schema/early_exit.ts";
import { exitPolicyOf } from "../../../scorer/exit_policy_of.ts";
import type {
  ClusterState,
  Completion,
  Evidence,
  ExitPolicy,
  Verdict,
} from "../../../scorer/policy/exit_policy.ts";
import type { Similarity } from "../../../scorer/scorer.ts";

/** Settings as a file gives them. */
export type Settings = z.input<typeof earlyExitSchema>;

export function settingsOf(settings: Settings): EarlyExitConfig {
  return earlyExitSchema.parse(settings);
}

export function policyOf(settings: Settings): ExitPolicy {
  const policy = exitPolicyOf(settingsOf(settings));
  if (policy === undefined) throw new Error("there is no policy");
  return policy;
}

/** A cluster after some of its members have answered; agents are a1, a2, … in the order of their answers. */
export function clusterOf(
  answers: readonly (string | (Partial<Completion> & { readonly text: string }))[],
  of: Partial<Omit<ClusterState, "completions" | "unfinished">> & { readonly unfinished?: number } = {},
): ClusterState {
  const completions = answers.map((answer, index): Completion => ({
    agent: `a${index + 1}`,
    model: index % 2 === 0 ? "4b" : "8b",
    logprobs: [-0.1, -0.2],
    cut: false,
    ...(typeof answer === "string" ? { text: answer } : answer),
  }));
  const { unfinished = 1, ...rest } = of;
  return {
    seed: "7",
    cluster: "l1.c1",
    question: "How many eggs are left?",
    completions,
    unfinished: Array.from(
      { length: unfinished },
      (_, index) => ({ agent: `a${answers.length + index + 1}`, model: "32b" }),
    ),
    ...rest,
  };
}

/** Evidence from two functions; undefined where they give none. */
export function evidenceOf(
  similarity: (a: number, b: number) => number | undefined = () => undefined,
  verdict: (a: number, b: number) => number | undefined = () => undefined,
  tokens = 40,
): Evidence {
  return {
    similarity: ([a, b]): Similarity | undefined => {
      const value = similarity(a, b);
      return value === undefined ? undefined : { metric: "fcs_u", value, tokens: [tokens, tokens] };
    },
    verdict: ([a, b]): Verdict | undefined => {
      const yes = verdict(a, b);
      return yes === undefined ? undefined : { yes, model: "4b" };
    },
  };
}
