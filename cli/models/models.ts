import { CanopyError } from "../../base/errors.ts";
import { scorerSchema } from "../../cfgs/schema/scorer.ts";
import { UsageError } from "../kit/args.ts";
import { defineCommand } from "../kit/command.ts";
import { commandGroup } from "../kit/command_group.ts";
import { Progress } from "../kit/progress.ts";
import { progressOf } from "../kit/pull_progress.ts";
import { table, tableColumns } from "../kit/terminal.ts";
import { checkModel, recordModel } from "./check_model.ts";
import { listedModels } from "./listed_models.ts";
import { isHubId } from "../../ml/hub/cache.ts";
import { pullModel } from "../../ml/hub/pull.ts";
import { shippedFolder } from "../../ml/hub/shipped_models.ts";
import { CHECK_FILE } from "../../ml/onnx/check_numbers.ts";
import { weightFiles } from "../../ml/hub/weight_files.ts";

const defaults = scorerSchema.parse({});

/** `canopy models pull`: fetches the embedding model of the scorer, or an embedded language model. */
const pullCommand = defineCommand({
  name: "models pull",
  summary: "Fetch the weights of a model in ONNX into the Hub's cache on this machine",
  arguments: "[MODEL]",
  maxArguments: 1,
  options: {
    file: {
      type: "text",
      value: "PATH",
      help: "Its ONNX file, such as onnx/model_fp16.onnx; by default the one that a CPU runs fastest",
    },
    revision: { type: "text", value: "NAME", help: "Branch, tag or commit; main by default" },
  },
  details: `MODEL is a Hub id; by default ${defaults.model}, which the scorer uses unless
scorer.model names another one. Models with the engine "onnx" are fetched in the same way. What is there already
is not fetched again, and what was cut off goes on where it ended. Of a model that comes with Canopy (models list)
the folder is printed, such as vLLM and SGLang take it.

Environment: HF_HOME or HF_HUB_CACHE (where the cache is), HF_ENDPOINT (a mirror), HF_TOKEN (for models that are not
public), HF_HUB_OFFLINE.

Examples:
  canopy models pull
  canopy models pull onnx-community/Qwen3-0.6B-ONNX`,
  run: async (values, [model = defaults.model], io) => {
    if (!isHubId(model)) {
      throw new UsageError(`MODEL must be a Hub id such as ${defaults.model}: current value is "${model}"`);
    }
    const shipped = await shippedFolder(model);
    if (shipped !== undefined) {
      io.err.write(`${model} comes with Canopy: nothing to fetch\n`);
      io.out.write(`${shipped}\n`);
      return 0;
    }
    const progress = new Progress(io);
    const show = progressOf(progress, io);
    try {
      const { folder, files, fetched } = await pullModel({
        transport: io.transport,
        clock: io.clock,
        signal: io.stop,
        env: io.env,
        model,
        revision: values.revision ?? defaults.revision,
        choose: (names) => weightFiles(model, names, values.file),
        onProgress: show,
      });
      progress.end();
      const what = fetched === 0
        ? "was here already"
        : `is here: ${fetched} of ${files.length} files fetched`;
      io.err.write(`${model} ${what}\n`);
      io.out.write(`${folder}/${files.at(-1)}\n`);
      return 0;
    } catch (error) {
      progress.end();
      if (io.stop.aborted) {
        throw new CanopyError("Stopped; run it again to go on where it ended", {
          code: "stopped",
          status: 500,
        });
      }
      throw error;
    }
  },
});

const EXPORT_OPTIONS = {
  revision: { type: "text", value: "NAME", help: "Branch, tag or commit; main by default" },
} as const;

/** `canopy models check`: the numbers of a model in this process, compared with those that it should give. */
const checkCommand = defineCommand({
  name: "models check",
  summary: "Say whether a model that runs in this process gives the numbers that it should on this CPU",
  arguments: "[MODEL]",
  maxArguments: 1,
  options: {
    file: { type: "text", value: "PATH", help: "Its ONNX file; by default the one that would be used" },
    ...EXPORT_OPTIONS,
  },
  details:
    `MODEL is a folder or a Hub id; by default ${defaults.model}. Numbers after four short texts are compared
with those in the folder's ${CHECK_FILE} (see models record), else with those of model.onnx or
model_fp16.onnx beside the file. The same is done whenever a model is loaded. The exit code is 1 for wrong numbers.

Example:
  canopy models check laboratory/s`,
  run: async (values, [model = defaults.model], io) => {
    const revision = values.revision ?? defaults.revision;
    const { ok, text } = await checkModel({ model, revision, file: values.file }, io);
    io.out.write(`${text}\n`);
    return ok ? 0 : 1;
  },
});

/** `canopy models record`: the right numbers, for machines that have no floats to compare with. */
const recordCommand = defineCommand({
  name: "models record",
  summary: "Write a model's right numbers into its folder, for the checks at each load",
  arguments: "[MODEL]",
  maxArguments: 1,
  options: {
    file: {
      type: "text",
      value: "PATH",
      help: "The ONNX file whose numbers are right; by default model.onnx, else model_fp16.onnx",
    },
    ...EXPORT_OPTIONS,
  },
  details: `MODEL is a folder or a Hub id; by default ${defaults.model}. Writes ${CHECK_FILE}, which can be
copied with the weights.

Example:
  canopy models record ./my-model`,
  run: async (values, [model = defaults.model], io) => {
    const revision = values.revision ?? defaults.revision;
    io.out.write(`${await recordModel({ model, revision, file: values.file }, io)}\n`);
    return 0;
  },
});

/** `canopy models list`: models on this machine that can run in this process. */
const listCommand = defineCommand({
  name: "models list",
  summary: "List the models that come with Canopy and those in the Hub's cache that can run in this process",
  maxArguments: 0,
  options: {},
  details: `Example:
  canopy models list`,
  run: async (_values, _arguments, io) => {
    const rows = await listedModels(io.env);
    io.out.write(`${table(["model", "size", "place"], rows, [], tableColumns(io.out)).join("\n")}\n`);
    return 0;
  },
});

/** `canopy models`: models on this machine. */
export const modelsCommand = commandGroup({
  name: "models",
  summary: "List, fetch and check models that run in this process",
  noun: "command",
  example: "canopy models list",
  commands: [listCommand, pullCommand, checkCommand, recordCommand],
});
