import assert from "node:assert/strict";
import type { Clock } from "../../../base/clock.ts";
import { type EarlyExitConfig, earlyExitSchema } from "../../../cfgs/schema/early_exit.ts";
import type { EarlyExitServices } from "../../../router/moa/exit/exit_policies.ts";
import type { ExitPolicy } from "../../../scorer/policy/exit_policy.ts";
import { verdictPrompt, yesProbability } from "../../../scorer/policy/verdict_prompt.ts";
import type { AnswerFeed, Scorer, Similarity, SimilarityMetric } from "../../../scorer/scorer.ts";
import { ExitAudit } from "../../../scorer/audit/exit_audit.ts";
import { runConsensusOf } from "../../../scorer/exit_policy_of.ts";

/** What a fake scorer was given of one answer. */
export interface FedAnswer {
  readonly pieces: string[];
  state: "open" | "ended" | "closed";
}

/** How a fake scorer compares. */
export type Compare = (a: string, b: string, metric: SimilarityMetric) => Promise<Similarity> | Similarity;

/** A scorer that remembers what it was fed and compares as a test says. */
export class FakeScorer implements Scorer {
  readonly facts = { embedder: "lexical", model: undefined, details: { dimensions: 8 } } as const;
  readonly fed = new Map<string, FedAnswer>();
  readonly asked: string[] = [];
  compare: Compare;

  constructor(compare: Compare = () => similarity(0.9)) {
    this.compare = compare;
  }

  open(id: string): AnswerFeed {
    assert.ok(this.fed.get(id)?.state !== "open", `${id} is open already`);
    const answer: FedAnswer = { pieces: [], state: "open" };
    this.fed.set(id, answer);
    return {
      append: (text) => {
        assert.equal(answer.state, "open");
        answer.pieces.push(text);
      },
      end: () => void (answer.state = "ended"),
      close: () => void (answer.state = "closed"),
    };
  }

  async similarity(a: string, b: string, metric: SimilarityMetric): Promise<Similarity> {
    this.asked.push(`${agentOf(a)} ${agentOf(b)}`);
    return await this.compare(this.text(a), this.text(b), metric);
  }

  text(id: string): string {
    const answer = this.fed.get(id);
    assert.ok(answer !== undefined, `${id} was never opened`);
    return answer.pieces.join("");
  }

  /** Answers whose feeds were not closed. */
  get left(): string[] {
    return [...this.fed].filter(([, { state }]) => state !== "closed").map(([id]) => id);
  }

  close(): Promise<void> {
    return Promise.resolve();
  }
}

export function agentOf(id: string): string {
  return id.slice(id.indexOf("/") + 1);
}

export function similarity(value: number | undefined, reason?: string): Similarity {
  return { metric: "fcs_u", value, tokens: [3, 4], ...(reason === undefined ? {} : { reason }) };
}

/** The scorer answers after `ms`. */
export function afterMs(clock: Clock, ms: number, value: number): Compare {
  return async () => {
    await clock.sleep(ms);
    return similarity(value);
  };
}

/** Exits when all pairs are at least this similar. */
export function similarPolicy(least: number): ExitPolicy {
  const pairs = (count: number) =>
    Array.from({ length: count }, (_, b) => Array.from({ length: b }, (_, a) => [a, b] as const)).flat();
  return {
    needs: { logprobs: false, similarity: "fcs_u", verdicts: false },
    wants: ({ completions }) => ({ similarities: pairs(completions.length), verdicts: [] }),
    decide: ({ completions }, evidence) => {
      const values = pairs(completions.length).map((pair) => evidence.similarity(pair)?.value);
      return {
        exit: values.every((value) => value !== undefined && value >= least),
        keep: completions.map(({ agent }) => agent),
        consensus: undefined,
        numbers: { values: values.map((value) => value ?? null) },
      };
    },
  };
}

/** The question that is asked in earnest. */
export const verdictQuestion: EarlyExitServices["verdict"] = { prompt: verdictPrompt, yes: yesProbability };

export interface ServicesOptions {
  readonly scorer?: Scorer;
  readonly policyOf: (settings: EarlyExitConfig) => ExitPolicy | undefined;
}

export function services({ scorer = new FakeScorer(), policyOf }: ServicesOptions): EarlyExitServices {
  return {
    scorer,
    policyOf,
    consensusOf: runConsensusOf,
    auditOf: (settings) => new ExitAudit(settings),
    verdict: verdictQuestion,
  };
}

/** Settings of early exit with their defaults. */
export function exitSettings(settings: Record<string, unknown> = {}): EarlyExitConfig {
  return earlyExitSchema.parse({ metric: "agreement", ...settings });
}
