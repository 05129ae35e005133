import { type Clock, deadlineSignal } from "../../base/clock.ts";
import { messageOf } from "../../base/errors.ts";
import type { AnswerEmbedding, AnswerFeatures, Embedder } from "../embedders/embedder.ts";
import type { AnswerFeed, AnswerId, Scorer, ScorerFacts, Similarity, SimilarityMetric } from "../scorer.ts";

/** Most characters that are embedded at once, about 128 tokens; an answer that has ended waits for one such step at most. */
const STEP_LENGTH = 512;
/** Most characters of one answer that wait to be embedded. */
const MAX_WAITING_LENGTH = 4 * 1024 * 1024;
/** Longest work without a turn of the event loop, in ms. */
const TURN_MS = 2;
/** Longest wait for the steps in flight when the scorer is closed, in ms. */
const CLOSE_MS = 5_000;

/** Largest rounding error by which a similarity may leave its range. */
const ROUNDING = 1e-5;

/** Options of an `InlineScorer`. */
export interface InlineScorerOptions {
  readonly clock: Clock;
  /** Answers that have ended and may wait to be embedded; further ones are not compared. */
  readonly maxQueued: number;
}

/** An answer that is embedded and compared with others. */
interface ComparedAnswer {
  readonly id: AnswerId;
  /** Number in the order of opening. */
  readonly order: number;
  /** Text that is not embedded yet. */
  text: string;
  state: "growing" | "ended" | "done" | "failed";
  /** Reason of the failure. */
  reason: string;
  /** True while a call of its embedding runs. */
  inStep: boolean;
  embedding: AnswerEmbedding | undefined;
  features: AnswerFeatures | undefined;
  /** Pairs with other answers that were to be compared, by their keys. */
  readonly pairs: Map<string, AnswerPair>;
}

/** One comparison, made at most once. */
interface AnswerPair {
  readonly key: string;
  readonly metric: SimilarityMetric;
  /** Opened before `b`, or the same. */
  readonly a: ComparedAnswer;
  readonly b: ComparedAnswer;
  readonly waiters: Set<(result: Similarity) => void>;
  result: Similarity | undefined;
}

/**
 * A scorer in the thread that it is made in, over any embedder: it hosts models inside the scorer's Worker, and the
 * embedders that need none in the router's thread.
 *
 * One step of work at a time, or as many as the embedder takes: first comparisons that are waited for, then the tails of
 * answers that have ended, in the order of their ends, then new text of the others, each in turn.
 */
export class InlineScorer implements Scorer {
  readonly #embedder: Embedder;
  readonly #clock: Clock;
  readonly #maxQueued: number;
  readonly #answers = new Map<AnswerId, ComparedAnswer>();
  readonly #comparisons = new Set<AnswerPair>();
  readonly #ended = new Set<ComparedAnswer>();
  readonly #growing = new Set<ComparedAnswer>();
  #opened = 0;
  #closed = false;
  /** Running loops of `#work`; at most as many as the embedder takes answers at once. */
  #workers = 0;
  /** Promises of these loops. */
  readonly #working = new Set<Promise<void>>();

  constructor(embedder: Embedder, { clock, maxQueued }: InlineScorerOptions) {
    this.#embedder = embedder;
    this.#clock = clock;
    this.#maxQueued = maxQueued;
  }

  get facts(): ScorerFacts | undefined {
    return this.#closed ? undefined : this.#embedder.facts;
  }

