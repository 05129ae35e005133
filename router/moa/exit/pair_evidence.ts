import { type Clock, deadlineSignal } from "../../../base/clock.ts";
import { messageOf } from "../../../base/errors.ts";
import type { Evidence, EvidenceWanted, Pair, Verdict } from "../../../scorer/policy/exit_policy.ts";
import type { AnswerId, Scorer, Similarity, SimilarityMetric } from "../../../scorer/scorer.ts";

/** Pairs that one decision may ask for, by either means: a policy that wants more goes without the rest. */
const MAX_PAIRS = 64;

/** Sources of evidence. */
export interface EvidenceSources {
  readonly scorer: Scorer;
  readonly metric: SimilarityMetric | undefined;
  /** Longest time for a similarity. */
  readonly deadlineMs: number;
  readonly clock: Clock;
  /** The name under which the scorer knows a completion, by its place; undefined where it does not know all of it. */
  answerId(completion: number): AnswerId | undefined;
  /** Asks the judging model; never rejects. */
  judge(pair: Pair, signal: AbortSignal): Promise<Judgement>;
}

/** A verdict, and why it is missing if it is. */
export interface Judgement {
  readonly verdict: Verdict;
  /** It took too long. */
  readonly late: boolean;
  /** It could not be had; false where the model has said neither yes nor no. */
  readonly failed: boolean;
}

/** Finds out how alike the pairs of a cluster's answers are; what was found once is not looked for again. */
export class PairEvidence implements Evidence {
  readonly #sources: EvidenceSources;
  readonly #similarities = new Map<string, Similarity>();
  readonly #judgements = new Map<string, Judgement>();
  /** By pair and means. */
  readonly #pending = new Map<string, Promise<void>>();
  #late = false;

  constructor(sources: EvidenceSources) {
    this.#sources = sources;
  }

  similarity(pair: Pair): Similarity | undefined {
    return this.#similarities.get(keyOf(pair));
  }

  verdict(pair: Pair): Verdict | undefined {
    return this.#judgements.get(keyOf(pair))?.verdict;
  }

  /** Finds what is wanted and not known yet, all at once; undefined when there is nothing to find. Never rejects. */
  gather(wanted: EvidenceWanted, signal: AbortSignal): Promise<void> | undefined {
    const { similarities, verdicts } = wanted;
    this.#late = false;
    const searches = [
      ...similarities.slice(0, MAX_PAIRS).flatMap((pair) =>
        this.similarity(pair)?.value === undefined
          ? [this.#once(`similarity ${keyOf(pair)}`, () => this.#compare(pair, signal))]
          : []
      ),
      ...verdicts.slice(0, MAX_PAIRS).flatMap((pair) =>
        this.verdict(pair)?.yes === undefined
          ? [this.#once(`verdict ${keyOf(pair)}`, () => this.#ask(pair, signal))]
          : []
      ),
    ];
    return searches.length === 0 ? undefined : Promise.all(searches).then(() => {});
  }

  /** True when something was still missing at its deadline at the last `gather`. */
  get late(): boolean {
    return this.#late;
  }

  /** True when something that is wanted could not be had: an exit would be decided on less than its policy asks for. */
  misses({ similarities, verdicts }: EvidenceWanted): boolean {
    return similarities.some((pair) => this.similarity(pair)?.value === undefined) ||
      verdicts.some((pair) => this.#judgements.get(keyOf(pair))?.failed !== false);
  }

  #once(key: string, search: () => Promise<void>): Promise<void> {
    let pending = this.#pending.get(key);
    if (pending === undefined) {
      pending = search().finally(() => this.#pending.delete(key));
      this.#pending.set(key, pending);
    }
    return pending;
  }

  async #compare(pair: Pair, signal: AbortSignal): Promise<void> {
    const { scorer, metric, deadlineMs, clock, answerId } = this.#sources;
    if (metric === undefined) return;
    const startedMs = clock.now();
    const overdue = new Error(`no answer within ${deadlineMs} ms`);
    const deadline = deadlineSignal(clock, deadlineMs, overdue, signal);
    let found: Similarity;
    try {
      const [a, b] = pair.map(answerId);
      if (a === undefined || b === undefined) throw new Error("the scorer has not taken the answer");
      // The scorer keeps the deadline itself; one that is broken may not.
      found = checked(
        await before(deadline.signal, scorer.similarity(a, b, metric, deadlineMs)),
        metric,
      );
    } catch (error) {
      found = unknownSimilarity(metric, messageOf(error));
    } finally {
      deadline.release();
    }
    if (signal.aborted) return;
    if (found.value === undefined && clock.now() - startedMs >= deadlineMs) this.#late = true;
    this.#similarities.set(keyOf(pair), found);
  }

  async #ask(pair: Pair, signal: AbortSignal): Promise<void> {
    const judgement = await this.#sources.judge(pair, signal);
    if (signal.aborted) return;
    if (judgement.late) this.#late = true;
    this.#judgements.set(keyOf(pair), judgement);
  }
}

function keyOf([a, b]: Pair): string {
  return `${a}-${b}`;
}

function unknownSimilarity(metric: SimilarityMetric, reason: string): Similarity {
  return { metric, value: undefined, reason, tokens: [0, 0] };
}

/** Checks a scorer's similarity: a number that cannot be one would pass every comparison, or none. */
function checked(given: Similarity, metric: SimilarityMetric): Similarity {
  const { value, tokens, effectiveDimensions } = given;
  const found: Similarity = {
    metric,
    value,
    ...(typeof given.reason === "string" ? { reason: given.reason } : {}),
    tokens: isPair(tokens) ? tokens : [0, 0],
    ...(isPair(effectiveDimensions) ? { effectiveDimensions } : {}),
  };
  if (value === undefined) return found;
  const least = metric === "cosine" ? -1 : 0;
  // Rounding may leave the range by a hair.
  const slack = 1e-6;
  if (typeof value !== "number" || !(value >= least - slack && value <= 1 + slack)) {
    return unknownSimilarity(metric, `the scorer gave ${String(value).slice(0, 40)}`);
  }
  return { ...found, value: Math.min(1, Math.max(least, value)) };
}

function isPair(numbers: unknown): numbers is readonly [number, number] {
  return Array.isArray(numbers) && numbers.length === 2 && numbers.every(Number.isFinite);
}

/** A promise, or the signal's reason as soon as that aborts. */
function before<T>(signal: AbortSignal, promise: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(signal.reason);
    if (signal.aborted) onAbort();
    else signal.addEventListener("abort", onAbort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", onAbort));
  });
}
