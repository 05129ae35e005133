import { CanopyError } from "../../base/errors.ts";
import type { Config, ModelConfig, WorkerConfig } from "../../cfgs/schema/config.ts";
import { type Launch, launchSchema, type ModelLaunch, modelLaunchSchema } from "../../cfgs/schema/launch.ts";
import type { EngineFamily, EngineRole } from "../engine_kind.ts";

/** Settings of the launch, all defaults filled in. */
export function launchOf(config: Config): Launch {
  return config.launch ?? launchSchema.parse({});
}

/** An engine that is to be started, before anything is known of GPUs. */
export interface LaunchTarget {
  readonly role: EngineRole;
  /** Port of its address in the configuration; undefined: any free one. */
  readonly port: number | undefined;
  /** Role and address, or number where no address is given: tells it from the model's other targets. */
  readonly key: string;
  /** SGLang's bootstrap port in the configuration. */
  readonly bootstrapPort: number | undefined;
}

/** An engine to start, with its name. */
export interface NamedTarget {
  readonly name: string;
  readonly model: ModelTargets;
  readonly target: LaunchTarget;
}

/** Engines to start for one model. */
export interface ModelTargets {
  readonly modelKey: string;
  readonly config: ModelConfig;
  readonly launch: ModelLaunch;
  /** Protocol of its workers. */
  readonly protocol: ModelConfig["engine"];
  readonly family: EngineFamily;
  /** The family itself, or the one that a simulated engine stands for. */
  readonly standsFor: "sglang" | "vllm";
  readonly targets: readonly LaunchTarget[];
  /** Entries of `workers`: which targets they are, or an address elsewhere that is kept. */
  readonly workers: readonly (
    | { readonly kept: WorkerConfig }
    | { readonly whole: LaunchTarget }
    | { readonly prefill: LaunchTarget; readonly decode: LaunchTarget }
  )[];
}

/**
 * Engines that a configuration wants started: addresses on this host (localhost) are engines to start there, addresses
 * elsewhere are kept, and a model without addresses gets `launch.replicas` engines on free ports. A model of which
 * everything is elsewhere has no targets. Throws 400 `nothing_to_start` for a model that nobody serves.
 */
export function targetsOf(config: Config, engine: EngineFamily | undefined): ModelTargets[] {
  // Embedded models are started by the router itself.
  return Object.entries(config.models).filter(([, model]) => model.engine !== "onnx")
    .map(([modelKey, model]) => targetsOfModel(modelKey, model, engine));
}

function targetsOfModel(
  modelKey: string,
  config: ModelConfig,
  engine: EngineFamily | undefined,
): ModelTargets {
  const launch = config.launch ?? modelLaunchSchema.parse({});
  const isPair = config.engine.endsWith("-pd");
  const own = config.engine.startsWith("sglang") ? "sglang" : config.engine === "openai" ? undefined : "vllm";
  const family = engine ?? own;
  const targets = new Map<string, LaunchTarget>();
  const targetOf = (role: EngineRole, url: string, bootstrapPort?: number): LaunchTarget => {
    const key = `${role} ${url}`;
    const known = targets.get(key);
    if (known !== undefined) return known;
    const { port, protocol } = new URL(url);
    const target = { role, key, port: Number(port || (protocol === "https:" ? 443 : 80)), bootstrapPort };
    targets.set(key, target);
    return target;
  };
  const workers = config.workers.map((worker): ModelTargets["workers"][number] => {
    // A server that speaks no engine's own protocol is somebody else's: Ollama, a gateway.
    if (family === undefined) return { kept: worker };
    if (typeof worker === "object" && "prefill" in worker) {
      if (!isLocal(worker.prefill) || !isLocal(worker.decode)) return { kept: worker };
      return {
        prefill: targetOf("prefill", worker.prefill, worker.bootstrap_port),
        decode: targetOf("decode", worker.decode),
      };
    }
    const url = typeof worker === "string" ? worker : worker.url;
    return isLocal(url) ? { whole: targetOf("whole", url) } : { kept: worker };
  });
  if (workers.length === 0) {
    if (family === undefined) {
      throw new CanopyError(
        `Cannot plan model "${modelKey}": its engine is "openai" and it has no workers: give its workers, or an ` +
          `engine that can be started (vllm, sglang)`,
        { code: "nothing_to_start", status: 400 },
      );
    }
    for (let n = 0; n < launch.replicas; n++) {
      const target = (role: EngineRole): LaunchTarget => {
        const made = { role, key: `${role} ${n}`, port: undefined, bootstrapPort: undefined };
        targets.set(made.key, made);
        return made;
      };
      workers.push(
        isPair ? { prefill: target("prefill"), decode: target("decode") } : { whole: target("whole") },
      );
    }
  }
  const protocol = protocolOf(config.engine, engine);
  return {
    modelKey,
    config,
    launch,
    protocol,
    family: family ?? "vllm",
    standsFor: protocol.startsWith("sglang") ? "sglang" : "vllm",
    targets: [...targets.values()],
    workers,
  };
}

/** Simulated engines speak what the configuration says; `openai` is served by a vLLM. */
function protocolOf(own: ModelConfig["engine"], engine: EngineFamily | undefined): ModelConfig["engine"] {
  if (engine === undefined || engine === "sim") return own;
  return own.endsWith("-pd") ? `${engine}-pd` : engine;
}

function isLocal(url: string): boolean {
  return ["localhost", "127.0.0.1", "[::1]", "0.0.0.0"].includes(new URL(url).hostname);
}

/** Names the engines; a name can be that of a file, a unit, a container or a pod. */
export function nameTargets(models: readonly ModelTargets[]): NamedTarget[] {
  // The router's own service, and the end of its unit's name.
  const taken = new Set(["canopy", "router"]);
  return models.flatMap((model) => {
    const count = (role: EngineRole) => model.targets.filter((one) => one.role === role).length;
    const seen = new Map<EngineRole, number>();
    const base = model.modelKey.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-+|-+$/g, "") || "model";
    return model.targets.map((target): NamedTarget => {
      const number = (seen.get(target.role) ?? 0) + 1;
      seen.set(target.role, number);
      const role = target.role === "whole" ? "" : `-${target.role}`;
      let name = `${base}${role}${count(target.role) === 1 ? "" : `-${number}`}`;
      for (let copy = 2; taken.has(name); copy++) name = `${base}-${copy}${role}-${number}`;
      taken.add(name);
      return { name, model, target };
    });
  });
}
