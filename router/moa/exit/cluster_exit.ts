import type { Clock } from "../../../base/clock.ts";
import { messageOf } from "../../../base/errors.ts";
import type { PairEvidence } from "./pair_evidence.ts";
import type {
  ClusterState,
  Evidence,
  EvidenceWanted,
  ExitDecision,
  ExitPolicy,
} from "../../../scorer/policy/exit_policy.ts";

/** What came of one question to an exit policy. */
export interface ConcludedExit {
  readonly decision: ExitDecision;
  /** From the completion to the decision. */
  readonly ms: number;
  /** Something that was wanted was not there in time. */
  readonly late: boolean;
}

const noEvidence: Evidence = { similarity: () => undefined, verdict: () => undefined };

/**
 * Asks the exit policy of one cluster: what it wants to know is gathered first, in the background. A newer question
 * takes the place of one that is still open. Whatever fails or comes too late, the answer is then not to exit.
 */
export class ClusterExit {
  readonly policy: ExitPolicy;
  readonly #evidence: PairEvidence;
  readonly #clock: Clock;
  readonly #controller = new AbortController();
  #question = 0;

  readonly #onError: (error: unknown) => void;

  /** `onError`: what was to be done about a decision has failed. */
  constructor(options: {
    readonly policy: ExitPolicy;
    readonly evidence: PairEvidence;
    readonly clock: Clock;
    readonly onError: (error: unknown) => void;
  }) {
    this.policy = options.policy;
    this.#evidence = options.evidence;
    this.#clock = options.clock;
    this.#onError = options.onError;
  }

  /** Aborts when the cluster's answers need not be compared any more. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Asks; `then` is called at once when nothing is to be found out, and never when the question has become void. */
  ask(state: ClusterState, then: (concluded: ConcludedExit) => void): void {
    if (this.signal.aborted) return;
    const question = ++this.#question;
    const startedMs = this.#clock.now();
    const conclude = (decision: ExitDecision, late: boolean) =>
      then({ decision, ms: this.#clock.now() - startedMs, late });
    let wanted: EvidenceWanted | undefined;
    let gathered: Promise<void> | undefined;
    try {
      wanted = this.policy.wants(state);
      if (wanted !== undefined) gathered = this.#evidence.gather(wanted, this.signal);
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
    void gathered.then(() => {
      if (question !== this.#question || this.signal.aborted) return;
      conclude(this.#decideOn(state, looked), this.#evidence.late);
    }).catch(this.#onError);
  }

  /** The cluster has closed: what is still being found out is not needed. */
  close(reason: unknown): void {
    this.#controller.abort(reason);
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
