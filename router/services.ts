import type { Clock } from "../base/clock.ts";
import type { Random } from "../base/random.ts";
import type { Config, ModelConfig } from "../cfgs/schema.ts";
import type { EarlyExitConfig } from "../cfgs/schema_early_exit.ts";
import type { Engine } from "./engines/engine.ts";
import type { ModelTokenizer } from "./engines/tokenizer.ts";
import type { AgentGraph, Graph } from "./moa/graph_types.ts";
import type { Run, RunInput, RunRecord } from "./moa/run_types.ts";
import type { ManagedPool } from "./pool/pool.ts";
import type { Pool } from "./pool/pool_types.ts";
import type { Transport } from "../base/transport.ts";

/** Changes to the workers of a running model. */
export type Membership = Pick<ManagedPool, "addWorker" | "removeWorker" | "setDraining" | "setDown">;

/** One entry of the config's `models`, ready for use. */
export interface ServedModel {
  /** Its key in the config; the name under which it is listed. */
  readonly name: string;
  readonly config: ModelConfig;
  readonly engine: Engine;
  readonly pool: Pool;
  readonly membership: Membership;
  /** Undefined when the engine applies its own chat template. */
  readonly tokenizer: ModelTokenizer | undefined;
}

/** Starts runs of graphs and keeps the records of ended ones. */
export interface Moa {
  readonly graphs: ReadonlyMap<string, Graph>;
  /** Throws 400 `invalid_config`, naming the field, for settings of early exit that cannot be followed here. */
  checkEarlyExit(settings: EarlyExitConfig): void;
  /** Starts a run at once. Throws 400 when the request cannot fit the graph. `signal`: the client has gone. */
  start(graph: AgentGraph, input: RunInput, signal: AbortSignal): Run;
  /** Running first, then ended ones, newest first; without texts of more than the store's bound. */
  list(): readonly RunRecord[];
  get(id: string): Run | undefined;
  /** Cancels all runs; resolves when the engines are idle. */
  close(reason: unknown): Promise<void>;
}

/** Everything that a router consists of; HTTP handlers get no more than this. */
export interface RouterServices {
  readonly config: Config;
  readonly clock: Clock;
  readonly random: Random;
  readonly transport: Transport;
  readonly models: ReadonlyMap<string, ServedModel>;
  readonly moa: Moa;
}
