import { fnv1a } from "../../base/random.ts";
import type { Speech } from "./tokenizer.ts";

/** A token with its log-probability. */
export interface ScoredToken {
  readonly id: number;
  readonly logprob: number;
}

/** Source of the tokens of one answer. */
export interface TokenSource {
  /** The next token; it counts as taken. `mayEnd` false: not an end token. */
  next(mayEnd: boolean): number;
  /** Goes on behind a token that something else chose; it counts as taken. */
  accept(id: number): void;
  /** Log-probability of the token that `next` returned last. */
  logprob(): number;
  /** The `count` most likely tokens at the last position, the chosen one first. */
  top(count: number): ScoredToken[];
}

/**
 * The next token is a hash of all tokens before it, of the model's name and of the request's seed: a prompt gives the
 * same answer however it is asked, and an answer cut anywhere goes on as it would have.
 */
export class HashedSource implements TokenSource {
  readonly #speech: Speech;
  #state: number;
  #last: number;
  #drawn = 0;
  #drawnFrom = 0;
  /** Exponent on the probability of the chosen tokens: below 1 for an answer that the model is sure of. */
  doubt = 1;

  constructor(speech: Speech, prompt: readonly number[], model: string, seed: number | undefined) {
    this.#speech = speech;
    let state = fnv1a(seed === undefined ? model : `${model}#${seed}`) | 0;
    for (let i = 0; i < prompt.length; i++) state = absorb(state, prompt[i]!);
    this.#state = state;
    this.#last = prompt[prompt.length - 1] ?? -1;
  }

  next(mayEnd: boolean): number {
    const id = this.#draw(mayEnd);
    this.accept(id);
    return id;
  }

  accept(id: number): void {
    this.#drawn = id;
    this.#drawnFrom = this.#state;
    this.#state = absorb(this.#state, id);
    this.#last = id;
  }

  logprob(): number {
    return Math.fround(this.doubt * Math.log(chosenProbability(this.#drawnFrom)));
  }

  top(count: number): ScoredToken[] {
    const probability = Math.pow(chosenProbability(this.#drawnFrom), this.doubt);
    const tokens: ScoredToken[] = [{ id: this.#drawn, logprob: this.logprob() }];
    const words = this.#speech.wordIds;
    let at = mix(this.#drawnFrom ^ 0x2545f491) % words.length;
    let share = 1 - probability;
    for (let tries = 0; tokens.length < count && tries < words.length; tries++) {
      const id = words[at]!;
      at = (at + 1) % words.length;
      if (id === this.#drawn) continue;
      share *= 0.5;
      tokens.push({ id, logprob: Math.fround(Math.log(share)) });
    }
    return tokens;
  }

  #draw(mayEnd: boolean): number {
    const speech = this.#speech;
    const following = speech.nextOfCharacter.get(this.#last);
    if (following !== undefined) return following;
    const bits = mix(this.#state);
    if (mayEnd && this.#last === speech.sentenceEndId && (bits & 3) === 0) return speech.endId;
    const kind = (bits >>> 2) & 1023;
    const pick = bits >>> 12;
    const punctuated = this.#last === speech.sentenceEndId || speech.punctuationIds.includes(this.#last);
    if (!punctuated) {
      if (kind < 20) return speech.sentenceEndId;
      if (kind < 90) return speech.punctuationIds[pick % speech.punctuationIds.length]!;
      if (kind < 96 && speech.characterIds.length > 0) {
        return speech.characterIds[pick % speech.characterIds.length]!;
      }
    }
    return speech.wordIds[pick % speech.wordIds.length]!;
  }
}

/** Says given tokens, then ends (or goes on hashed where it must not end). */
export class FixedSource implements TokenSource {
  readonly #ids: readonly number[];
  readonly #endId: number;
  readonly #hashed: HashedSource;
  #at = 0;

  constructor(ids: readonly number[], endId: number, hashed: HashedSource) {
    this.#ids = ids;
    this.#endId = endId;
    this.#hashed = hashed;
  }

  next(mayEnd: boolean): number {
    const fixed = this.#at < this.#ids.length
      ? this.#ids[this.#at]!
      : this.#at === this.#ids.length && mayEnd
      ? this.#endId
      : undefined;
    this.#at++;
    if (fixed === undefined) return this.#hashed.next(mayEnd);
    this.#hashed.accept(fixed);
    return fixed;
  }

  accept(id: number): void {
    this.#at++;
    this.#hashed.accept(id);
  }

  logprob(): number {
    return this.#hashed.logprob();
  }

  top(count: number): ScoredToken[] {
    return this.#hashed.top(count);
  }
}

/** Says one token for ever: what a large `logit_bias` does. */
export class BiasedSource implements TokenSource {
  readonly #id: number;
  readonly #hashed: HashedSource;

  constructor(id: number, hashed: HashedSource) {
    this.#id = id;
    this.#hashed = hashed;
  }

  next(): number {
    this.#hashed.accept(this.#id);
    return this.#id;
  }

  accept(id: number): void {
    this.#hashed.accept(id);
  }

  logprob(): number {
    return this.#hashed.logprob();
  }

  top(count: number): ScoredToken[] {
    return this.#hashed.top(count);
  }
}

/**
 * Log-probabilities of the prompt's tokens, from `start`, each with `count` alternatives; the very first is null.
 * Made up: between -12 and -2 for the token itself, the alternatives more likely.
 */
export function promptLogprobs(
  speech: Speech,
  prompt: readonly number[],
  start: number,
  count: number,
): { id: number; logprob: number | null; top: ScoredToken[] | null }[] {
  let state = 0;
  const scored: { id: number; logprob: number | null; top: ScoredToken[] | null }[] = [];
  for (let i = 0; i < prompt.length; i++) {
    const id = prompt[i]!;
    if (i >= start) {
      if (i === start) scored.push({ id, logprob: null, top: null });
      else {
        const logprob = Math.fround(-2 - 10 * fraction(mix(state)));
        const top: ScoredToken[] = [];
        for (let rank = 0; rank < count; rank++) {
          const at = (mix(state ^ 0x2545f491) + rank) % speech.wordIds.length;
          top.push({ id: speech.wordIds[at]!, logprob: Math.fround(-0.9 - 0.5 * rank) });
        }
        scored.push({ id, logprob, top });
      }
    }
    state = absorb(state, id);
  }
  return scored;
}

/** Between 0.4 and 1, mostly high: always the most likely of the alternatives that `top` makes up. */
function chosenProbability(state: number): number {
  const u = fraction(mix(state ^ 0x51ed270b));
  return 1 - 0.6 * u * u;
}

/** A number in (0, 1). */
function fraction(bits: number): number {
  return ((bits >>> 8) + 0.5) / 16777216;
}

function absorb(state: number, id: number): number {
  const mixed = Math.imul(state ^ id, 0x9e3779b1);
  return mixed ^ (mixed >>> 15);
}

/** The finaliser of MurmurHash3: an unsigned 32-bit number. */
function mix(state: number): number {
  let z = state ^ (state >>> 16);
  z = Math.imul(z, 0x85ebca6b);
  z ^= z >>> 13;
  z = Math.imul(z, 0xc2b2ae35);
  return (z ^ (z >>> 16)) >>> 0;
}
