import { CanopyError } from "../../base/errors.ts";
import type { Gpu, HostGpus } from "./gpu.ts";
import { AMD_SMI_COMMANDS, parseAmdSmi, parseRocm, ROCM_ARGUMENTS } from "./gpus_amd.ts";
import { NVIDIA_COMMANDS, parseNvidia } from "./gpus_nvidia.ts";
import type { RunTool } from "./run_tool.ts";

/** Options of `findGpus`. */
export interface FindGpusOptions {
  readonly run: RunTool;
  /** `CUDA_VISIBLE_DEVICES` and `HIP_VISIBLE_DEVICES` are respected. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly signal: AbortSignal;
}

/**
 * The GPUs of this host as nvidia-smi, else rocm-smi, else amd-smi shows them, without those that the environment hides.
 * Throws 500 `no_gpu` when no tool answers, and `no_driver` when one cannot reach its driver.
 */
export async function findGpus(options: FindGpusOptions): Promise<HostGpus> {
  const nvidia = await nvidiaGpus(options);
  const found = nvidia === undefined || nvidia.gpus.length === 0 ? await amdGpus(options) ?? nvidia : nvidia;
  if (found === undefined || found.gpus.length === 0) {
    throw new CanopyError(
      "Cannot plan: this host shows no GPU (nvidia-smi, rocm-smi and amd-smi list none): install the GPU's driver, " +
        "plan for another host with --gpus 6xH200, or rehearse without GPUs with --engine sim",
      { code: "no_gpu", status: 500 },
    );
  }
  const variable = found.gpus[0]?.vendor === "amd" ? "HIP_VISIBLE_DEVICES" : "CUDA_VISIBLE_DEVICES";
  const allowed = options.env[variable];
  if (allowed === undefined) return found;
  const gpus = visible(found.gpus, allowed);
  if (gpus.length === 0) {
    throw new CanopyError(
      `Cannot plan: ${variable} is "${allowed}", which hides all ${found.gpus.length} GPUs: unset it, or name some`,
      { code: "no_gpu", status: 500 },
    );
  }
  return { ...found, gpus, source: `${found.source}, ${variable}=${allowed}` };
}

async function nvidiaGpus({ run, signal }: FindGpusOptions): Promise<HostGpus | undefined> {
  const outputs: string[] = [];
  for (const [at, args] of NVIDIA_COMMANDS.entries()) {
    let output = await run("nvidia-smi", args, signal);
    if (output === undefined) {
      if (at === 0) return undefined;
      continue;
    }
    if (at === 0 && /not a valid field/i.test(output.stdout + output.stderr)) {
      // Drivers before 510 do not know it.
      const fewer = args.map((arg) => arg.replace("compute_cap", "pstate"));
      output = await run("nvidia-smi", fewer, signal) ?? output;
      output = { ...output, stdout: output.stdout.replaceAll(/, P\d+,/g, ", [N/A],") };
    }
    if (at === 0 && output.code !== 0) {
      const said = (output.stdout + output.stderr).trim().split("\n")[0]?.trim() ?? "";
      if (/no devices were found/i.test(said)) return undefined;
      throw new CanopyError(
        `Cannot plan: nvidia-smi does not reach the driver (it says "${said}"): install or load the NVIDIA driver, ` +
          `or plan for another host with --gpus 6xH200`,
        { code: "no_driver", status: 500 },
      );
    }
    if (output.code === 0) outputs.push(output.stdout);
  }
  return { ...parseNvidia(outputs.join("\n")), source: "nvidia-smi" };
}

async function amdGpus({ run, signal }: FindGpusOptions): Promise<HostGpus | undefined> {
  const output = await run("rocm-smi", ROCM_ARGUMENTS, signal);
  const parsed = output === undefined ? undefined : parseRocm(output.stdout);
  if (parsed !== undefined) return { ...parsed, source: "rocm-smi" };
  const [cards, usage] = await Promise.all(
    AMD_SMI_COMMANDS.map(async (args) => (await run("amd-smi", args, signal))?.stdout ?? ""),
  );
  const newer = parseAmdSmi(cards ?? "", usage ?? "");
  return newer === undefined ? undefined : { ...newer, source: "amd-smi" };
}

/** As CUDA reads the variable: indexes or beginnings of UUIDs, in this order, up to the first that names no GPU. */
function visible(gpus: readonly Gpu[], list: string): Gpu[] {
  const chosen: Gpu[] = [];
  for (const item of list.split(",").map((part) => part.trim())) {
    const gpu = /^\d+$/.test(item)
      ? gpus.find((one) => one.id === item)
      : gpus.find((one) => item !== "" && one.uuid.startsWith(item));
    if (gpu === undefined || chosen.includes(gpu)) break;
    chosen.push(gpu);
  }
  return chosen;
}
