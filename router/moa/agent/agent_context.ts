import type { Clock } from "../../../base/clock.ts";
import type { Random } from "../../../base/random.ts";
import type { Spans } from "../../tracing/spans.ts";
import type { AgentGraph } from "../graph/graph_types.ts";
import type { Trace } from "../record/trace.ts";
import type { OpenWork } from "./open_work.ts";

/** Everything that the calls of one run share. */
export interface AgentContext {
  readonly runId: string;
  /** The run's turn in the queues for a place, from the router's `Arrivals`. */
  readonly arrival: number;
  readonly graph: Pick<AgentGraph, "compat" | "stripReasoning">;
  readonly clock: Clock;
  readonly random: Random;
  /** Seed of all that is drawn for early exit: the request's, else one of the run's own. */
  readonly drawSeed: string;
  readonly trace: Trace;
  readonly work: OpenWork;
  /** Undefined where no traces are recorded. */
  readonly spans?: Spans | undefined;
  /** Of the run's calls: the request's id, and the run's place in a trace. */
  readonly headers: Readonly<Record<string, string>>;
  /** Names one attempt, unique among all engines' requests; none is the beginning of another. */
  readonly nextRequestId: () => string;
}

/** Names requests of one run. Of fixed length, because SGLang aborts every request whose id begins with the given one. */
export function agentRequestIds(runId: string): () => string {
  let requests = 0;
  return () => `${runId}-${String(++requests).padStart(6, "0")}`;
}
