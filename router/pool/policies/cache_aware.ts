import type { CacheReport, Candidate, Policy, PolicyRequest, WorkerChoice } from "./policy.ts";
import { type PrefixHome, PrefixHomes } from "./prefix_homes.ts";
import { RecentRequests } from "./recent_requests.ts";
import { highestRanked } from "./rendezvous.ts";
import type { PromptPrefix } from "../prompt_prefix.ts";

/** Prefixes that are remembered for sure, and as many again for a while; some 4 MB. */
const MAX_PREFIXES = 16_384;
/** Requests for each worker after which what was seen counts half. */
const HALF_LIFE = 256;
/** A prefix with so many requests of late, and more than this share of one worker's work, is everybody's. */
const POPULAR = { requests: 32, share: 0.5 };
/** A new prefix counts as so many requests at once: others will follow. */
const NEW_PREFIX_REQUESTS = 4;
/** A prefix that its home had lost makes that cache count as fuller by so many requests. */
const LOST_PREFIX_REQUESTS = 2;
/** A prompt was not in the cache when less than this share of its tokens was found there. */
const LOST_SHARE = 0.125;
/** Bounds on a worker's requests of late over the mean: with less it gets new prefixes, with more it loses some. */
const RECENT = { gets: 1.05, loses: 1.2, leastMean: 64 };
/** So many requests for each worker are between two prefixes that move. */
const MOVE_EVERY = 4;
/** Bound on the requests in flight at a worker over the mean; not to read so many bytes again is worth one more. */
const IN_FLIGHT = { times: 1.25, bytesForOne: 1_024, mostBytes: 65_536 };

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
  #sinceMove = 0;

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
    const workers = choice.usable.length;
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

  /** A cache that loses prefixes which come again is too full: some of them will move elsewhere. */
  reported(ordinal: number, { prompt }: PolicyRequest, { promptTokens, cachedTokens }: CacheReport): void {
    if (prompt === undefined || cachedTokens >= LOST_SHARE * promptTokens) return;
    const home = this.#prefixOf(prompt, 1, 0)?.home;
    if (home === undefined || home.ordinal !== ordinal || home.requests < 2 * NEW_PREFIX_REQUESTS) return;
    this.#recent.add(ordinal, LOST_PREFIX_REQUESTS);
  }

  /** The first piece that is new or not everybody's, with all before it; undefined when the prompt ends before that. */
  #prefixOf(prompt: PromptPrefix, workers: number, requests: 0 | 1): KnownPrefix | undefined {
    const popular = Math.max(POPULAR.requests, POPULAR.share * this.#recent.all / workers);
    for (let piece = 0;; piece++) {
      const hash = prompt.piece(piece);
      if (hash === undefined) return undefined;
      const home = this.#homes.find(hash, this.#recent.age);
      if (home === undefined) return { hash, home };
      home.requests += requests;
      if (home.requests < popular) return { hash, home };
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
    const at = home && usable.find(({ ordinal }) => ordinal === home.ordinal);
    if (home === undefined || at === undefined) return this.#settle(choice, request, hash, mean);
    const target = this.#targetOf(candidates, hash, home, mean);
    if (target !== undefined) {
      this.#sinceMove = 0;
      this.#recent.add(home.ordinal, -home.requests);
      this.#recent.add(target.ordinal, home.requests - 1);
      home.ordinal = target.ordinal;
      return target;
    }
    const most = mostInFlight(mean) + Math.min(bytes, IN_FLIGHT.mostBytes) / IN_FLIGHT.bytesForOne;
    if (at.inFlight < most && candidates.includes(at)) return at;
    return highestRanked(candidates, hash, ({ inFlight }) => inFlight < most) ??
      this.#unkeyed.choose(choice, request);
  }

  /** Gives a prefix its home: a new one, or one whose worker has gone. */
  #settle<C extends Candidate>(choice: WorkerChoice<C>, request: PolicyRequest, hash: number, mean: Mean): C {
    const most = mostInFlight(mean);
    const fits = (candidate: C) => candidate.inFlight < most;
    const chosen = highestRanked(
      choice.candidates,
      hash,
      (candidate) => fits(candidate) && this.#recent.of(candidate.ordinal) <= RECENT.gets * mean.recent,
    ) ?? highestRanked(choice.candidates, hash, fits) ?? this.#unkeyed.choose(choice, request);
    this.#recent.add(chosen.ordinal, NEW_PREFIX_REQUESTS);
    const requests = NEW_PREFIX_REQUESTS + 1;
    this.#homes.add(hash, { ordinal: chosen.ordinal, requests, age: this.#recent.age });
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
        this.#recent.of(candidate.ordinal) + requests <= RECENT.gets * mean.recent,
    );
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
