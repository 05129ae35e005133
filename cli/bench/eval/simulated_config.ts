import type { Config, ModelConfig } from "../../../cfgs/schema/config.ts";
import { PdFabric } from "../../../simulator/pd/fabric.ts";
import { type ListeningSimulator, startSimulator } from "../../../simulator/serve.ts";
import { BUILTIN_TOKENIZER } from "../../../simulator/text/tokenizer.ts";
import type { Io } from "../../kit/io.ts";

/** How simulated engines are started. */
export interface SimulationOptions {
  /** Times as fast as the GPUs that they play. */
  readonly speedup: number;
  /** Gets whatever is to be closed at the end, also where it fails on the way. */
  readonly started: { close(): Promise<void> }[];
}

/**
 * The configuration with a simulated server, or pair, for each model, but for those that run in this process. Rejects
 * when a port cannot be used.
 */
export async function simulatedConfig(
  config: Config,
  options: SimulationOptions,
  io: Pick<Io, "clock">,
): Promise<Config> {
  const models: Record<string, ModelConfig> = {};
  for (const [name, model] of Object.entries(config.models)) {
    models[name] = model.engine === "onnx" ? model : await simulatedModel(name, model, options, io);
  }
  return { ...config, models };
}

async function simulatedModel(
  name: string,
  model: ModelConfig,
  { speedup, started }: SimulationOptions,
  io: Pick<Io, "clock">,
): Promise<ModelConfig> {
  const engine = model.engine.startsWith("sglang") ? "sglang" : "vllm";
  const fabric = new PdFabric();
  const start = async (role?: "prefill" | "decode"): Promise<ListeningSimulator> => {
    const simulator = await startSimulator({
      engine,
      models: [model.model],
      cost: costOf(`${model.model} ${name}`),
      speedup,
      answers: "scripted",
      seed: role === undefined ? name : `${name}/${role}`,
      tokenizerPath: BUILTIN_TOKENIZER,
      clock: io.clock,
      host: "127.0.0.1",
      port: 0,
      pd: role === undefined ? undefined : { role, fabric, bootstrapHost: "127.0.0.1", bootstrapPort: 0 },
    });
    started.push(simulator);
    return simulator;
  };
  if (!model.engine.endsWith("-pd")) {
    return { ...model, engine, workers: [(await start()).url], tokenizer: BUILTIN_TOKENIZER };
  }
  const [prefill, decode] = [await start("prefill"), await start("decode")];
  const pair = { prefill: prefill.url, bootstrap_port: prefill.bootstrapPort, decode: decode.url };
  return { ...model, workers: [pair], tokenizer: BUILTIN_TOKENIZER };
}

/** Size class of a model by the billions in its name. */
function costOf(name: string): "4b" | "8b" | "32b" {
  const billions = Number(/(\d+(?:\.\d+)?)b\b/i.exec(name)?.[1] ?? "8");
  if (billions < 6) return "4b";
  return billions < 16 ? "8b" : "32b";
}
