import type { FailureKind, LoggedFailure } from "../logs/log_patterns.ts";
import type { PlannedEngine } from "../plan/launch_plan.ts";
import type { Exit } from "./processes.ts";

/** Reason why an engine is down, for the person who started it. */
export interface Explanation {
  readonly kind: FailureKind | "unknown";
  /** One sentence: what failed, with which value, and what to do. */
  readonly sentence: string;
}

/** Explains a failure that the log shows: its cause, and the setting to change. */
export function explainFailure(
  engine: PlannedEngine,
  failure: LoggedFailure,
  env: Readonly<Record<string, string | undefined>>,
): Explanation {
  const { kind } = failure;
  return {
    kind,
    sentence: `${engine.name}: ${sentenceOf(engine, failure, env)}`,
  };
}

/** Explains an end that the log says nothing about. */
export function explainExit(engine: PlannedEngine, exit: Exit, ready: boolean): Explanation {
  const when = ready ? "" : " before it was ready";
  if (exit.signal === "SIGKILL" || exit.code === 137) {
    const sentence =
      `${engine.name}: the engine was killed${when}: if nobody did it on purpose, the host ran out of ` +
      "memory (see dmesg); start fewer engines at once, or give the host more memory";
    return { kind: "unknown", sentence };
  }
  const how = exit.signal === undefined ? `with code ${exit.code ?? "unknown"}` : `by ${exit.signal}`;
  return { kind: "unknown", sentence: `${engine.name}: the engine ended ${how}${when}` };
}

function sentenceOf(
  engine: PlannedEngine,
  { kind, details }: LoggedFailure,
  env: Readonly<Record<string, string | undefined>>,
): string {
  const { family, host, port } = engine;
  const model = modelOf(engine);
  const setting = `models.${engine.modelKey}.launch`;
  const product = family === "vllm" ? "vLLM" : family === "sglang" ? "SGLang" : "the simulator";
  const [first = "", second = ""] = details;
  switch (kind) {
    case "gated_model":
      return (env.HF_TOKEN ?? "") === ""
        ? `model ${model} is gated: accept its terms on its page on the Hub, and set HF_TOKEN to a token of that account`
        : `model ${model} is gated and the token in HF_TOKEN may not read it: accept its terms on its page on the Hub with that account`;
    case "model_not_found":
      return `model ${model} is neither on the Hub nor a folder with a config.json: correct models.${engine.modelKey}.model, or set HF_TOKEN if it is private`;
    case "hub_unreachable":
      return `model ${model} is not in the local cache and the Hub cannot be reached: check the network and HF_HUB_OFFLINE, or name a folder in ${setting}.weights`;
    case "disk_full":
      return `the disk is full: free some space, or set HF_HOME to a folder on a larger disk`;
    case "shared_memory":
      return `there is too little shared memory: make /dev/shm larger (in a container: --shm-size 16g, or --ipc=host)`;
    case "port_taken":
      return `port ${port} on ${host} is taken: stop what uses it, or choose others with launch.base_port`;
    case "driver_too_old":
      return `the GPU driver is too old for the installed ${product}: update the driver, or set launch.${family}.version to a ${product} made for it`;
    case "no_driver":
      return `${product} finds no GPU driver: install it (nvidia-smi must work), or rehearse without GPUs with --engine sim`;
    case "no_container_gpu":
      return "docker cannot give the container GPUs: install the NVIDIA Container Toolkit and restart docker";
    case "no_container_daemon":
      return "docker's daemon cannot be reached: start it, or let this user use it (group docker)";
    case "no_image":
      return `docker cannot pull the image ${
        engine.image ?? ""
      }: correct ${setting}.image or launch.${family}.image, or log in (docker login)`;
    case "unknown_option":
      if (family === "sim") return `the simulator does not take ${first.trim()}: correct launch.sim_args`;
      return `the installed ${product} does not take this option (${first.trim()}): set launch.${family}.version to the installed version, or correct ${setting}.extra_args`;
    case "unsupported_model":
      return `the installed ${product} is too old for model ${model}: upgrade ${product}`;
    case "unsupported_gpu":
      return `the installed ${product} cannot run model ${model} on ${
        engine.gpus[0]?.name ?? "this GPU"
      }: choose another type of weights, or another ${product}`;
    case "not_installed":
      return `${product} is not installed for the Python that was started: install it there, or name the command in launch.${family}.command`;
    case "gpu_in_use":
      return `other programs use ${
        gpusOf(engine)
      }: only ${first} of ${second} GiB are free; end them, or lower ${setting}.memory_fraction${
        fraction(engine)
      }`;
    case "cache_too_small":
      return `the cache is too small for the longest context of model ${model}: set models.${engine.modelKey}.context_tokens${
        first === "" ? " lower" : ` to at most ${first}`
      }, or raise ${setting}.memory_fraction${fraction(engine)}`;
    case "no_memory_for_cache":
      return `the weights of model ${model} leave no memory for the cache on ${
        gpusOf(engine)
      }: raise ${setting}.memory_fraction${
        fraction(engine)
      }, or ${setting}.tensor_parallel (now ${engine.tensorParallel})`;
    case "out_of_memory":
      return `${gpusOf(engine)} ran out of memory: lower ${setting}.memory_fraction${fraction(engine)}${
        engine.contextTokens === undefined ? "" : ` or models.${engine.modelKey}.context_tokens`
      }, or raise ${setting}.tensor_parallel (now ${engine.tensorParallel})`;
  }
}

function modelOf(engine: PlannedEngine): string {
  return engine.shape?.model ?? engine.modelKey;
}

function fraction({ memoryFraction }: PlannedEngine): string {
  return memoryFraction === undefined ? "" : ` (now ${memoryFraction})`;
}

function gpusOf({ gpus }: PlannedEngine): string {
  if (gpus.length === 0) return "the host";
  return `GPU${gpus.length === 1 ? "" : "s"} ${gpus.map((gpu) => gpu.index).join(", ")}`;
}
