import { Random } from "../../../../base/random.ts";
import type { Policy, PolicyRequest } from "../../../../router/pool/policies/policy.ts";
import type { PromptPrefix } from "../../../../router/pool/prompt_prefix.ts";
import { idleWorkers, type TestWorker } from "./choices.ts";

/** A request of a `CacheWorld`: what its worker has to have in its cache for a hit. */
export interface WorldRequest {
  readonly prefix: string;
  readonly prompt: PromptPrefix;
}

/** Outcome of a `CacheWorld`. */
export interface WorldFigures {
  /** Share of the requests whose prefix was cached where they went. */
  readonly hits: number;
  readonly perWorker: readonly number[];
  /** The most requests of a worker by the least. */
  readonly spread: number;
  /** Mean of the most in flight at one worker, over all requests. */
  readonly busiest: number;
}

/**
 * Workers with caches of prefixes (the least recently used one goes first), and clients that ask one request after the
 * other; requests end in random order. No time, no engine: what a policy does, in milliseconds.
 */
export function runCacheWorld(options: {
  /** Prefixes that fit into each worker's cache. */
  readonly caches: readonly number[];
  /** Each gets every n-th request, and sees only what it has placed itself. */
  readonly routers: readonly Policy[];
  readonly requests: number;
  readonly clients: number;
  readonly seed: string;
  readonly request: (at: number, random: Random) => WorldRequest;
  /** False: engines do not say what they found. */
  readonly reports?: boolean;
}): WorldFigures {
  const random = new Random(options.seed);
  const caches = options.caches.map(() => new Map<string, true>());
  const views = options.routers.map(() => idleWorkers(options.caches.length));
  const perWorker = options.caches.map(() => 0);
  const running: (() => void)[] = [];
  let hits = 0;
  let busiest = 0;
  for (let at = 0; at < options.requests; at++) {
    if (running.length >= options.clients) {
      const last = running.pop()!;
      const which = random.int(running.length + 1);
      if (which === running.length) last();
      else {
        running[which]!();
        running[which] = last;
      }
    }
    const policy = options.routers[at % options.routers.length]!;
    const workers = views[at % options.routers.length]!;
    const { prefix, prompt } = options.request(at, random);
    const request: PolicyRequest = { prompt };
    const { ordinal } = policy.choose<TestWorker>({ candidates: workers, usable: workers }, request);
    const worker = workers[ordinal]!;
    const cache = caches[ordinal]!;
    const hit = cache.delete(prefix);
    cache.set(prefix, true);
    if (cache.size > options.caches[ordinal]!) cache.delete(cache.keys().next().value!);
    hits += hit ? 1 : 0;
    perWorker[ordinal]!++;
    worker.inFlight++;
    busiest += Math.max(...workers.map(({ inFlight }) => inFlight));
    const promptTokens = Math.ceil(prompt.bytes / 4);
    const cachedTokens = hit ? Math.floor(promptTokens * 0.95) : 0;
    running.push(() => {
      worker.inFlight--;
      policy.promptRead?.(
        ordinal,
        request,
        options.reports === false ? undefined : { promptTokens, cachedTokens },
      );
    });
  }
  return {
    hits: hits / options.requests,
    perWorker,
    spread: Math.max(...perWorker) / Math.min(...perWorker),
    busiest: busiest / options.requests,
  };
}
