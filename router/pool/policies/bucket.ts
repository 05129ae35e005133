import type { Random } from "../../../base/random.ts";
import { type Candidate, idlestOf, type Policy, type PolicyRequest, type WorkerChoice } from "./policy.ts";

/** Classes of length: this many for each doubling, from 1 byte to 2^32. */
const CLASSES_PER_DOUBLING = 4;
const CLASSES = 32 * CLASSES_PER_DOUBLING;
/** A class that would fill less than this of a worker stays away from it. */
const LEAST_PART = 0.1;
/** Requests after which what was seen counts half. */
const HALF_LIFE = 1_024;
/** In flight at a worker over the mean, beyond which lengths are forgotten and the idlest one is taken. */
const MAX_LOAD = { times: 1.5, more: 4 };

/**
 * Short prompts to some workers and long ones to others, so that no short one is read behind a long one: the borders
 * follow the lengths of late, so that each worker gets as many bytes to read as any other.
 */
export class Bucket implements Policy {
  readonly #random: Random;
  /** Bytes of prompts of each class; older ones count less. */
  readonly #bytes = new Float64Array(CLASSES);
  #total = 0;
  #requests = 0;

  /** Decides between workers that have equally much to do. */
  constructor(random: Random) {
    this.#random = random;
  }

  choose<C extends Candidate>({ candidates, usable }: WorkerChoice<C>, { prompt }: PolicyRequest): C {
    const bytes = prompt?.bytes ?? 0;
    if (bytes === 0) return this.#random.pick(idlestOf(candidates));
    const [from, to] = this.#place(bytes);
    let inFlight = 1;
    for (const candidate of usable) inFlight += candidate.inFlight;
    const mean = inFlight / usable.length;
    const most = Math.max(MAX_LOAD.times * mean, mean + MAX_LOAD.more);
    const first = Math.floor(from * usable.length + LEAST_PART);
    const last = Math.max(first + 1, Math.ceil(to * usable.length - LEAST_PART));
    const own = usable.slice(first, last).filter((candidate) =>
      candidate.inFlight < most && candidates.includes(candidate)
    );
    return this.#random.pick(idlestOf(own.length === 0 ? candidates : own));
  }

  /** The shares, 0 to 1, of all bytes that lie in shorter classes, and in those and its own. */
  #place(bytes: number): readonly [number, number] {
    if (++this.#requests % HALF_LIFE === 0) {
      this.#total /= 2;
      for (let i = 0; i < CLASSES; i++) this.#bytes[i]! /= 2;
    }
    const own = Math.min(CLASSES - 1, Math.floor(Math.log2(bytes) * CLASSES_PER_DOUBLING));
    this.#bytes[own]! += bytes;
    this.#total += bytes;
    let shorter = 0;
    for (let i = 0; i < own; i++) shorter += this.#bytes[i]!;
    return [shorter / this.#total, (shorter + this.#bytes[own]!) / this.#total];
  }
}
