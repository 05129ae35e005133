import { isAbsolute } from "node:path";
import { argvOf, type EngineCommand } from "./engine_command.ts";
import type { Gpu } from "../host/gpu.ts";

/** Options of `dockerCommand`. */
export interface DockerOptions {
  readonly name: string;
  readonly image: string;
  readonly gpus: readonly Gpu[];
  /** Folder of the Hub's cache on this host. */
  readonly modelCache: string;
  /** Hub id or folder of the weights; a folder is shown to the container under its own path. */
  readonly weights: string;
  /** Variables of this host that containers get, too, if they are set. */
  readonly passedOn: readonly string[];
}

/** Folder of the Hub's cache in all engine images, which run as root. */
export const CACHE_IN_CONTAINER = "/root/.cache/huggingface";

/**
 * `docker run` for an engine: the host's network, so that ports are those of the plan; memory shared with the host,
 * which NCCL needs; only its GPUs. The process ends with the container, and the container is removed.
 */
export function dockerCommand(bare: EngineCommand, options: DockerOptions): EngineCommand {
  const { gpus } = options;
  const amd = gpus[0]?.vendor === "amd";
  // GPUs are chosen for the container; inside, they count from 0.
  const hidden = ["CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"];
  const env = Object.entries(bare.env).filter(([name]) => amd || gpus.length === 0 || !hidden.includes(name));
  const [program, ...args] = bare.argv;
  return {
    argv: argvOf([
      ["docker", "run", "--rm", "--init", "--name", options.name, "--network", "host", "--ipc", "host"],
      gpus.length === 0
        ? []
        : amd
        ? ["--device", "/dev/kfd", "--device", "/dev/dri", "--group-add", "video"]
        : ["--gpus", `"device=${gpus.map((gpu) => gpu.id).join(",")}"`],
      ["--volume", `${options.modelCache}:${CACHE_IN_CONTAINER}`],
      isAbsolute(options.weights) ? ["--volume", `${options.weights}:${options.weights}:ro`] : [],
      env.flatMap(([name, value]) => ["--env", `${name}=${value}`]),
      // Without a value docker takes the variable from its own environment: no token is seen in process lists.
      options.passedOn.flatMap((name) => ["--env", name]),
      ["--entrypoint", program, options.image],
      args,
    ]),
    env: {},
  };
}
