/**
 * Shares out room in the model's cache, counted in tokens. Beyond it, one answer at a time may still be embedded: one
 * that is complete.
 */
export class CacheBudget {
  readonly #maxTokens: number;
  readonly #held = new Map<object, number>();
  #used = 0;
  #beyond: object | undefined;

  constructor(maxTokens: number) {
    this.#maxTokens = maxTokens;
  }

  /** Tokens that are held. */
  get used(): number {
    return this.#used;
  }

  /** Takes room for more tokens of `owner`; false, and nothing taken, when there is none. */
  take(owner: object, tokens: number): boolean {
    if (this.#used + tokens > this.#maxTokens) return false;
    this.#add(owner, tokens);
    return true;
  }

  /** The same for an answer that is complete and cannot be put off for ever. */
  takeForComplete(owner: object, tokens: number): boolean {
    if (this.take(owner, tokens)) return true;
    this.#beyond ??= owner;
    if (this.#beyond !== owner) return false;
    this.#add(owner, tokens);
    return true;
  }

  /** Gives back all that `owner` holds. */
  release(owner: object): void {
    this.#used -= this.#held.get(owner) ?? 0;
    this.#held.delete(owner);
    if (this.#beyond === owner) this.#beyond = undefined;
  }

  #add(owner: object, tokens: number): void {
    this.#held.set(owner, (this.#held.get(owner) ?? 0) + tokens);
    this.#used += tokens;
  }
}
