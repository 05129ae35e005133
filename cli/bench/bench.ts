import { benchAllCommand } from "./all.ts";
import { benchCalibrateCommand } from "./calibrate.ts";
import { benchEmitCommand } from "./emit/emit.ts";
import { benchCompareCommand } from "./eval/compare.ts";
import { benchEvalCommand } from "./eval/eval.ts";
import { benchMergeCommand } from "./eval/merge.ts";
import { benchExitCommand, benchTauCommand } from "./exit.ts";
import { benchChunkCommand, benchPrefillCommand, benchRunCommand } from "./experiment.ts";
import { benchGradeCommand } from "./grade.ts";
import { benchHedgeCommand } from "./hedge.ts";
import { benchLaboratoryCommand } from "./laboratory.ts";
import { benchLoadCommand } from "./load.ts";
import { benchPlacingCommand } from "./placing.ts";
import { benchQuestionsCommand } from "./questions.ts";
import { benchReplayCommand } from "./replay.ts";
import { benchSensitivityCommand } from "./sensitivity.ts";
import { benchStaircaseCommand } from "./staircase.ts";
import { benchTopologyCommand } from "./topology/topology.ts";
import { benchWorkloadsCommand } from "./workloads.ts";
import { commandGroup } from "../kit/command_group.ts";

/** `canopy bench`: experiments with simulated engines and with real small models, and load on real endpoints. */
export const benchCommand = commandGroup({
  name: "bench",
  summary: "Experiments over simulated GPUs and over real small models, and load on a real endpoint",
  noun: "benchmark",
  example: "canopy bench run",
  commands: [
    benchRunCommand,
    benchPrefillCommand,
    benchChunkCommand,
    benchExitCommand,
    benchTauCommand,
    benchStaircaseCommand,
    benchSensitivityCommand,
    benchTopologyCommand,
    benchWorkloadsCommand,
    benchPlacingCommand,
    benchHedgeCommand,
    benchReplayCommand,
    benchAllCommand,
    benchLaboratoryCommand,
    benchLoadCommand,
    benchCalibrateCommand,
    benchQuestionsCommand,
    benchGradeCommand,
    benchEvalCommand,
    benchCompareCommand,
    benchMergeCommand,
    benchEmitCommand,
  ],
});
