import { VirtualClock } from "../../base/clock.ts";
import { Random } from "../../base/random.ts";
import type { Spans } from "../../router/tracing/spans.ts";
import type { OutgoingRequest } from "../../base/transport.ts";
import { type Config, configSchema, type GraphConfig } from "../../cfgs/schema/config.ts";
import type { EarlyExitServices } from "../../router/moa/exit/exit_policies.ts";
import { createRouter, type Router } from "../../router/router.ts";
import { type MemoryHandler, MemoryTransport } from "../../router/transport/memory.ts";
import { PdFabric } from "../../simulator/pd/fabric.ts";
import type { PdOptions, Simulator, SimulatorOptions } from "../../simulator/server/simulator_options.ts";
import { builtinTokenizer } from "../../simulator/server/backend.ts";
import { createSimulator } from "../../simulator/simulator.ts";
import type { ScriptedAnswers } from "../../simulator/text/scripted.ts";
import { BUILTIN_TOKENIZER } from "../../simulator/text/tokenizer.ts";

/** A simulated worker of the model `model`. */
export interface SimulatedWorker {
  readonly model: string;
  readonly url: string;
  /** The process that answers now. */
  simulator: Simulator;
  /** Those before a restart. */
  readonly retired: Simulator[];
  /** Starts a new process in place of the old one, with the same options but for what is given. */
  readonly restart: (change?: ProcessChange) => void;
  /** Which half of a pair it is. */
  readonly role?: "prefill" | "decode";
}

/** What another process at the same address may have of its own. */
export interface ProcessChange {
  readonly version?: string | undefined;
  /** The name of the model that it serves. */
  readonly model?: string | undefined;
}

/** A whole router before simulated engines, in one process, without sockets and without waiting. */
export interface World {
  readonly clock: VirtualClock;
  readonly random: Random;
  readonly transport: MemoryTransport;
  readonly workers: readonly SimulatedWorker[];
  /** Where the halves of pairs meet. */
  readonly fabric: PdFabric;
  readonly config: Config;
  router(): Router;
}

/** The three model sizes, each by the protocol under which it is served here. */
export const sizes = [
  { name: "4b", engine: "vllm", version: "0.32.0" },
  { name: "8b", engine: "sglang", version: "0.5.23" },
  { name: "32b", engine: "sglang", version: "0.5.18" },
] as const;

type Size = (typeof sizes)[number]["name"];

/** Pairs of prefill and decode servers instead of plain workers. */
export interface WorldPairs {
  /** SGLang pairs (the default), or vLLM pairs with NIXL. */
  readonly engine?: "sglang-pd" | "vllm-pd";
  /** Version of the n-th pair's halves; the last one goes for all further pairs. */
  readonly versions?: readonly string[];
  /** Time-outs, memory and transfers. */
  readonly options?: Partial<Omit<PdOptions, "role" | "fabric" | "bootstrapHost" | "bootstrapPort">>;
}

/**
 * Makes a world: `replicas` workers of each size, or with `pairs` so many pairs. The same options give the same
 * world.
 */
