import { nearest } from "../../cfgs/check/nearest.ts";
import { benchAllCommand } from "./bench_all.ts";
import { benchExitCommand, benchTauCommand } from "./bench_exit.ts";
import { benchChunkCommand, benchPrefillCommand, benchRunCommand } from "./bench_experiment.ts";
import { benchLoadCommand } from "./bench_load.ts";
import { UsageError } from "../kit/args.ts";
import { columns, type Command } from "../kit/command.ts";

const commands: readonly Command[] = [
  benchRunCommand,
  benchPrefillCommand,
  benchChunkCommand,
  benchExitCommand,
  benchTauCommand,
  benchAllCommand,
  benchLoadCommand,
];

/** `canopy bench`: experiments with simulated engines, and load on real ones. */
export const benchCommand: Command = {
  name: "bench",
  summary: "Experiments over simulated GPUs, and load on a real endpoint",
  help: overview,
  run: async ([name, ...args], io) => {
    if (name === undefined || name === "--help" || name === "-h") {
      const out = name === undefined ? io.err : io.out;
      out.write(overview());
      return name === undefined ? 2 : 0;
    }
    const command = commands.find((command) => shortName(command) === name);
    if (command !== undefined) return await command.run(args, io);
    const suggestion = nearest(name, commands.map(shortName));
    throw new UsageError(
      `Unknown benchmark ${name}` + (suggestion === undefined ? "" : `: did you mean ${suggestion}?`),
    );
  },
};

function overview(): string {
  const rows = commands.map((command): [string, string] => [shortName(command), command.summary]);
  return `${benchCommand.summary}.

Usage: canopy bench BENCHMARK [options]

Benchmarks:
${columns(rows)}

With --help behind a benchmark its options are shown.
`;
}

function shortName({ name }: Command): string {
  return name.replace("bench ", "");
}
