import { existsSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { CanopyError, messageOf } from "../../base/errors.ts";
import { withoutMark } from "../../cfgs/load/without_mark.ts";
import type { LoadedConfig } from "../../cfgs/load/load.ts";
import { UsageError } from "./args.ts";
import type { OptionValues } from "./command.ts";
import type { Io } from "./io.ts";
import { portProblem } from "./ports.ts";
import { findGpus } from "../../launcher/host/find_gpus.ts";
import { type HostGpus, noGpus } from "../../launcher/host/gpu.ts";
import { describedGpus, recordedGpus } from "../../launcher/host/gpus_described.ts";
import { findInstalled, type Installed } from "../../launcher/host/installed.ts";
import { allPortsFree } from "../../launcher/host/ports.ts";
import { type RunTool, runTool } from "../../launcher/host/run_tool.ts";
import { modelShape } from "../../launcher/model/model_shape.ts";
import type { LaunchPlan } from "../../launcher/plan/launch_plan.ts";
import { makePlan } from "../../launcher/plan/make_plan.ts";

/** Options of the commands that plan engines. */
export const PLAN_OPTIONS = {
  engine: {
    type: "text",
    value: "FAMILY",
    choices: ["sglang", "vllm", "sim"],
    help: "Start these engines instead of the configuration's; sim: simulated ones, no GPU needed",
  },
  gpus: {
    type: "text",
    value: "GPUS",
    help:
      "Plan for these, such as 6xH200 or 2xA100-40GB,1xL4, or for those in a FILE with nvidia-smi's output",
  },
  dtype: {
    type: "text",
    value: "TYPE",
    help: "Type of the weights, such as bfloat16; the model's own by default",
  },
  max_model_length: {
    type: "number",
    value: "TOKENS",
    min: 256,
    alias: ["max-model-len", "max-model-length", "max_model_len"],
    help: "Longest prompt plus answer of all models",
  },
} as const;

/** Values of `PLAN_OPTIONS` and the first port of the engines. */
export type PlanValues = OptionValues<typeof PLAN_OPTIONS> & { readonly "base-port": number | undefined };

/** Options of `planFromOptions`. */
export interface PlanRequest {
  readonly loaded: LoadedConfig;
  readonly values: PlanValues;
  /** Command that starts this program again, for simulated engines. */
  readonly canopy: readonly string[];
  /** True where files for containers are written. */
  readonly isolated?: boolean;
  /** True where files for several hosts are written. */
  readonly severalHosts?: boolean;
  readonly io: Io;
  /** Runs the tools of this host; another one in tests. */
  readonly run?: RunTool;
}

/** Looks at this host, or takes the one that was described, and plans. Throws `UsageError` for bad `--gpus`. */
export async function planFromOptions(request: PlanRequest): Promise<LaunchPlan> {
  const { loaded, values, io } = request;
  const run = request.run ?? runTool;
  const elsewhere = values.gpus !== undefined;
  const installed = new Map<string, Promise<Installed>>();
  return await makePlan(loaded.config, {
    host: await hostOf(request, run),
    engine: values.engine,
    basePort: values["base-port"],
    dtype: values.dtype,
    contextTokens: values.max_model_length,
    canopy: request.canopy,
    shapeOf: (model, kvCacheType) =>
      modelShape(model, { transport: io.transport, signal: io.stop, env: io.env, kvCacheType }),
    installedFor: (command) => {
      const key = command?.[0] ?? "";
      const known = installed.get(key) ?? findInstalled(run, io.stop, command);
      installed.set(key, known);
      return known;
    },
    probe: elsewhere && values.engine !== "sim" ? allPortsFree : portProblem,
    env: io.env,
    isolated: request.isolated ?? false,
    severalHosts: request.severalHosts ?? false,
  });
}

function textOf(path: string, given: string): string {
  try {
    return withoutMark(readFileSync(path, "utf8"));
  } catch (cause) {
    throw new UsageError(`Option --gpus names the file ${given}, which cannot be read: ${messageOf(cause)}`);
  }
}

async function hostOf({ loaded, values, io }: PlanRequest, run: RunTool): Promise<HostGpus> {
  const { gpus } = values;
  if (gpus !== undefined) {
    const isPath = /[/\\]|\.\w+$/.test(gpus);
    // A folder may be called 6xH200, for what was planned for them.
    const path = [gpus, join(io.cwd, gpus)].find((path) =>
      existsSync(path) && (isPath || !statSync(path).isDirectory())
    );
    if (path === undefined && isPath) {
      throw new UsageError(`Option --gpus names the file ${gpus}, which does not exist`);
    }
    try {
      return path === undefined ? describedGpus(gpus) : recordedGpus(textOf(path, gpus), gpus);
    } catch (error) {
      if (CanopyError.is(error) && error.code === "bad_gpus") throw new UsageError(error.message);
      throw error;
    }
  }
  const onCpu = (loaded.config.launch?.device ?? "gpu") === "cpu" ||
    Object.values(loaded.config.models).every((model) => model.launch?.device === "cpu");
  // A rehearsal has the ports and processes of the plan, and needs no GPU.
  if (values.engine === "sim" || onCpu) return noGpus;
  return await findGpus({ run, env: io.env, signal: io.stop });
}
