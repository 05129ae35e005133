import { VirtualClock } from "../../base/clock.ts";
import { Random } from "../../base/random.ts";
import { createSimulator } from "../../bench/simulator/simulator.ts";
import type { Simulator, SimulatorOptions } from "../../bench/simulator/simulator_types.ts";
import { type Config, configSchema, type GraphConfig } from "../../cfgs/schema.ts";
import { createRouter, type Router } from "../../router/router.ts";
import { MemoryTransport } from "../../router/transport/memory.ts";

/** A simulated worker of the model `model`. */
export interface SimulatedWorker {
  readonly model: string;
  readonly url: string;
  readonly simulator: Simulator;
}

/** A whole router before simulated engines, in one process, without sockets and without waiting. */
export interface World {
  readonly clock: VirtualClock;
  readonly random: Random;
  readonly transport: MemoryTransport;
  readonly workers: readonly SimulatedWorker[];
  readonly config: Config;
  router(): Promise<Router>;
}

/** The three model sizes, each by the protocol under which it is served here. */
export const sizes = [
  { name: "4b", engine: "vllm", version: "0.32.0" },
  { name: "8b", engine: "sglang", version: "0.5.23" },
  { name: "32b", engine: "sglang", version: "0.5.18" },
] as const;

/** Makes a world: `replicas` workers of each size. The same options give the same world. */
export function makeWorld(options: {
  seed: string;
  replicas: number;
  graphs: Record<string, unknown>;
  cost?: SimulatorOptions["cost"];
  server?: Record<string, unknown>;
  model?: Record<string, unknown>;
}): World {
  const clock = new VirtualClock();
  const random = new Random(options.seed);
  const workers = sizes.flatMap(({ name, engine, version }) =>
    Array.from({ length: options.replicas }, (_, index): SimulatedWorker => ({
      model: name,
      url: `http://${name}-${index}.sim`,
      simulator: createSimulator({
        engine,
        version,
        models: [`sim-${name}`],
        cost: options.cost ?? name,
        clock,
        seed: options.seed,
      }),
    }))
  );
  const byHost = new Map(workers.map((worker) => [new URL(worker.url).host, worker.simulator]));
  const transport = new MemoryTransport((request) => {
    const simulator = byHost.get(new URL(request.url).host);
    return simulator === undefined ? undefined : (outgoing, signal) => simulator.handle(outgoing, signal);
  });
  const config = configSchema.parse({
    server: { max_running: 4096, max_queued: 4096, ...options.server },
    models: Object.fromEntries(sizes.map(({ name, engine }) => [name, {
      model: `sim-${name}`,
      engine,
      workers: workers.filter((worker) => worker.model === name).map((worker) => worker.url),
      max_in_flight: 100_000,
      ...options.model,
    }])),
    graphs: options.graphs,
  });
  return {
    clock,
    random,
    transport,
    workers,
    config,
    router: () => createRouter({ config, clock, random: random.stream("router"), transport }),
  };
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
  for (const { simulator } of workers) {
    totals.requests += simulator.stats.requests;
    totals.promptTokens += simulator.stats.promptTokens;
    totals.generationTokens += simulator.stats.generationTokens;
    totals.aborted += simulator.stats.aborted;
    totals.running += simulator.running;
  }
  return totals;
}
