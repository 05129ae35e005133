import { loadCheckedConfig } from "../../cfgs/load/load.ts";
import { configProblemText } from "../../cfgs/load/problems.ts";
import { presetNames } from "../../cfgs/presets/presets.ts";
import { UsageError } from "../kit/args.ts";
import { defineCommand } from "../kit/command.ts";
import { configFileOf, OVERRIDE_OPTIONS, overridesOf } from "../kit/config_file.ts";
import { printEmitted, writeEmitted } from "../kit/emitted_files.ts";
import { prefillWarnings } from "../kit/router/prefill_warnings.ts";
import { PLAN_OPTIONS, planFromOptions } from "../kit/plan_options.ts";
import { emit, EMIT_TARGETS } from "../../launcher/emit/emit.ts";
import { hostFileSettings } from "../../launcher/emit/host_files.ts";
import { DOCKERFILE } from "../../launcher/emit/container_file.ts";
import { modelPortsOf } from "../../launcher/plan/launch_plan.ts";
import { planJson, planText } from "../../launcher/plan/plan_text.ts";
import { version } from "../kit/version.ts";
import type { Config } from "../../cfgs/schema/config.ts";
import type { Io } from "../kit/io.ts";
import { placeProgram } from "./place_program.ts";

/** `canopy plan`: where the engines of a configuration would run, and how. */
export const planCommand = defineCommand({
  name: "plan",
  summary: "Say on which GPUs the engines of a configuration would run, and with which commands",
  arguments: "[FILE]",
  maxArguments: 1,
  options: {
    ...PLAN_OPTIONS,
    json: { type: "flag", help: "Print the plan as JSON" },
    emit: {
      type: "text",
      value: "TARGET",
      choices: EMIT_TARGETS,
      help: "Write files that run the same plan there",
    },
    out: {
      type: "text",
      value: "FOLDER",
      help: "Where files are written; with --emit, standard output by default",
    },
    force: { type: "flag", help: "Overwrite files that are there already" },
    "canopy-image": {
      type: "text",
      value: "IMAGE",
      help: `Container image of Canopy in these files; canopy:${version}, which compose builds, by default`,
    },
    "canopy-binary": {
      type: "text",
      value: "PATH",
      help: "Canopy's binary on hosts without containers; /usr/local/bin/canopy by default",
    },
    ...OVERRIDE_OPTIONS,
    "base-port": {
      ...OVERRIDE_OPTIONS["base-port"],
      help: "Give engines free ports from here on; 30000 by default",
    },
  },
  details: `FILE is a Canopy configuration, MoA-vllm's configs.json, or a preset: ${presetNames.join(", ")}.
Workers on this host (127.0.0.1, localhost) are engines to start there, others are left as they are, and a model
without workers gets engines of its own. Nothing is started. For a configs.json, --out also writes its model2port.json.

To plan for another host, record its GPUs there:
  (q=index,uuid,name,memory.total,memory.used,compute_cap
   q=$q,driver_version,mig.mode.current
   nvidia-smi --query-gpu=$q --format=csv,noheader,nounits
   nvidia-smi topo -m; nvidia-smi -L; nvidia-smi) > host.txt

Examples:
  canopy plan moa-9-3-1 --gpus 6xH200
  canopy plan canopy.jsonc --gpus host.txt --json
  canopy plan moa-9-3-1 --gpus 3xH200 --emit kubernetes --out deploy`,
  run: async (values, [file], io) => {
    if (values.json && values.emit !== undefined) {
      throw new UsageError("Options --json and --emit exclude each other: ask for one of them");
    }
    if (values.json && values.out !== undefined) {
      throw new UsageError("Options --json and --out exclude each other: the plan goes to standard output");
    }
    if (values.force && values.out === undefined) {
      throw new UsageError("Option --force is of files that are written: give --out, too");
    }
    for (const name of ["canopy-image", "canopy-binary"] as const) {
      if (values[name] !== undefined && values.emit === undefined) {
        throw new UsageError(`Option --${name} needs --emit: it is written into its files`);
      }
    }
    const loaded = loadCheckedConfig({
      path: configFileOf(file, io),
      env: io.env,
      overrides: overridesOf(values),
      basePort: values["base-port"],
    });
    for (const warning of loaded.warnings) {
      // Where its engines are to run is what this command says.
      if (!warning.path.endsWith(".workers")) io.err.write(`${configProblemText(warning)}\n`);
    }
    for (const warning of await prefillWarnings(loaded.config, io)) io.err.write(`${warning}\n`);
    const plan = await planFromOptions({
      loaded,
      values,
      canopy: ["canopy"],
      isolated: values.emit === "kubernetes" || values.emit === "compose",
      severalHosts: values.emit === "kubernetes" || values.emit === "slurm",
      io,
    });
    const ports = loaded.format === "canopy" ? undefined : modelPortsOf(loaded.config, plan);
    const files = values.emit === undefined ? [] : emit(values.emit, {
      config: loaded.config,
      plan,
      canopyImage: values["canopy-image"] ?? `canopy:${version}`,
      buildsImage: values["canopy-image"] === undefined,
      canopyBinary: values["canopy-binary"] ?? "/usr/local/bin/canopy",
    });
    if (values.emit === "kubernetes" || values.emit === "compose") tellHostFiles(loaded.config, io);
    if (values.out !== undefined) {
      if (ports !== undefined) {
        files.push({ path: "model2port.json", text: `${JSON.stringify(ports, null, 2)}\n` });
      }
      if (files.length === 0) {
        throw new UsageError("Option --out needs something to write: give --emit, too");
      }
      const input = { path: loaded.source, what: "the configuration" };
      writeEmitted(files, { folder: values.out, input, force: values.force }, io);
      if (files.some(({ path }) => path === DOCKERFILE.path)) placeProgram(values.out, io);
    } else if (values.emit !== undefined) {
      printEmitted(files, io);
    } else if (values.json) io.out.write(`${JSON.stringify(planJson(plan), null, 2)}\n`);
    else io.out.write(planText(plan));
    return 0;
  },
});

function tellHostFiles(config: Config, io: Io): void {
  for (const setting of hostFileSettings(config)) {
    io.err.write(
      `${setting} names a file or folder of this host: mount it into the router's container, which does not have it\n`,
    );
  }
}
