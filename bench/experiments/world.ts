import { VirtualClock } from "../../base/clock.ts";
import { Random } from "../../base/random.ts";
import { type Config, configSchema } from "../../cfgs/schema/config.ts";
import type { EarlyExitServices } from "../../router/moa/exit/exit_policies.ts";
import { createRouter, type Router } from "../../router/router.ts";
import { MemoryTransport } from "../../router/transport/memory.ts";
import { PdFabric } from "../../simulator/pd/fabric.ts";
import { builtinTokenizer } from "../../simulator/server/backend.ts";
import type { Simulator, SimulatorOptions } from "../../simulator/server/simulator_options.ts";
import { createSimulator } from "../../simulator/simulator.ts";
import type { ScriptedAnswers } from "../../simulator/text/scripted.ts";

/** The model sizes of the paper's tree, from the smallest to the largest. */
export const SIZES = ["4b", "8b", "32b"] as const;

/** GPUs of a model: one that does both, or one for prefill and one for decode. */
export type Serving = "sglang-pd" | "sglang" | "vllm";

/** Costs of models that do not take what their size takes on an H200. */
export type ModelCosts = Readonly<Partial<Record<(typeof SIZES)[number], SimulatorOptions["cost"]>>>;

/** Number of GPUs that serve the three models. */
export function gpusOf(serving: Serving): number {
  return SIZES.length * (serving === "sglang-pd" ? 2 : 1);
}

/** A model of a world. */
export interface WorldModel {
  /** Its key in the configuration. */
  readonly name: string;
  /** First part of its servers' names. */
  readonly host: string;
  readonly cost: SimulatorOptions["cost"];
  readonly answers?: ScriptedAnswers | undefined;
}

/** Options of a world of simulated GPUs. */
export interface ExperimentWorldOptions {
  readonly serving: Serving;
  /** Those of the paper's sizes by default, at these costs. */
  readonly models?: readonly WorldModel[] | undefined;
  readonly costs?: ModelCosts | undefined;
  /** Emulated version of the engines; the simulator's newest by default. */
  readonly version?: string | undefined;
  readonly seed: string;
  /** Graphs of the configuration. */
  readonly graphs: Readonly<Record<string, unknown>>;
  /** Token budget of one prefill step; the engines' default of 8,192 if absent. */
  readonly stepTokens?: number | undefined;
  /** Answers of the models of a size; random words by default. */
  readonly answersOf?: (size: (typeof SIZES)[number]) => ScriptedAnswers;
  /** Without it no graph can exit early. */
  readonly earlyExit?: (clock: VirtualClock) => EarlyExitServices;
}

/** Counters of the engines that read prompts. */
export interface EngineWork {
  /** Warms included. */
  readonly requests: number;
  readonly promptTokens: number;
  /** Of the prompts' tokens, those that were computed: not found in the cache. */
  readonly prefilledTokens: number;
}

/** A router before simulated H200 GPUs, in one process and in virtual time. */
export interface ExperimentWorld {
  readonly clock: VirtualClock;
  /** Simulated GPUs. */
  readonly gpus: number;
  /** Sums over all engines so far. */
  work(): EngineWork;
  router(): Router;
}

interface SimulatedModel {
  readonly model: WorldModel;
  readonly workers: readonly unknown[];
  /** By host. */
  readonly servers: ReadonlyMap<string, Simulator>;
  /** The server that reads prompts. */
  readonly reader: Simulator;
}

/** Makes a world: one plain server, or one pair, for each model. The same options give the same world. */
export function makeExperimentWorld(options: ExperimentWorldOptions): ExperimentWorld {
  const clock = new VirtualClock();
  const fabric = new PdFabric();
  const served = options.models ??
    SIZES.map((size) => ({
      name: size,
      host: size,
      cost: options.costs?.[size] ?? size,
      answers: options.answersOf?.(size),
    }));
  const models = served.map((model) => serveModel(model, options, clock, fabric));
  const servers = new Map(models.flatMap((model) => [...model.servers]));
  const transport = new MemoryTransport((request) => {
    const server = servers.get(new URL(request.url).host);
    return server === undefined ? undefined : (outgoing, signal) => server.handle(outgoing, signal);
  });
  const config = worldConfig(options, models);
  return {
    clock,
    gpus: servers.size,
    work() {
      const total = { requests: 0, promptTokens: 0, prefilledTokens: 0 };
      for (const { reader } of models) {
        total.requests += reader.stats.requests;
        total.promptTokens += reader.stats.promptTokens;
        total.prefilledTokens += reader.stats.promptTokens - reader.stats.cachedTokens;
      }
      return total;
    },
    router: () =>
      createRouter({
        config,
        clock,
        random: new Random(options.seed).stream("router"),
        transport,
        earlyExit: options.earlyExit?.(clock),
        loadTokenizer: () => Promise.resolve(builtinTokenizer()),
      }),
  };
}

function serveModel(
  model: WorldModel,
  options: ExperimentWorldOptions,
  clock: VirtualClock,
  fabric: PdFabric,
): SimulatedModel {
  const { host } = model;
  const simulator = (more: Pick<SimulatorOptions, "pd"> = {}) =>
    createSimulator({
      engine: options.serving === "vllm" ? "vllm" : "sglang",
      models: [`sim-${host}`],
      cost: model.cost,
      clock,
      seed: options.seed,
      contextTokens: CONTEXT_TOKENS,
      // Events that repeat all before them would cost most of the experiment's own time.
      incrementalStream: true,
      answers: model.answers,
      version: options.version,
      maxBatchedTokens: options.stepTokens,
      ...more,
    });
  if (options.serving !== "sglang-pd") {
    const reader = simulator();
    return { model, workers: [`http://${host}.sim`], servers: new Map([[`${host}.sim`, reader]]), reader };
  }
  const prefill = `${host}-prefill.sim`;
  const decode = `${host}-decode.sim`;
  const half = (role: "prefill" | "decode") => simulator({ pd: { role, fabric, bootstrapHost: prefill } });
  const reader = half("prefill");
  return {
    model,
    reader,
    workers: [{ prefill: `http://${prefill}`, bootstrap_port: 8998, decode: `http://${decode}` }],
    servers: new Map([[prefill, reader], [decode, half("decode")]]),
  };
}

/** Nine long answers to a long question must fit. */
const CONTEXT_TOKENS = 131_072;

/** Nothing but the GPUs shall hold a request back, and no limit on time shall cut it. */
function worldConfig(options: ExperimentWorldOptions, models: readonly SimulatedModel[]): Config {
  const unlimited = 1_000_000;
  return configSchema.parse({
    server: { max_running: unlimited, max_queued: unlimited, max_runs_kept: 0 },
    models: Object.fromEntries(models.map(({ model, workers }) => [model.name, {
      model: `sim-${model.host}`,
      engine: options.serving,
      workers,
      tokenizer: "built-in",
      max_in_flight: unlimited,
      first_token_timeout_ms: MAX_WAIT_MS,
      idle_timeout_ms: MAX_WAIT_MS,
      health: { interval_ms: MAX_WAIT_MS },
    }])),
    graphs: options.graphs,
  });
}

/** One hour. */
const MAX_WAIT_MS = 3_600_000;
