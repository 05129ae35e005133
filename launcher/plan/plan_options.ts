import type { EngineFamily } from "../engine_kind.ts";
import type { HostGpus } from "../host/gpu.ts";
import type { Installed } from "../host/installed.ts";
import type { PortProbe } from "../host/ports.ts";
import type { ModelShape } from "../model/model_shape.ts";

/** Facts about the host and choices of the command line that a plan is made with, besides the configuration. */
export interface PlanOptions {
  /** Without GPUs only simulated engines, and those with `device: "cpu"`, can be planned. */
  readonly host: HostGpus;
  /** Starts engines of this family instead of the configuration's. */
  readonly engine: EngineFamily | undefined;
  /** Engines get ports from here on, whatever the configuration says. */
  readonly basePort: number | undefined;
  /** Type of all weights, such as bfloat16. */
  readonly dtype: string | undefined;
  /** Longest prompt plus answer of all models. */
  readonly contextTokens: number | undefined;
  /** Command of this program itself, for simulated engines. */
  readonly canopy: readonly string[];
  /** Reads the sizes of a model; throws when they cannot be known. */
  shapeOf(model: string, kvCacheType: "auto" | "fp8"): Promise<ModelShape>;
  /** Looks for the engines and transfer libraries of the Python behind a command. */
  installedFor(command: readonly string[] | undefined): Promise<Installed>;
  readonly probe: PortProbe;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** True where each engine will run in a container of its own: what is installed here, and NVLink, do not count. */
  readonly isolated: boolean;
  /** True where files for several hosts are written: engines may span hosts. */
  readonly severalHosts: boolean;
}
