import { benchAllCommand } from "./all.ts";
import { benchExitCommand, benchTauCommand } from "./exit.ts";
import { benchChunkCommand, benchPrefillCommand, benchRunCommand } from "./experiment.ts";
import { benchLoadCommand } from "./load.ts";
import { benchPlacingCommand } from "./placing.ts";
import { commandGroup } from "../kit/command_group.ts";

/** `canopy bench`: experiments with simulated engines, and load on real ones. */
export const benchCommand = commandGroup({
  name: "bench",
  summary: "Experiments over simulated GPUs, and load on a real endpoint",
  noun: "benchmark",
  commands: [
    benchRunCommand,
    benchPrefillCommand,
    benchChunkCommand,
    benchExitCommand,
    benchTauCommand,
    benchPlacingCommand,
    benchAllCommand,
    benchLoadCommand,
  ],
});
