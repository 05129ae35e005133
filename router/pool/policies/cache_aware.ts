import type { CacheReport } from "../../worker/placement.ts";
import type { Candidate, Policy, PolicyRequest, WorkerChoice } from "./policy.ts";
import { type PrefixHome, PrefixHomes } from "./prefix_homes.ts";
import { RecentRequests } from "./recent_requests.ts";
import { highestRanked } from "./rendezvous.ts";
import type { PromptPrefix } from "../prompt_prefix.ts";

/** Prefixes that are remembered for sure, and as many again for a while; some 4 MB. */
const MAX_PREFIXES = 16_384;
/** Requests for each worker after which what was seen counts half. */
const HALF_LIFE = 256;
/** A prefix with so many requests of late, and more than this share of one worker's work, is everybody's. */
const POPULAR = { requests: 12, share: 0.5 };
/** A new prefix counts as so many requests at once: others will follow. */
const NEW_PREFIX_REQUESTS = 4;
/** A prefix that its home had lost makes that cache count as fuller by so many requests. */
const LOST_PREFIX_REQUESTS = 2;
/** A prompt was not in the cache when less than this share of its tokens was found there. */
const LOST_SHARE = 0.125;
/** Bounds on a worker's requests of late over the mean: with less it gets new prefixes, with more it loses some. */
const RECENT = { gets: 1.25, loses: 1.15, lessens: 1.1, leastMean: 32 };
/** Reports that make up the usual share of a prompt that is cached. */
const SHARE_MEMORY = 16;
/** Requests that make up the share of prompts whose prefix comes again. */
const REPEATS_MEMORY = 64;
/** So many requests for each worker are between two prefixes that move. */
const MOVE_EVERY = 4;
/**
 * Bound on the requests in flight at a worker over the mean; not to read so many tokens again is worth one more, up to
 * a number of them.
 */
const IN_FLIGHT = { times: 1.25, ofNew: 4, tokensForOne: 256, bytesOfToken: 4, mostWorth: 64 };

/** A prompt's prefix, and where it is if that is known. */
interface KnownPrefix {
  readonly hash: number;
  readonly home: PrefixHome | undefined;
}

/** The mean worker, this request included. */
interface Mean {
  readonly inFlight: number;
  readonly recent: number;
}

/**
 * Prompts that begin alike go to one worker, whose cache has their beginning, within two bounds: on the requests in
 * flight there, and on its share of the requests of late. A new prefix goes to the worker that ranks highest for its
 * hash of those within the bounds (rendezvous hashing with bounded loads, after Mirrokni, Thorup and Zadimoghaddam
 * 2018), so that routers and threads agree without telling each other.
 *
 * A prefix is the shortest beginning that is not everybody's: a system prompt that half of one worker's work begins
 * with is in all caches anyhow, and what follows it decides. So memory holds one piece for each prompt, not all of
 * its pieces, and a prompt is hashed no further than that.
 */
export class CacheAware implements Policy {
  readonly #unkeyed: Policy;
  readonly #homes: PrefixHomes;
  readonly #recent = new RecentRequests(HALF_LIFE);
  /** Share of a prompt that a home's cache has, on the whole of late; all of it while no engine says. */
  #usualShare = 1;
  /** Share of the prompts of late whose prefix was known: where none comes again, new ones only have to spread. */
  #repeats = 1;
  #sinceMove = 0;
  #workers = 1;

  /** `unkeyed`: where prompts go that have no prefix of their own. */
  constructor(unkeyed: Policy, capacity = MAX_PREFIXES) {
    this.#unkeyed = unkeyed;
    this.#homes = new PrefixHomes(capacity);
  }

  /** Prefixes that are remembered. */
  get size(): number {
    return this.#homes.size;
  }

  choose<C extends Candidate>(choice: WorkerChoice<C>, request: PolicyRequest): C {
    const workers = this.#workers = choice.usable.length;
    this.#recent.count(workers);
    this.#sinceMove++;
    const { prompt } = request;
    const prefix = prompt && this.#prefixOf(prompt, workers, 1);
    const chosen = prompt === undefined || prefix === undefined
      ? this.#unkeyed.choose(choice, request)
      : this.#place(choice, request, prefix, prompt.bytes);
    this.#recent.add(chosen.ordinal, 1);
    return chosen;
  }

  /** Learns what a home is worth. A cache that loses prefixes which come again is too full: some will move elsewhere. */
  promptRead(ordinal: number, { prompt }: PolicyRequest, found: CacheReport | undefined): void {
    const home = prompt && this.#prefixOf(prompt, this.#workers, 0)?.home;
    if (home === undefined || home.ordinal !== ordinal) return;
    const wasRead = home.read;
    home.read = true;
    if (found === undefined || !wasRead) return;
    const { promptTokens, cachedTokens } = found;
    if (cachedTokens < LOST_SHARE * promptTokens) {
      // It has just been read again: what it is worth to wait for it is as before.
      return this.#recent.add(ordinal, LOST_PREFIX_REQUESTS);
    }
    home.cachedTokens = ((home.cachedTokens ?? cachedTokens) + cachedTokens) / 2;
    this.#usualShare += (cachedTokens / Math.max(1, promptTokens) - this.#usualShare) / SHARE_MEMORY;
  }

