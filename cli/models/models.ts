import { CanopyError } from "../../base/errors.ts";
import { nearest } from "../../cfgs/check/nearest.ts";
import { scorerSchema } from "../../cfgs/schema/scorer.ts";
import { Progress } from "../bench/bench_output.ts";
import { UsageError } from "../kit/args.ts";
import { columns, type Command, defineCommand } from "../kit/command.ts";
import type { Io } from "../kit/io.ts";
import { isHubId } from "../../ml/hub/cache.ts";
import { pullModel, type PullProgress } from "../../ml/hub/pull.ts";
import { weightFiles } from "../../ml/hub/weights.ts";

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
is not fetched again, and what was cut off goes on where it ended.

Environment: HF_HOME or HF_HUB_CACHE (where the cache is), HF_ENDPOINT (a mirror), HF_TOKEN (for models that are not
public), HF_HUB_OFFLINE.`,
  run: async (values, [model = defaults.model], io) => {
    if (!isHubId(model)) {
      throw new UsageError(`MODEL must be a Hub id such as ${defaults.model}: current value is "${model}"`);
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

const commands: readonly Command[] = [pullCommand];

/** `canopy models`: models on this machine. */
export const modelsCommand: Command = {
  name: "models",
  summary: "Fetch the weights of models that run in this process",
  help: overview,
  run: async ([name, ...args], io) => {
    if (name === undefined || name === "--help" || name === "-h") {
      (name === undefined ? io.err : io.out).write(overview());
      return name === undefined ? 2 : 0;
    }
    const command = commands.find((one) => shortName(one) === name);
    if (command !== undefined) return await command.run(args, io);
    const suggestion = nearest(name, commands.map(shortName));
    throw new UsageError(
      `Unknown command models ${name}` + (suggestion === undefined ? "" : `: did you mean ${suggestion}?`),
    );
  },
};

function overview(): string {
  return `${modelsCommand.summary}.

Usage: canopy models COMMAND [options]

Commands:
${columns(commands.map((command): [string, string] => [shortName(command), command.summary]))}

With --help behind a command its options are shown.
`;
}

function shortName({ name }: Command): string {
  return name.replace("models ", "");
}

/** Between two changes of the line, in ms: no terminal shows more. */
const CHANGE_MS = 100;
/** Where there is no terminal a line is written at each tenth of a file. */
const SHARES = 10;

/** Shows how far a model is fetched. */
export function progressOf(progress: Progress, io: Io): (state: PullProgress) => void {
  let shownAtMs = -Infinity;
  let shown = "";
  return ({ file, index, files, bytes, size }) => {
    const nowMs = io.clock.now();
    const share = size === undefined || size === 0 ? 1 : Math.floor(SHARES * bytes / size) / SHARES;
    const mark = `${file} ${share}`;
    if (io.err.isTerminal ? bytes !== size && nowMs - shownAtMs < CHANGE_MS : mark === shown) return;
    shownAtMs = nowMs;
    shown = mark;
    const of = size === undefined
      ? ""
      : ` of ${sizeText(size)}, ${Math.floor(100 * bytes / Math.max(1, size))} %`;
    progress.show(`${index}/${files} ${file}: ${sizeText(bytes)}${of}`);
  };
}

/** Bytes as people read them. */
export function sizeText(bytes: number): string {
  return bytes < 1e6 ? `${Math.ceil(bytes / 1e3)} kB` : `${(bytes / 1e6).toFixed(1)} MB`;
}
