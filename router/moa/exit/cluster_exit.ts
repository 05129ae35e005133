import { messageOf } from "../../../base/errors.ts";
import type { JsonObject } from "../../../base/json.ts";
import type {
  ClusterState,
  Evidence,
  EvidenceWanted,
  ExitDecision,
  ExitPolicy,
} from "../../../scorer/policy/exit_policy.ts";
import type { AnswerId } from "../../../scorer/scorer.ts";
import type { AgentContext } from "../agent/agent_context.ts";
import type { EarlyExitServices } from "./exit_policies.ts";
import { type Judge, unknownVerdict } from "./judge.ts";
import { PairEvidence } from "./pair_evidence.ts";
import type { Panel } from "./panel.ts";

/** An exit policy's decision. */
export interface ConcludedExit {
  readonly decision: ExitDecision;
  /** Time from the completion to the decision. */
  readonly ms: number;
  /** Something that was wanted was not there in time. */
  readonly late: boolean;
}

/** Options of a `ClusterExit`. */
export interface ClusterExitOptions {
  readonly panel: Panel;
  readonly policy: ExitPolicy;
  readonly services: EarlyExitServices;
  readonly context: AgentContext;
  /** The question that the answers answer, as plain text. */
  readonly question: () => string;
  /** The name under which the scorer knows an agent's answer; undefined where it does not know all of it. */
  readonly answerId: (agent: string) => AnswerId | undefined;
  /** Made when it is first asked; a text says why there is none. */
  readonly judge: () => Judge | string;
}

const noEvidence: Evidence = { similarity: () => undefined, verdict: () => undefined };

/**
 * Asks the exit policy of one cluster: what it wants to know is gathered first, in the background. A newer question
 * takes the place of one that is still open. Whatever fails or comes too late, the answer is then not to exit.
 */
export class ClusterExit {
  readonly panel: Panel;
  readonly policy: ExitPolicy;
  readonly #options: ClusterExitOptions;
  readonly #evidence: PairEvidence;
  readonly #controller = new AbortController();
  #judge: Judge | string | undefined;
  #question = 0;

  constructor(options: ClusterExitOptions) {
    const { panel, policy, services, context, answerId } = options;
    this.#options = options;
    this.panel = panel;
    this.policy = policy;
    this.#evidence = new PairEvidence({
      scorer: services.scorer,
      metric: policy.needs.similarity,
      deadlineMs: panel.node.earlyExit.deadline_ms,
      clock: context.clock,
      answerId: (completion) => answerId(panel.answers[completion]!.agent),
      judge: ([a, b], signal) => {
        const judge = this.#judgeOf();
        if (typeof judge === "string") return Promise.resolve(unknownVerdict(judge));
        return judge.ask([panel.answers[a]!.text, panel.answers[b]!.text], signal);
      },
    });
  }

  /**
   * Asks; `then` is called at once when nothing is to be found out, and never when the question has become void. Until
   * then there is a promise, which rejects with an error of `then`.
   */
  ask(then: (concluded: ConcludedExit) => void): Promise<void> | undefined {
    const { signal } = this.#controller;
    if (signal.aborted) return undefined;
    const { clock } = this.#options.context;
    const state = this.#state();
    const question = ++this.#question;
    const startedMs = clock.now();
    const conclude = (decision: ExitDecision, late: boolean) => {
      then({ decision, ms: clock.now() - startedMs, late });
      return undefined;
    };
    let wanted: EvidenceWanted | undefined;
    let gathered: Promise<void> | undefined;
    try {
      wanted = this.policy.wants(state);
      if (wanted !== undefined) gathered = this.#evidence.gather(wanted, signal);
    } catch (error) {
      return conclude(waiting(state, messageOf(error)), false);
    }
    if (wanted === undefined) {
      // It would not exit whatever it learned; its numbers say why.
      const decision = this.#decide(state, noEvidence);
      return conclude({ ...decision, exit: false, consensus: undefined }, false);
    }
    const looked = wanted;
    if (gathered === undefined) return conclude(this.#decideOn(state, wanted), false);
    return gathered.then(() => {
      if (question !== this.#question || signal.aborted) return;
      conclude(this.#decideOn(state, looked), this.#evidence.late);
    });
  }

  /** The last answer is there, others are being written: the model that will compare them reads it now. */
  warmJudge(): void {
    const answer = this.panel.answers.at(-1);
    const { signal } = this.#controller;
    if (answer === undefined || signal.aborted) return;
    const judge = this.#judgeOf();
    if (typeof judge !== "string") void judge.warm(answer.text, signal);
  }

  /** The figures that a decision was made on, for the trace. */
  figures({ decision, ms, late }: ConcludedExit): JsonObject {
    const { node, answers } = this.panel;
    const facts = this.policy.needs.similarity === undefined
      ? undefined
      : this.#options.services.scorer.facts;
    return {
      metric: node.earlyExit.metric,
      completions: answers.length,
      ...decision.numbers,
      ...(decision.consensus === undefined ? {} : { consensus: { ...decision.consensus } }),
      ...(facts === undefined
        ? {}
        : { scorer: { embedder: facts.embedder, model: facts.model ?? null, details: facts.details } }),
      ms: Math.round(ms * 1000) / 1000,
      ...(late ? { late } : {}),
    };
  }

  /** The cluster has closed: what is still being found out is not needed. */
  close(reason: unknown): void {
    this.#controller.abort(reason);
  }

  #state(): ClusterState {
    const { panel: { node, answers, open, unfinished }, question, context } = this.#options;
    return {
      seed: context.drawSeed,
      cluster: node.id,
      question: question(),
      completions: answers.map(({ agent, model, text, logprobs, cut }) => ({
        agent,
        model,
        text,
        logprobs,
        cut,
      })),
      unfinished: open ? unfinished.map(({ id, model }) => ({ agent: id, model })) : [],
    };
  }

  #judgeOf(): Judge | string {
    return this.#judge ??= this.#options.judge();
  }

  /** Decides on what was found; where some of it could not be had, the cluster waits. */
  #decideOn(state: ClusterState, wanted: EvidenceWanted): ExitDecision {
    const decision = this.#decide(state, this.#evidence);
    if (!this.#evidence.misses(wanted)) return decision;
    return { ...waiting(state), numbers: { ...decision.numbers, incomplete: true } };
  }

  #decide(state: ClusterState, evidence: Evidence): ExitDecision {
    try {
      return this.policy.decide(state, evidence);
    } catch (error) {
      return waiting(state, messageOf(error));
    }
  }
}

/** Not to exit. A policy or a scorer that fails must not be worse than none. */
function waiting({ completions }: ClusterState, error?: string): ExitDecision {
  return {
    exit: false,
    keep: completions.map(({ agent }) => agent),
    consensus: undefined,
    numbers: error === undefined ? {} : { error },
  };
}