  /** The first piece that is new or not everybody's, with all before it; undefined when the prompt ends before that. */
  #prefixOf(prompt: PromptPrefix, workers: number, requests: 0 | 1): KnownPrefix | undefined {
    for (let piece = 0;; piece++) {
      const hash = prompt.piece(piece);
      if (hash === undefined) return undefined;
      const home = this.#homes.find(hash, this.#recent.age);
      if (home === undefined) return { hash, home };
      home.requests += requests;
      const since = Math.min(this.#recent.all, this.#recent.ever - home.bornAt);
      if (home.requests < Math.max(POPULAR.requests, POPULAR.share * since / workers)) return { hash, home };
    }
  }

  #place<C extends Candidate>(
    choice: WorkerChoice<C>,
    request: PolicyRequest,
    { hash, home }: KnownPrefix,
    bytes: number,
  ): C {
    const { candidates, usable } = choice;
    const mean = this.#meanOf(usable);
    this.#repeats += ((home === undefined ? 0 : 1) - this.#repeats) / REPEATS_MEMORY;
    const at = home && usable.find(({ ordinal }) => ordinal === home.ordinal);
    if (home === undefined || at === undefined) return this.#settle(choice, request, hash, mean);
    const target = this.#targetOf(candidates, hash, home, mean);
    if (target !== undefined) {
      this.#sinceMove = 0;
      this.#recent.add(home.ordinal, -home.requests);
      this.#recent.add(target.ordinal, home.requests - 1);
      Object.assign(home, { ordinal: target.ordinal, read: false, cachedTokens: undefined });
      return target;
    }
    const most = mostInFlight(mean) + this.#worthOf(home, bytes);
    if (at.inFlight < most && candidates.includes(at)) return at;
    return highestRanked(candidates, hash, ({ inFlight }) => inFlight < most) ??
      this.#unkeyed.choose(choice, request);
  }

  /** Gives a prefix its home: a new one, or one whose worker has gone. */
  #settle<C extends Candidate>(choice: WorkerChoice<C>, request: PolicyRequest, hash: number, mean: Mean): C {
    const most = mean.inFlight + this.#repeats * (mostInFlight(mean) - mean.inFlight + IN_FLIGHT.ofNew);
    const fits = (candidate: C) => candidate.inFlight < most;
    const chosen = highestRanked(
      choice.candidates,
      hash,
      (candidate) => fits(candidate) && this.#recent.of(candidate.ordinal) <= RECENT.gets * mean.recent,
    ) ?? highestRanked(choice.candidates, hash, fits) ?? this.#unkeyed.choose(choice, request);
    this.#recent.add(chosen.ordinal, NEW_PREFIX_REQUESTS);
    const requests = NEW_PREFIX_REQUESTS + 1;
    const { ordinal } = chosen;
    const { age, ever: bornAt } = this.#recent;
    this.#homes.add(hash, { ordinal, requests, age, bornAt, read: false, cachedTokens: undefined });
    return chosen;
  }

  /** The worker that a prefix moves to because its home has too many; undefined when it stays. */
  #targetOf<C extends Candidate>(
    candidates: readonly C[],
    hash: number,
    { ordinal, requests }: PrefixHome,
    mean: Mean,
  ): C | undefined {
    if (mean.recent < RECENT.leastMean || this.#sinceMove < MOVE_EVERY * candidates.length) return undefined;
    if (this.#recent.of(ordinal) <= RECENT.loses * mean.recent) return undefined;
    const most = mostInFlight(mean);
    return highestRanked(
      candidates,
      hash,
      (candidate) =>
        candidate.ordinal !== ordinal && candidate.inFlight < most &&
        this.#recent.of(candidate.ordinal) + requests <= RECENT.lessens * mean.recent,
    );
  }

  /** Requests that may be in flight at a prefix's home over the bound, rather than that another worker reads it. */
  #worthOf({ cachedTokens }: PrefixHome, bytes: number): number {
    const tokens = cachedTokens ?? this.#usualShare * bytes / IN_FLIGHT.bytesOfToken;
    return Math.min(IN_FLIGHT.mostWorth, tokens / IN_FLIGHT.tokensForOne);
  }

  #meanOf(usable: readonly Candidate[]): Mean {
    let inFlight = 1;
    let recent = 1;
    for (const candidate of usable) {
      inFlight += candidate.inFlight;
      recent += this.#recent.of(candidate.ordinal);
    }
    return { inFlight: inFlight / usable.length, recent: recent / usable.length };
  }
}

/** In flight at a worker that takes more: below this. */
function mostInFlight(mean: Mean): number {
  return IN_FLIGHT.times * mean.inFlight;
}
