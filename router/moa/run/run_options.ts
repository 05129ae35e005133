import type { Clock } from "../../../base/clock.ts";
import type { Random } from "../../../base/random.ts";
import type { ExitPolicies } from "../exit/exit_policies.ts";
import type { AgentGraph } from "../graph/graph_types.ts";
import type { RunInput } from "../graph/run_input.ts";
import type { WarmControl } from "../warm/warm_control.ts";
import type { ServedModel } from "../../served/served_model.ts";

/** A model, and when its prompts are warmed. */
export interface ModelAccess {
  readonly served: ServedModel;
  readonly warming: WarmControl;
}

/** What a run needs. */
export interface RunOptions {
  readonly id: string;
  /** Its turn wherever its calls wait for a place; all of them bear it, so that the oldest run comes first. */
  readonly arrival: number;
  readonly graph: AgentGraph;
  readonly input: RunInput;
  readonly models: ReadonlyMap<string, ModelAccess>;
  readonly exitPolicies: ExitPolicies;
  readonly clock: Clock;
  readonly random: Random;
  /** The client has gone. */
  readonly signal: AbortSignal;
}
