import { VirtualClock } from "../../base/clock.ts";
import { Random } from "../../base/random.ts";
import { randomText } from "./workload.ts";
import { type Summary, summaryOf } from "../statistics/statistics.ts";
import { configSchema } from "../../cfgs/schema/config.ts";
import { createRouter } from "../../router/router.ts";
import { MemoryTransport } from "../../router/transport/memory.ts";
import { PdFabric } from "../../simulator/pd/fabric.ts";
import { builtinTokenizer } from "../../simulator/server/backend.ts";
import type { Simulator, SimulatorOptions } from "../../simulator/server/simulator_options.ts";
import { createSimulator } from "../../simulator/simulator.ts";

/** Prompts of a workload: a prefix that others share, and an end of their own; or nothing that is shared. */
export type PlacingPrompts = "prefixes" | "random";

/** Options of `measurePlacing`. */
export interface PlacingOptions {
  /** A policy of the configuration, for both halves of pairs. */
  readonly policy: string;
  /** Whole servers, or prefill and decode servers. */
  readonly servers: { readonly whole: number } | { readonly prefill: number; readonly decode: number };
  readonly prompts: PlacingPrompts;
  readonly requests: number;
  /** Clients that ask one request after the other. */
  readonly clients: number;
  /** Prefixes that fit into one server's cache beside the requests that run there. */
  readonly cachedPrefixes: number;
  /** Routers before the same servers, each of which gets every n-th request; 1 by default. */
  readonly routers?: number | undefined;
  readonly seed: string;
  /** What the model takes, but for the room of its caches; an 8b on an H200 by default. */
  readonly cost?: SimulatorOptions["cost"] | undefined;
}

/** The requests of a policy; durations in ms. */
export interface PlacingFigures {
  /** Requests whose shared prefix was found in the cache of the server that read them, 0 to 1. */
  readonly hits: number;
  /** Requests of each server that reads prompts. */
  readonly perServer: readonly number[];
  /** The most of these by the least. */
  readonly spread: number;
  readonly durationMs: Summary;
  /** Until the last request was answered. */
  readonly totalMs: number;
}

/** Prefixes that requests share, and their length: the workload by which routers were compared. */
export const PREFIXES = { count: 32, bytes: 8_192 } as const;
const TAIL_TOKENS = 40;
const ANSWER_TOKENS = 32;
const MODEL = "m";

/** One workload on one set of servers. */
export interface PlacingCase
  extends Pick<PlacingOptions, "servers" | "prompts" | "requests" | "cachedPrefixes"> {
  readonly name: string;
}

/** The cases by which policies are compared; two prefill servers hold 24 or 12 of the prefixes, of 16 for each. */
export const PLACING_CASES: readonly PlacingCase[] = [
  { name: "4 servers", servers: { whole: 4 }, prompts: "prefixes", requests: 1_600, cachedPrefixes: 12 },
  {
    name: "2P+2D",
    servers: { prefill: 2, decode: 2 },
    prompts: "prefixes",
    requests: 1_000,
    cachedPrefixes: 24,
  },
  {
    name: "2P+2D, small caches",
    servers: { prefill: 2, decode: 2 },
    prompts: "prefixes",
    requests: 1_000,
    cachedPrefixes: 12,
  },
  {
    name: "4 servers, random prompts",
    servers: { whole: 4 },
    prompts: "random",
    requests: 1_600,
    cachedPrefixes: 12,
  },
];

/** Figures of a policy in one of the cases. */
export interface PlacingResult {
  readonly name: string;
  readonly policy: string;
  readonly figures: PlacingFigures;
}

/** Every policy in every case. */
export async function comparePolicies(options: {
  readonly policies: readonly string[];
  readonly clients: number;
  readonly routers: number;
  /** Of the requests of each case, this share; all by default. */
  readonly share?: number | undefined;
  readonly seed: string;
  readonly cost?: PlacingOptions["cost"];
  readonly signal: AbortSignal;
  readonly onPart?: ((part: string) => void) | undefined;
}): Promise<PlacingResult[]> {
  const { policies, clients, routers, share = 1, seed, cost, signal, onPart } = options;
  const results: PlacingResult[] = [];
  for (const { name, ...known } of PLACING_CASES) {
    for (const policy of policies) {
      signal.throwIfAborted();
      onPart?.(`${name}: ${policy}`);
      const requests = Math.max(1, Math.round(known.requests * share));
      const figures = await measurePlacing({ ...known, requests, policy, clients, routers, seed, cost });
      results.push({ name, policy, figures });
    }
  }
  return results;
}

