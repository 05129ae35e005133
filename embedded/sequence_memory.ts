import { Batch, type BatchOptions } from "./batch.ts";
import type { Decoder } from "./decoder.ts";
import { type Extension, type KeyValuePool, type KeyValues, sizeFor } from "./key_values.ts";
import { PrefixCache } from "./prefix_cache.ts";
import type { Sequence } from "./sequence.ts";

export interface SequenceMemoryOptions {
  readonly decoder: Pick<Decoder, "stepBatch">;
  readonly pool: KeyValuePool;
  /** Tokens whose keys and values a step of several sequences may read; 0: nothing is computed in batches. */
  readonly maxBatchTokens: number;
}

/**
 * Where the keys and values of sequences are: each in memory of its own, those that answer side by side in batches, and
 * of those that have ended in the prefix cache, whose memory is taken back when it is needed.
 */
export class SequenceMemory {
  #options: BatchOptions;
  readonly #pool: KeyValuePool;
  readonly #cache = new PrefixCache();
  #batches: Batch[] = [];

  constructor({ decoder, pool, maxBatchTokens }: SequenceMemoryOptions) {
    this.#pool = pool;
    this.#options = { decoder, pool, maxTokens: maxBatchTokens, free: () => this.#cache.evict() };
  }

  /** More than one where one would be too long for what it saves. */
  get batches(): readonly Batch[] {
    return this.#batches;
  }

  /** Different tokens that are remembered. */
  get rememberedTokens(): number {
    return this.#cache.tokens;
  }

  get maxTokens(): number {
    return this.#pool.maxTokens;
  }

  /** Room for all that run, for this one, and for one to write to. */
  fits(running: readonly Sequence[], next: Sequence): boolean {
    if (running.length === 0) return true;
    let sum = this.#inBatches;
    let most = 0;
    for (const sequence of [...running, next]) {
      if (sequence.batch !== undefined) continue;
      const size = sizeFor(sequence.expectedTokens);
      sum += size;
      most = Math.max(most, size);
    }
    return sum + most <= this.#pool.maxTokens;
  }

  /** Goes on from what is known of the sequence's first tokens. */
  start(sequence: Sequence): void {
    const { ids, request } = sequence;
    const { tokens, source } = this.#cache.match(ids);
    // A token is only drawn from logits, and those are not remembered.
    const known = request.maxTokens === 0 ? tokens : Math.min(tokens, ids.length - 1);
    if (source === undefined || known === 0) return sequence.start(undefined, 0);
    // Nothing is to be computed: no need for a copy.
    if (known === ids.length) return sequence.start(undefined, known);
    source.retain();
    let past: KeyValues | undefined;
    do past = this.#pool.branch(source, known); while (past === undefined && this.#cache.evict());
    source.release();
    sequence.start(past, past === undefined ? 0 : known);
  }

  /** Room for so many tokens more of a sequence; undefined when there is none and none can be freed. */
  extend({ keyValues, known, expectedTokens }: Sequence, more: number): Extension | undefined {
    let room: Extension | undefined;
    do room = this.#pool.extend(keyValues, known, more, expectedTokens); while (
      room === undefined && this.#cache.evict()
    );
    return room;
  }

  /** Puts those of the `answers` into batches that may as well be computed together; `running` are all. */
  gather(running: readonly Sequence[], answers: readonly Sequence[]): void {
    const join = (batch: Batch) => {
      const own = running.reduce((sum, { keyValues }) => sum + (keyValues?.capacity ?? 0), 0);
      batch.join(
        answers.filter(({ batch }) => batch === undefined),
        this.#pool.maxTokens - own - this.#inBatches,
      );
      return batch.members.length > 0;
    };
    this.#batches = this.#batches.filter(join);
    for (let batch = new Batch(this.#options); join(batch); batch = new Batch(this.#options)) {
      this.#batches.push(batch);
    }
  }

  /** Each goes on alone, from now on. */
  unbatch(): void {
    for (const batch of this.#batches) for (const sequence of [...batch.members]) batch.leave(sequence);
    this.#batches = [];
    this.#options = { ...this.#options, maxTokens: 0 };
  }

  get #inBatches(): number {
    return this.#batches.reduce((sum, { usedTokens }) => sum + usedTokens, 0);
  }

  /** Remembers what is known of a sequence, which goes on. */
  remember({ ids, known, keyValues }: Sequence): void {
    if (keyValues !== undefined) this.#cache.insert(ids.slice(0, known), keyValues);
  }

  /** Remembers what is known of a sequence, as far as there is room; it does not go on, or starts anew. */
  release(sequence: Sequence): void {
    sequence.batch?.leave(sequence);
    this.remember(sequence);
    sequence.keyValues?.release();
    sequence.reset();
  }
}
