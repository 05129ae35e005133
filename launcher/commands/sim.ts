import { argvOf, type EngineCommand } from "./engine_command.ts";
import type { ModelShape } from "../model/model_shape.ts";

/** A simulated engine, or a whole group of simulated halves, which are one process. */
export interface SimulatorSettings {
  /** Command of this program itself. */
  readonly canopy: readonly string[];
  /** Protocol that it speaks. */
  readonly engine: "sglang" | "vllm";
  readonly model: string;
  readonly shape: ModelShape | undefined;
  readonly host: string;
  /** First port of a group. */
  readonly port: number;
  readonly pairs:
    | { readonly prefills: number; readonly decodes: number; readonly bootstrapPort: number }
    | undefined;
  readonly version: string | undefined;
  readonly extraArgs: readonly string[];
}

/** The command of a simulated engine. */
export function simulatorCommand(settings: SimulatorSettings): EngineCommand {
  const { pairs } = settings;
  const argv = argvOf([
    settings.canopy,
    ["sim", "--engine", settings.engine, "--model", settings.model, "--cost", costOf(settings)],
    ["--host", settings.host, "--port", String(settings.port)],
    settings.version === undefined ? [] : ["--version", settings.version],
    pairs === undefined ? [] : [
      "--pd-prefill",
      String(pairs.prefills),
      "--pd-decode",
      String(pairs.decodes),
      "--bootstrap-port",
      String(pairs.bootstrapPort),
    ],
    settings.extraArgs,
  ]);
  return { argv, env: {} };
}

/** Cost model of the measured model that is nearest in size. */
function costOf({ shape, model }: SimulatorSettings): "4b" | "8b" | "32b" {
  const named = Number(/(?:^|[^\d.])(\d+(?:\.\d+)?)b(?![a-z])/i.exec(model)?.[1] ?? 4);
  const billions = shape === undefined ? named : shape.weightBytes / 2e9;
  return billions < 6 ? "4b" : billions < 16 ? "8b" : "32b";
}
