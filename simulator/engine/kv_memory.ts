import { type CacheNode, RadixCache } from "./prefix_cache.ts";
import type { EngineSequence } from "./sequence.ts";

/** The KV memory of one engine: what sequences hold for themselves, and the tree of prefixes that they share. */
export class KvMemory {
  readonly cache: RadixCache;
  readonly #tokens: number;
  #privateTokens = 0;

  /** `tokens`: capacity. */
  constructor(tokens: number, pageSize: number) {
    this.#tokens = tokens;
    this.cache = new RadixCache(pageSize);
  }

  /** Tokens that sequences hold. */
  get usedTokens(): number {
    return this.#privateTokens + this.cache.tokens - this.cache.evictableTokens;
  }

  /** Tokens that are free, or could be. */
  get freeTokens(): number {
    return this.#tokens - this.usedTokens;
  }

  /**
   * Gives a sequence the cached prefix of its tokens, at most `limit` of them, if `fits` agrees with the number of
   * tokens for which memory is still needed then. Returns whether it did.
   */
  begin(sequence: EngineSequence, limit: number, fits: (needed: number) => boolean): boolean {
    const most = Math.min(limit, sequence.cacheLimit);
    const hit: { node: CacheNode; length: number } = this.cache.hold(sequence.tokens, most, sequence.salt);
    if (!fits(this.#pages(sequence.tokens.length) - hit.length)) {
      this.cache.release(hit.node);
      return false;
    }
    sequence.node = hit.node;
    sequence.sharedTokens = hit.length;
    return true;
  }

  /** Makes room for the KV of the first `length` tokens; false when there is none, unless it may overdraw. */
  reserve(sequence: EngineSequence, length: number, overdraw: boolean): boolean {
    const more = this.#pages(length) - sequence.sharedTokens - sequence.privateTokens;
    if (more <= 0) return true;
    const free = this.#tokens - this.cache.tokens - this.#privateTokens;
    if (free < more) this.cache.evict(more - free);
    const fits = this.#tokens - this.cache.tokens - this.#privateTokens >= more;
    if (!fits && !overdraw) return false;
    sequence.privateTokens += more;
    this.#privateTokens += more;
    return true;
  }

  /** Moves whole pages of the first `length` tokens from the sequence's own memory into the tree. */
  publish(sequence: EngineSequence, length: number): void {
    const to = length - length % this.cache.pageSize;
    if (sequence.node === undefined || !sequence.inserts || to <= sequence.sharedTokens) return;
    const moved = to - sequence.sharedTokens;
    sequence.node = this.cache.extend(sequence.node, sequence.tokens, sequence.sharedTokens, to);
    sequence.sharedTokens = to;
    sequence.privateTokens -= moved;
    this.#privateTokens -= moved;
  }

  /** Takes back all that a sequence holds; its prefix stays cached until it is evicted. */
  free(sequence: EngineSequence): void {
    this.#privateTokens -= sequence.privateTokens;
    sequence.privateTokens = 0;
    sequence.sharedTokens = 0;
    if (sequence.node !== undefined) this.cache.release(sequence.node);
    sequence.node = undefined;
  }

  #pages(tokens: number): number {
    return Math.ceil(tokens / this.cache.pageSize) * this.cache.pageSize;
  }
}
