import { isAbsolute } from "node:path";
import { toCanopy } from "../../cfgs/formats/canopy.ts";
import type { Config, WorkerConfig } from "../../cfgs/schema/config.ts";
import type { NodeRank } from "../commands/engine_command.ts";
import { sglangNodeOptions } from "../commands/sglang.ts";
import { vllmNodeOptions } from "../commands/vllm.ts";
import { type LaunchPlan, type PlannedEngine, withPlannedWorkers } from "../plan/launch_plan.ts";

/** A file to write, relative to a folder of the user's choice. */
export interface EmittedFile {
  readonly path: string;
  readonly text: string;
}

/** A plan to take elsewhere, with the configuration that it was made from. */
export interface EmitInput {
  readonly config: Config;
  readonly plan: LaunchPlan;
  /** Container image of Canopy. */
  readonly canopyImage: string;
  /** True where the files build that image themselves. */
  readonly buildsImage: boolean;
  /** Path of the binary on hosts without containers. */
  readonly canopyBinary: string;
}

/** The engines that are processes of their own. */
export function processesOf(plan: LaunchPlan): PlannedEngine[] {
  return plan.engines.filter((engine) => engine.within === undefined);
}

/** Image of an engine: the configuration's, else its project's own of the planned version. */
export function imageOf({ family, image, version }: PlannedEngine, { canopyImage }: EmitInput): string {
  if (family === "sim") return canopyImage;
  return image ?? (family === "sglang" ? `lmsysorg/sglang:v${version}` : `vllm/vllm-openai:v${version}`);
}

/** Arguments that start one host's part of an engine that spans several. */
export function nodeOptions({ family, version, nodes }: PlannedEngine, at: NodeRank): string[] {
  return family === "vllm" ? vllmNodeOptions(version, nodes, at) : sglangNodeOptions(nodes, at);
}

/** Arguments of an engine on a host without containers, where Canopy's binary may have another path than here. */
export function hostArgv({ family, command }: PlannedEngine, canopyBinary: string): readonly string[] {
  const { argv } = command;
  return family === "sim" ? [canopyBinary, ...argv.slice(argv.indexOf("sim"))] : argv;
}

/** Folder of the weights of an engine that reads them from one; undefined where they come from the Hub. */
export function weightsFolder(engine: PlannedEngine, config: Config): string | undefined {
  const model = config.models[engine.modelKey];
  const weights = model?.launch?.weights ?? model?.model;
  return weights !== undefined && isAbsolute(weights) ? weights : undefined;
}

/** An engine's arguments with other values for some of its options. */
export function withOptions(
  argv: readonly string[],
  values: Readonly<Record<string, string>>,
): string[] {
  return argv.map((word, at) => values[argv[at - 1] ?? ""] ?? word);
}

/** An engine's environment inside a container, where GPUs count from 0 and addresses are names. */
export function containerEnv(engine: PlannedEngine, ownAddress: string): Record<string, string> {
  const hidden = ["CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"];
  const env = Object.entries(engine.bare.env).filter(([name]) => !hidden.includes(name));
  return Object.fromEntries(env.map(([name, value]) => [
    name,
    name === "VLLM_NIXL_SIDE_CHANNEL_HOST" ? ownAddress : value,
  ]));
}

/** The configuration of the router, with engines at other addresses, and other bootstrap ports, than on this host. */
export function routerConfig(
  { config, plan }: EmitInput,
  addressOf: (engine: PlannedEngine) => string,
  bootstrapPortOf: (engine: PlannedEngine) => number | undefined = (engine) => engine.bootstrapPort,
): Config {
  const byUrl = new Map(plan.engines.map((engine) => [`http://${engine.host}:${engine.port}`, engine]));
  const moved = (url: string) => {
    const engine = byUrl.get(url);
    return engine === undefined ? url : addressOf(engine);
  };
  const movedWorker = (worker: WorkerConfig): WorkerConfig => {
    if (typeof worker === "string") return moved(worker);
    if ("url" in worker) return { ...worker, url: moved(worker.url) };
    const prefill = byUrl.get(worker.prefill);
    const port = prefill === undefined ? undefined : bootstrapPortOf(prefill);
    return {
      ...worker,
      prefill: moved(worker.prefill),
      bootstrap_port: worker.bootstrap_port === undefined ? undefined : port ?? worker.bootstrap_port,
      decode: moved(worker.decode),
    };
  };
  const planned = withPlannedWorkers(config, plan);
  const models = Object.entries(planned.models).map(([key, model]) => {
    // How engines are started is said in the files themselves.
    const { launch: _, ...rest } = model;
    return [key, { ...rest, workers: model.workers.map(movedWorker) }] as const;
  });
  const { launch: _, ...rest } = planned;
  return { ...rest, models: Object.fromEntries(models) };
}

/** Variables that the router takes keys from, which its configuration only names. */
export function keyVariables({ models, server: { limits } }: Config): string[] {
  const holders = [...Object.values(models), ...Object.values(limits?.keys ?? {})];
  const names = [...holders.map((holder) => holder.api_key_env), limits?.store?.password_env];
  return [...new Set(names.filter((name) => name !== undefined))].sort();
}

/** Port of the router in deployment files, where no free port can be looked for. */
export function routerPort({ server }: Config): number {
  return server.port === 0 ? 8_000 : server.port;
}

/** Seconds for running requests to end, and five to spare. */
export function routerStopSeconds({ server }: Config): number {
  return Math.ceil(server.drain_timeout_ms / 1_000) + 5;
}

/** The router's configuration as a file, listening on all addresses where it runs in a container. */
export function routerConfigText(config: Config, host: string | undefined): string {
  return toCanopy(host === undefined ? config : { ...config, server: { ...config.server, host } });
}

/** The engines that must be ready before one starts: earlier ones on its GPUs, whose memory it counts on. */
export function startsAfter(engine: PlannedEngine, plan: LaunchPlan): PlannedEngine[] {
  const earlier = processesOf(plan).slice(0, processesOf(plan).indexOf(engine));
  return earlier.filter((other) =>
    other.gpus.some((gpu) => engine.gpus.some((own) => own.uuid === gpu.uuid))
  );
}
