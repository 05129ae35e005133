import type { Clock } from "../../../base/clock.ts";
import { messageOf } from "../../../base/errors.ts";
import type { Logger } from "../../../base/log.ts";
import type {
  AnswerFeed,
  AnswerId,
  Scorer,
  ScorerFacts,
  Similarity,
  SimilarityMetric,
} from "../../../scorer/scorer.ts";

/** Most characters that are held for a scorer that is still being made. */
const MAX_HELD_LENGTH = 16 * 1024 * 1024;

/** Shortest time between two attempts to make it, in ms. */
const AGAIN_MS = 30_000;

/** An answer's feed before there is a scorer to take it. */
interface Held {
  readonly id: AnswerId;
  text: string;
  ended: boolean;
  feed: AnswerFeed | undefined;
}

/**
 * A scorer that is made when the first answer comes, or when it is told to: a model of some hundred megabytes is not
 * loaded for a router of which nobody wants early exit. What comes before it is there is held and handed on. One that
 * could not be made, as its endpoint was not there yet, is tried again by answers that come half a minute later.
 */
export class LazyScorer implements Scorer {
  readonly #make: () => Promise<Scorer>;
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #held = new Set<Held>();
  #heldLength = 0;
  #making: Promise<Scorer | undefined> | undefined;
  #scorer: Scorer | undefined;
  #failure: { readonly message: string; readonly atMs: number } | undefined;
  #closed = false;

  constructor(make: () => Promise<Scorer>, { clock, log }: { readonly clock: Clock; readonly log: Logger }) {
    this.#make = make;
    this.#clock = clock;
    this.#log = log;
  }

  get facts(): ScorerFacts | undefined {
    return this.#scorer?.facts;
  }

  /** Makes the scorer, if that has not begun, nor failed lately. */
  start(): void {
    const failure = this.#failure;
    if (failure !== undefined && this.#clock.now() - failure.atMs < AGAIN_MS) return;
    this.#making ??= this.#made();
  }

  open(id: AnswerId): AnswerFeed {
    if (this.#scorer !== undefined) return this.#scorer.open(id);
    const held: Held = { id, text: "", ended: false, feed: undefined };
    if (!this.#closed) this.start();
    if (!this.#closed && this.#making !== undefined) this.#held.add(held);
    return {
      append: (text) => {
        if (held.feed !== undefined) return held.feed.append(text);
        if (!this.#held.has(held)) return;
        held.text += text;
        this.#heldLength += text.length;
        if (this.#heldLength > MAX_HELD_LENGTH) this.#drop(held);
      },
      end: () => {
        held.ended = true;
        held.feed?.end();
      },
      close: () => {
        held.feed?.close();
        this.#drop(held);
      },
    };
  }

  similarity(a: AnswerId, b: AnswerId, metric: SimilarityMetric, deadlineMs: number): Promise<Similarity> {
    if (this.#scorer !== undefined) return this.#scorer.similarity(a, b, metric, deadlineMs);
    const reason = this.#making === undefined && this.#failure !== undefined
      ? `there is no scorer: ${this.#failure.message}`
      : "the scorer is not there yet";
    return Promise.resolve({ metric, value: undefined, reason, tokens: [0, 0] });
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#held.clear();
    await (await this.#making)?.close();
  }

  async #made(): Promise<Scorer | undefined> {
    try {
      const scorer = await this.#make();
      if (this.#failure !== undefined) this.#log.info("The scorer is there now");
      this.#scorer = scorer;
      for (const held of this.#held) {
        held.feed = scorer.open(held.id);
        held.feed.append(held.text);
        if (held.ended) held.feed.end();
      }
      return scorer;
    } catch (error) {
      const message = messageOf(error);
      if (message !== this.#failure?.message && !this.#closed) {
        this.#log.warning("Early exit cannot compare answers: {error}", { error: message });
      }
      this.#failure = { message, atMs: this.#clock.now() };
      this.#making = undefined;
      return undefined;
    } finally {
      this.#held.clear();
      this.#heldLength = 0;
    }
  }

  #drop(held: Held): void {
    if (this.#held.delete(held)) this.#heldLength -= held.text.length;
  }
}
