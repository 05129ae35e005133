import type { Clock } from "../../../base/clock.ts";
import type { Random } from "../../../base/random.ts";
import type { AgentGraph } from "../graph/graph_types.ts";
import type { Trace } from "../record/trace.ts";
import type { OpenWork } from "./open_work.ts";

/** Options of an `AgentContext`. */
export interface AgentContextOptions {
  readonly runId: string;
  /** The run's turn in the queues for a place, from the router's `Arrivals`. */
  readonly arrival: number;
  readonly graph: Pick<AgentGraph, "compat" | "stripReasoning">;
  readonly clock: Clock;
  readonly random: Random;
  readonly trace: Trace;
  readonly work: OpenWork;
}

/** Everything that the calls of one run share. */
export class AgentContext {
  readonly runId: string;
  readonly arrival: number;
  readonly graph: Pick<AgentGraph, "compat" | "stripReasoning">;
  readonly clock: Clock;
  readonly random: Random;
  readonly trace: Trace;
  readonly work: OpenWork;
  #requests = 0;

  constructor(options: AgentContextOptions) {
    this.runId = options.runId;
    this.arrival = options.arrival;
    this.graph = options.graph;
    this.clock = options.clock;
    this.random = options.random;
    this.trace = options.trace;
    this.work = options.work;
  }

  /** A name for one attempt, unique among all engines' requests; none is the beginning of another. */
  nextRequestId(): string {
    // Of fixed length, because SGLang aborts every request whose id begins with the given one.
    return `${this.runId}-${String(++this.#requests).padStart(6, "0")}`;
  }
}