  open(id: AnswerId): AnswerFeed {
    const earlier = this.#answers.get(id);
    if (earlier !== undefined) this.#drop(earlier, `answer ${id} was opened again`);
    const answer: ComparedAnswer = {
      id,
      order: this.#opened++,
      text: "",
      state: "growing",
      reason: "",
      inStep: false,
      embedding: undefined,
      features: undefined,
      pairs: new Map(),
    };
    if (this.#closed) this.#fail(answer, "the scorer is closed");
    else this.#answers.set(id, answer);
    return {
      append: (text) => this.#append(answer, text),
      end: () => this.#end(answer),
      close: () => this.#drop(answer, `answer ${id} is closed`),
    };
  }

  similarity(
    aId: AnswerId,
    bId: AnswerId,
    metric: SimilarityMetric,
    deadlineMs: number,
  ): Promise<Similarity> {
    const a = this.#answers.get(aId);
    const b = this.#answers.get(bId);
    if (a === undefined || b === undefined) {
      const reason = this.#closed
        ? "the scorer is closed"
        : `answer ${a === undefined ? aId : bId} is not open`;
      return Promise.resolve({ metric, value: undefined, reason, tokens: [0, 0] });
    }
    const swapped = a.order > b.order;
    const pair = swapped ? pairOf(b, a, metric) : pairOf(a, b, metric);
    if (pair.result !== undefined) return Promise.resolve(oriented(pair.result, swapped));
    return new Promise((resolve) => {
      const waitMs = deadlineMs > 0 ? deadlineMs : 0;
      const deadline = deadlineSignal(this.#clock, waitMs, undefined);
      const waiter = (result: Similarity) => {
        pair.waiters.delete(waiter);
        deadline.release();
        resolve(oriented(result, swapped));
      };
      deadline.signal.addEventListener("abort", () => waiter(unknown(pair, `not known within ${waitMs} ms`)));
      pair.waiters.add(waiter);
      this.#advance(pair);
    });
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    for (const answer of [...this.#answers.values()]) this.#drop(answer, "the scorer is closed");
    const deadline = deadlineSignal(this.#clock, CLOSE_MS, undefined);
    const late = new Promise((resolve) => deadline.signal.addEventListener("abort", resolve));
    await Promise.race([Promise.all(this.#working), late]);
    deadline.release();
    await this.#embedder.close();
  }

  #append(answer: ComparedAnswer, text: string): void {
    if (answer.state !== "growing" || text === "") return;
    if (answer.text.length + text.length > MAX_WAITING_LENGTH) {
      return this.#fail(answer, `answer ${answer.id} is longer than ${MAX_WAITING_LENGTH} characters`);
    }
    answer.text += text;
    this.#growing.add(answer);
    this.#wake();
  }

  #end(answer: ComparedAnswer): void {
    if (answer.state !== "growing") return;
    this.#growing.delete(answer);
    if (this.#ended.size >= this.#maxQueued) {
      return this.#fail(answer, `the scorer is busy: ${this.#maxQueued} other answers wait`);
    }
    answer.state = "ended";
    this.#ended.add(answer);
    this.#wake();
  }

  /** Forgets an answer, its features and its pairs. */
  #drop(answer: ComparedAnswer, reason: string): void {
    if (this.#answers.get(answer.id) === answer) this.#answers.delete(answer.id);
    this.#fail(answer, reason);
    for (const pair of answer.pairs.values()) {
      this.#comparisons.delete(pair);
      pair.a.pairs.delete(pair.key);
      pair.b.pairs.delete(pair.key);
    }
  }

  /** Excludes an answer from all comparisons. */
  #fail(answer: ComparedAnswer, reason: string): void {
    if (answer.state !== "failed") {
      answer.state = "failed";
      answer.reason = reason;
    }
    answer.text = "";
    answer.features = undefined;
    this.#growing.delete(answer);
    this.#ended.delete(answer);
    release(answer);
    for (const pair of answer.pairs.values()) this.#advance(pair);
  }

  /** Queues a pair that is waited for when both answers are embedded; settles it when one has failed. */
  #advance(pair: AnswerPair): void {
    if (pair.waiters.size === 0 || pair.result !== undefined) return;
    const failed = [pair.a, pair.b].find((answer) => answer.state === "failed");
    if (failed !== undefined) return settle(pair, unknown(pair, failed.reason));
    if (pair.a.features === undefined || pair.b.features === undefined) return;
    this.#comparisons.add(pair);
    this.#wake();
  }

  #wake(): void {
    if (this.#workers >= this.#embedder.concurrency) return;
    this.#workers++;
    const working = this.#work().finally(() => this.#working.delete(working));
    this.#working.add(working);
  }

  async #work(): Promise<void> {
    // Text that comes in the same turn is embedded together.
    await undefined;
    let sinceMs = this.#clock.now();
    for (let step = this.#next(); step !== undefined; step = this.#next()) {
      await step;
      if (this.#clock.now() - sinceMs < TURN_MS) continue;
      await this.#clock.sleep(0);
      sinceMs = this.#clock.now();
    }
    this.#workers--;
  }

  /** Begins the next step; it never rejects. */
  #next(): Promise<void> | undefined {
    for (const pair of this.#comparisons) {
      this.#comparisons.delete(pair);
      // Without waiters all deadlines have passed.
      if (pair.waiters.size > 0) return this.#compare(pair);
    }
    const ended = free(this.#ended);
    if (ended !== undefined) return this.#embed(ended);
    const growing = free(this.#growing);
    if (growing === undefined) return undefined;
    this.#growing.delete(growing);
    return this.#embed(growing);
  }

  /** One step of an answer: a piece of its text or, when none is left and it has ended, its tail. */
  async #embed(answer: ComparedAnswer): Promise<void> {
    answer.inStep = true;
    try {
      answer.embedding ??= this.#embedder.open();
      const piece = firstPiece(answer.text);
      answer.text = answer.text.slice(piece.length);
      if (piece !== "") await answer.embedding.append(piece);
      else {
        const features = await answer.embedding.finish();
        if (answer.state === "ended") {
          // To the end of the line: answers with less left to do need not wait for it.
          this.#ended.delete(answer);
          if (features === undefined) this.#ended.add(answer);
          else {
            answer.features = features;
            answer.state = "done";
          }
        }
      }
    } catch (error) {
      this.#fail(answer, `answer ${answer.id} could not be embedded: ${messageOf(error)}`);
    }
    answer.inStep = false;
    if (answer.state === "growing" && answer.text !== "") this.#growing.add(answer);
    if (answer.state !== "done") return;
    for (const pair of answer.pairs.values()) this.#advance(pair);
  }

  async #compare(pair: AnswerPair): Promise<void> {
    const { a, b, metric } = pair;
    const [left, right] = [a.features, b.features];
    if (left === undefined || right === undefined) return;
    try {
      const nothing = left.dimensions === 0 || right.dimensions === 0;
      const value = nothing ? undefined : await left.compare(right, metric);
      settle(pair, resultOf(metric, left, right, value));
    } catch (error) {
      settle(pair, unknown(pair, `they could not be compared: ${messageOf(error)}`));
    }
  }
}

/** The first answer of which no call is running. */
function free(answers: Iterable<ComparedAnswer>): ComparedAnswer | undefined {
  for (const answer of answers) if (!answer.inStep) return answer;
  return undefined;
}

function release(answer: ComparedAnswer): void {
  const embedding = answer.embedding;
  answer.embedding = undefined;
  try {
    embedding?.close();
  } catch {
    // The answer is dropped: its failure does not matter any more.
  }
}

/** The first part of a text, to be embedded at once; never half a character. */
function firstPiece(text: string): string {
  if (text.length <= STEP_LENGTH) return text;
  const unit = text.charCodeAt(STEP_LENGTH - 1);
  return text.slice(0, unit >= 0xd800 && unit <= 0xdbff ? STEP_LENGTH - 1 : STEP_LENGTH);
}

/** The pair of `a`, which was opened first or is the same, and `b`; made on first use. */
function pairOf(a: ComparedAnswer, b: ComparedAnswer, metric: SimilarityMetric): AnswerPair {
  const key = `${a.order} ${b.order} ${metric}`;
  let pair = a.pairs.get(key);
  if (pair === undefined) {
    pair = { key, metric, a, b, waiters: new Set(), result: undefined };
    a.pairs.set(key, pair);
    b.pairs.set(key, pair);
  }
  return pair;
}

/** Gives the result to all waiters. */
function settle(pair: AnswerPair, result: Similarity): void {
  pair.result = result;
  for (const waiter of [...pair.waiters]) waiter(result);
}

/** The result of a pair that cannot be compared. */
function unknown({ metric, a, b }: AnswerPair, reason: string): Similarity {
  return { metric, value: undefined, reason, tokens: [a.features?.tokens ?? 0, b.features?.tokens ?? 0] };
}

/** The result of an embedder's comparison; a value out of range, such as NaN, is unknown. */
function resultOf(
  metric: SimilarityMetric,
  a: AnswerFeatures,
  b: AnswerFeatures,
  value: number | undefined,
): Similarity {
  const tokens: [number, number] = [a.tokens, b.tokens];
  const dimensions: [number, number] | undefined =
    metric === "cosine" || a.effectiveDimensions === undefined || b.effectiveDimensions === undefined
      ? undefined
      : [a.effectiveDimensions, b.effectiveDimensions];
  const common = { metric, tokens, effectiveDimensions: dimensions };
  if (value === undefined) return { ...common, value, reason: "one of the answers has nothing to compare" };
  const least = metric === "cosine" ? -1 : 0;
  if (!(value >= least - ROUNDING && value <= 1 + ROUNDING)) {
    return { ...common, value: undefined, reason: `the embedder gave ${value}, which is no similarity` };
  }
  return { ...common, value: Math.min(1, Math.max(least, value)) };
}

/** The result for the pair as given, or the other way round. */
function oriented(result: Similarity, swapped: boolean): Similarity {
  if (!swapped) return result;
  const { tokens, effectiveDimensions: dimensions } = result;
  return {
    ...result,
    tokens: [tokens[1], tokens[0]],
    effectiveDimensions: dimensions && [dimensions[1], dimensions[0]],
  };
}