export function makeWorld(options: {
  seed: string;
  replicas: number;
  graphs: Record<string, unknown>;
  prompts?: Record<string, unknown>;
  cost?: SimulatorOptions["cost"];
  server?: Record<string, unknown>;
  model?: Record<string, unknown>;
  /** Settings of single models. */
  models?: Readonly<Partial<Record<Size, Readonly<Record<string, unknown>>>>>;
  pairs?: WorldPairs;
  /** What the servers say their tokenizer is from. */
  tokenizerPath?: string | undefined;
  /** Longest prompt plus answer of the servers. */
  contextTokens?: number;
  /** Answers of the models of a size; random words by default. */
  answersOf?: (size: Size) => ScriptedAnswers;
  earlyExit?: (clock: VirtualClock) => EarlyExitServices;
  spans?: (clock: VirtualClock) => Spans;
  /** Answers some requests in place of the worker that they go to. */
  intercept?: (request: OutgoingRequest, clock: VirtualClock) => MemoryHandler | undefined;
}): World {
  const clock = new VirtualClock();
  const random = new Random(options.seed);
  const fabric = new PdFabric();
  const simulator = (
    more: Pick<SimulatorOptions, "engine" | "version" | "pd">,
    name: Size,
    change: ProcessChange = {},
  ) =>
    createSimulator({
      ...more,
      version: change.version ?? more.version,
      models: [change.model ?? `sim-${name}`],
      cost: options.cost ?? name,
      tokenizerPath: options.tokenizerPath,
      ...(options.contextTokens === undefined ? {} : { contextTokens: options.contextTokens }),
      clock,
      seed: options.seed,
      answers: options.answersOf?.(name),
    });
  const worker = (
    model: string,
    url: string,
    start: (change?: ProcessChange) => Simulator,
    role?: "prefill" | "decode",
  ): SimulatedWorker => {
    const self: SimulatedWorker = {
      model,
      url,
      simulator: start(),
      retired: [],
      restart(change) {
        self.simulator.crash();
        self.retired.push(self.simulator);
        self.simulator = start(change);
      },
      ...(role === undefined ? {} : { role }),
    };
    return self;
  };
  const half = (role: "prefill" | "decode", name: Size, index: number): SimulatedWorker => {
    const { engine = "sglang-pd", options: more = {} } = options.pairs ?? {};
    const newest = engine === "sglang-pd" ? "0.5.23" : "0.32.0";
    const versions = options.pairs?.versions ?? [newest];
    const host = `${name}-${role}-${index}.sim`;
    const pd = { ...more, role, fabric, bootstrapHost: host };
    const version = versions[index] ?? versions.at(-1) ?? newest;
    const kind = engine === "sglang-pd" ? "sglang" : "vllm";
    return worker(
      name,
      `http://${host}`,
      (change) => simulator({ engine: kind, version, pd }, name, change),
      role,
    );
  };
  const workers = sizes.flatMap(({ name, engine, version }) =>
    Array.from(
      { length: options.replicas },
      (_, index): SimulatedWorker[] =>
        options.pairs === undefined
          ? [worker(name, `http://${name}-${index}.sim`, (change) =>
            simulator({ engine, version }, name, change))]
          : [half("prefill", name, index), half("decode", name, index)],
    ).flat()
  );
  const byHost = new Map(workers.map((worker) => [new URL(worker.url).hostname, worker]));
  const transport = new MemoryTransport((request) => {
    // A bootstrap registry is another port of its server.
    const found = byHost.get(new URL(request.url).hostname);
    const instead = options.intercept?.(request, clock);
    if (instead !== undefined) return instead;
    return found === undefined ? undefined : (outgoing, signal) => found.simulator.handle(outgoing, signal);
  });
  const config = configSchema.parse({
    server: { max_running: 4096, max_queued: 4096, ...options.server },
    models: Object.fromEntries(sizes.map(({ name, engine }) => [name, {
      model: `sim-${name}`,
      engine: options.pairs === undefined ? engine : options.pairs.engine ?? "sglang-pd",
      workers: addresses(workers.filter((worker) => worker.model === name)),
      max_in_flight: 100_000,
      ...options.model,
      ...options.models?.[name],
    }])),
    prompts: options.prompts,
    graphs: options.graphs,
  });
  return {
    clock,
    random,
    transport,
    workers,
    fabric,
    config,
    router: () =>
      createRouter({
        config,
        clock,
        random: random.stream("router"),
        transport,
        // Files take real time, of which a virtual clock knows nothing.
        loadTokenizer: (source) =>
          source === BUILTIN_TOKENIZER
            ? Promise.resolve(builtinTokenizer())
            : Promise.reject(new Error("there are no files here")),
        ...(options.earlyExit === undefined ? {} : { earlyExit: options.earlyExit(clock) }),
        spans: options.spans?.(clock),
      }),
  };
}

/** Workers as the configuration has them: URLs, or pairs. */
function addresses(workers: readonly SimulatedWorker[]): unknown[] {
  if (workers.every(({ role }) => role === undefined)) return workers.map(({ url }) => url);
  const decodes = workers.filter(({ role }) => role === "decode");
  return workers.filter(({ role }) => role === "prefill").map(({ url }, i) => ({
    prefill: url,
    bootstrap_port: 8998,
    decode: decodes[i]?.url,
  }));
}

/** The tree 9-3-1 over the three sizes. */
export function tree931(maxTokens: number): GraphConfig {
  const agents = sizes.map(({ name }) => ({ model: name }));
  return configSchema.shape.graphs.unwrap().parse({
    moa: {
      sampling: { max_tokens: maxTokens },
      layers: [{ clusters: 3, agents }, { agents }, { agents: [{ model: "32b" }] }],
    },
  })["moa"] as GraphConfig;
}

/** Sums of what all workers counted. */
export function engineTotals(workers: readonly SimulatedWorker[]) {
  const totals = { requests: 0, promptTokens: 0, generationTokens: 0, running: 0, aborted: 0 };
  for (const worker of workers) {
    for (const { stats } of [worker.simulator, ...worker.retired]) {
      totals.requests += stats.requests;
      totals.promptTokens += stats.promptTokens;
      totals.generationTokens += stats.generationTokens;
      totals.aborted += stats.aborted;
    }
    totals.running += worker.simulator.running;
  }
  return totals;
}
