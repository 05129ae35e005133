import { argvOf } from "./command_input.ts";
import type { EngineCommand } from "./engine_command.ts";
import type { ModelShape } from "../model/model_shape.ts";

/** A simulated engine, or a whole group of simulated halves, which are one process. */
export interface SimSpec {
  /** How this program is started again. */
  readonly canopy: readonly string[];
  /** What it pretends to be. */
  readonly engine: "sglang" | "vllm";
  readonly model: string;
  readonly shape: ModelShape | undefined;
  readonly host: string;
  /** The first one of a group. */
  readonly port: number;
  readonly pairs:
    | { readonly prefills: number; readonly decodes: number; readonly bootstrapPort: number }
    | undefined;
  readonly version: string | undefined;
  readonly extraArgs: readonly string[];
}

/** The command of a simulated engine. */
export function simulatorCommand(spec: SimSpec): EngineCommand {
  const { pairs } = spec;
  const argv = argvOf([
    spec.canopy,
    ["sim", "--engine", spec.engine, "--model", spec.model, "--cost", costOf(spec)],
    ["--host", spec.host, "--port", String(spec.port)],
    spec.version === undefined ? [] : ["--version", spec.version],
    pairs === undefined ? [] : [
      "--pd-prefill",
      String(pairs.prefills),
      "--pd-decode",
      String(pairs.decodes),
      "--bootstrap-port",
      String(pairs.bootstrapPort),
    ],
    spec.extraArgs,
  ]);
  return { argv, env: {} };
}

/** The measured model that is nearest in size. */
function costOf({ shape, model }: SimSpec): "4b" | "8b" | "32b" {
  const named = Number(/(?:^|[^\d.])(\d+(?:\.\d+)?)b(?![a-z])/i.exec(model)?.[1] ?? 4);
  const billions = shape === undefined ? named : shape.weightBytes / 2e9;
  return billions < 6 ? "4b" : billions < 16 ? "8b" : "32b";
}
