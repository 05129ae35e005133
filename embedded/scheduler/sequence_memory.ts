import { type Extension, type KeyValuePool, type KeyValues, sizeFor } from "../cache/key_values.ts";
import { PrefixCache } from "../cache/prefix_cache.ts";
import type { DecoderSteps } from "../model/decoder_steps.ts";
import { Batch } from "./batch.ts";
import type { Sequence } from "./sequence.ts";

/** Options of a sequence memory. */
export interface SequenceMemoryOptions {
  readonly decoder: Pick<DecoderSteps, "stepBatch">;
  readonly pool: KeyValuePool;
  /** Longer sequences are not computed in batches; 0: none are. */
  readonly maxBatchedTokens: number;
}

/**
 * Memory of the keys and values of sequences: each in memory of its own, those that answer side by side in the batch,
 * and of those that have ended in the prefix cache, whose memory is taken back when it is needed.
 */
export class SequenceMemory {
  readonly batch: Batch;
  readonly #pool: KeyValuePool;
  readonly #cache = new PrefixCache();

  constructor({ decoder, pool, maxBatchedTokens }: SequenceMemoryOptions) {
    this.#pool = pool;
    this.batch = new Batch({ decoder, pool, maxTokens: maxBatchedTokens, free: () => this.#cache.evict() });
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
    let sum = this.batch.usedTokens;
    let most = 0;
    for (const sequence of [...running, next]) {
      if (sequence.batched) continue;
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

  /** Puts those of `answers`, all that answer, into the batch that gain by being computed together. */
  gather(running: readonly Sequence[], answers: readonly Sequence[]): void {
    const own = running.reduce((sum, { keyValues }) => sum + (keyValues?.capacity ?? 0), 0);
    this.batch.join(answers, this.#pool.maxTokens - own - this.batch.usedTokens);
  }

  /** Remembers what is known of a sequence, which goes on. */
  remember({ ids, known, keyValues }: Sequence): void {
    if (keyValues !== undefined) this.#cache.insert(ids.slice(0, known), keyValues);
  }

  /** Remembers what is known of a sequence, as far as there is room; it does not go on, or starts anew. */
  release(sequence: Sequence): void {
    if (sequence.batched) this.batch.leave(sequence);
    this.remember(sequence);
    sequence.keyValues?.release();
    sequence.reset();
  }
}