/** Asks simulated servers with prefix caches through routers of one policy, in virtual time. */
export async function measurePlacing(options: PlacingOptions): Promise<PlacingFigures> {
  const clock = new VirtualClock();
  const random = new Random(options.seed);
  const texts = promptsOf(options, random.stream("prompts"));
  const { servers, workers, readers, engine } = serversOf(options, clock, texts.prefixTokens);
  const transport = new MemoryTransport((request) => {
    const server = servers.get(new URL(request.url).hostname);
    return server === undefined ? undefined : (outgoing, signal) => server.handle(outgoing, signal);
  });
  const config = configSchema.parse({
    server: { max_running: 10_000, max_queued: 10_000 },
    models: {
      [MODEL]: { model: MODEL, engine, workers, policy: options.policy, health: { interval_ms: 3_600_000 } },
    },
  });
  return await clock.run(async () => {
    const routers = await Promise.all(
      Array.from({ length: options.routers ?? 1 }, (_, index) =>
        createRouter({
          config,
          clock,
          random: random.stream(`router/${index}`),
          transport,
          loadTokenizer: () => Promise.resolve(builtinTokenizer()),
        })),
    );
    for (const router of routers) await router.ready();
    const before = readers.map((server) => server.stats.requests);
    const startMs = clock.now();
    const durations: number[] = [];
    let hits = 0;
    let next = 0;
    const client = async () => {
      while (next < options.requests) {
        const at = next++;
        const router = routers[at % routers.length]!;
        const startedMs = clock.now();
        const answer = await router.app.request("/generate", {
          method: "POST",
          headers: { "content-type": "application/json" },
          body: texts.bodyOf(at),
        });
        const { meta_info: meta } = await answer.json() as { meta_info: { cached_tokens: number } };
        // A whole prefix, but for what the beginning of the next piece may have joined.
        if (meta.cached_tokens >= texts.prefixTokens * 0.9) hits++;
        durations.push(clock.now() - startedMs);
      }
    };
    await Promise.all(Array.from({ length: options.clients }, client));
    const totalMs = clock.now() - startMs;
    for (const router of routers) await router.close();
    const perServer = readers.map((server, index) => server.stats.requests - before[index]!);
    return {
      hits: hits / options.requests,
      perServer,
      spread: Math.max(...perServer) / Math.min(...perServer),
      durationMs: summaryOf(durations),
      totalMs,
    };
  });
}

interface Texts {
  readonly prefixTokens: number;
  bodyOf(request: number): string;
}

function promptsOf({ prompts, requests }: PlacingOptions, random: Random): Texts {
  const tokenizer = builtinTokenizer();
  const prefixes = Array.from({ length: PREFIXES.count }, () => {
    let text = "";
    while (text.length < PREFIXES.bytes) text += randomText(random, 64);
    return text.slice(0, PREFIXES.bytes);
  });
  const prefixTokens = Math.max(...prefixes.map((prefix) => tokenizer.encode(prefix).length));
  const texts = Array.from({ length: requests }, () => {
    if (prompts === "prefixes") return random.pick(prefixes) + randomText(random, TAIL_TOKENS);
    return randomText(random, 1 + random.int(2 * prefixTokens));
  });
  return {
    prefixTokens,
    bodyOf: (request) => {
      const sampling_params = { max_new_tokens: ANSWER_TOKENS, ignore_eos: true };
      return JSON.stringify({ model: MODEL, text: texts[request], sampling_params });
    },
  };
}

interface Servers {
  readonly servers: ReadonlyMap<string, Simulator>;
  readonly workers: readonly unknown[];
  /** Those that read prompts. */
  readonly readers: readonly Simulator[];
  readonly engine: "sglang" | "sglang-pd";
}

function serversOf(options: PlacingOptions, clock: VirtualClock, prefixTokens: number): Servers {
  const { servers: kinds, cachedPrefixes, clients, seed, cost = "8b" } = options;
  const running = clients * (TAIL_TOKENS + ANSWER_TOKENS);
  const kvTokens = Math.ceil(cachedPrefixes * prefixTokens + running);
  const simulator = (more: Pick<SimulatorOptions, "pd" | "kvTokens">) =>
    createSimulator({ engine: "sglang", models: [MODEL], cost, clock, seed, ...more });
  if ("whole" in kinds) {
    const all = Array.from(
      { length: kinds.whole },
      (_, i) => [`w${i}.sim`, simulator({ kvTokens })] as const,
    );
    return {
      servers: new Map(all),
      workers: all.map(([host]) => `http://${host}`),
      readers: all.map(([, server]) => server),
      engine: "sglang",
    };
  }
  const fabric = new PdFabric();
  const prefills = Array.from({ length: kinds.prefill }, (_, i) => {
    const host = `p${i}.sim`;
    return [host, simulator({ kvTokens, pd: { role: "prefill", fabric, bootstrapHost: host } })] as const;
  });
  const decodes = Array.from(
    { length: kinds.decode },
    (_, i) => [`d${i}.sim`, simulator({ pd: { role: "decode", fabric } })] as const,
  );
  const pairs = Array.from({ length: Math.max(prefills.length, decodes.length) }, (_, i) => ({
    prefill: `http://${prefills[i % prefills.length]![0]}`,
    bootstrap_port: 8998,
    decode: `http://${decodes[i % decodes.length]![0]}`,
  }));
  return {
    servers: new Map([...prefills, ...decodes]),
    workers: pairs,
    readers: prefills.map(([, server]) => server),
    engine: "sglang-pd",
  };
}
