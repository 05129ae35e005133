import type { Config, ModelConfig } from "../../../cfgs/schema/config.ts";
import { PdFabric } from "../../../simulator/pd/fabric.ts";
import { startSimulator } from "../../../simulator/serve.ts";
import type { SimulatorOptions } from "../../../simulator/server/simulator_options.ts";
import { BUILTIN_TOKENIZER } from "../../../simulator/text/tokenizer.ts";
import type { Io } from "../../kit/io.ts";

/** What a simulated engine, or half of a pair, plays. */
export type SimulatedEngine =
  & Pick<SimulatorOptions, "engine" | "models" | "cost" | "answers" | "seed" | "tokenizerPath">
  & { readonly half: { readonly role: "prefill" | "decode"; readonly fabric: PdFabric } | undefined };

/** Where a simulated engine is reached. */
export interface StartedEngine {
  readonly url: string;
  /** Of a prefill half. */
  readonly bootstrapPort: number | undefined;
}

/** How engines are simulated in real time. */
export interface SimulationOptions {
  /** Times as fast as the GPUs that they play. */
  readonly speedup: number;
  /** Gets whatever is to be closed at the end, also where it fails on the way. */
  readonly started: { close(): Promise<void> }[];
}

/** Starts engines that listen on ports and take real time. Rejects when a port cannot be used. */
export function listeningEngines({ speedup, started }: SimulationOptions, { clock }: Pick<Io, "clock">) {
  return async ({ half, ...options }: SimulatedEngine): Promise<StartedEngine> => {
    const simulator = await startSimulator({
      ...options,
      speedup,
      clock,
      host: "127.0.0.1",
      port: 0,
      pd: half && { ...half, bootstrapHost: "127.0.0.1", bootstrapPort: 0 },
    });
    started.push(simulator);
    return simulator;
  };
}

/** What a model takes, by its key in the configuration; undefined: what its name says. */
export type CostOf = (model: string) => SimulatedEngine["cost"] | undefined;

/**
 * The configuration with a simulated server, or pair, for each model, but for those that run in this process. Rejects as
 * `start`.
 */
export async function simulatedConfig(
  config: Config,
  start: (options: SimulatedEngine) => Promise<StartedEngine>,
  costOf: CostOf = () => undefined,
): Promise<Config> {
  const models: Record<string, ModelConfig> = {};
  for (const [name, model] of Object.entries(config.models)) {
    if (model.engine === "onnx") models[name] = model;
    else {
      const cost = costOf(name) ?? sizeClassOf(`${model.model} ${name}`);
      models[name] = await simulatedModel(name, model, { cost, start });
    }
  }
  return { ...config, models };
}

async function simulatedModel(
  name: string,
  model: ModelConfig,
  { cost, start }: {
    readonly cost: SimulatedEngine["cost"];
    readonly start: (options: SimulatedEngine) => Promise<StartedEngine>;
  },
): Promise<ModelConfig> {
  const engine = model.engine.startsWith("sglang") ? "sglang" : "vllm";
  const fabric = new PdFabric();
  const started = (role?: "prefill" | "decode") =>
    start({
      engine,
      models: [model.model],
      cost,
      answers: "scripted",
      seed: role === undefined ? name : `${name}/${role}`,
      tokenizerPath: BUILTIN_TOKENIZER,
      half: role && { role, fabric },
    });
  if (!model.engine.endsWith("-pd")) {
    return { ...model, engine, workers: [(await started()).url], tokenizer: BUILTIN_TOKENIZER };
  }
  const [prefill, decode] = [await started("prefill"), await started("decode")];
  const pair = { prefill: prefill.url, bootstrap_port: prefill.bootstrapPort, decode: decode.url };
  return { ...model, workers: [pair], tokenizer: BUILTIN_TOKENIZER };
}

/** Size class of a model by the billions in its name. */
function sizeClassOf(name: string): "4b" | "8b" | "32b" {
  const billions = Number(/(\d+(?:\.\d+)?)b\b/i.exec(name)?.[1] ?? "8");
  if (billions < 6) return "4b";
  return billions < 16 ? "8b" : "32b";
}
