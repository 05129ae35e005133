import type { Clock } from "../../../base/clock.ts";
import type { AgentGraph } from "../graph/graph_types.ts";
import { Trace } from "../record/trace.ts";
import { eventsPerSuccessor } from "../warm/run_warming.ts";

/** Trace events per call: one with every event of its life and a few retries has about ten. */
const EVENTS_PER_CALL = 24;

/** An empty trace with room for all that ordinarily happens in a run of a graph. */
export function runTrace(clock: Clock, graph: AgentGraph, choices: number): Trace {
  const warmed = graph.incrementalPrefill.mode === "off"
    ? 0
    : graph.agents.filter((node) => node.reads.length > 0).length;
  const calls = graph.agents.length + choices + (graph.rewriteTemplate === undefined ? 0 : 1);
  const events = EVENTS_PER_CALL * calls + eventsPerSuccessor * warmed + exitEvents(graph);
  return new Trace(clock, events + stepEvents(graph, choices));
}

/** Events of answers in steps: each is placed on its own, and may be tried again. */
function stepEvents({ staircase, agents }: AgentGraph, choices: number): number {
  if (staircase === undefined || staircase.refusal !== undefined) return 0;
  const readers = agents.filter(({ reads }) => reads.length > 0).length;
  const climbing = (staircase.settings.climbs === "all" ? readers : 1) + choices;
  return 6 * (staircase.settings.steps + 1) * climbing;
}

/** Events of the decisions on early exit: their verdicts are calls with events of their own. */
function exitEvents(graph: AgentGraph): number {
  // Each agent's answer is a vote, which it may change once; in the end it may be needless.
  let events = graph.runExit === undefined ? 0 : 3 * graph.agents.length;
  for (const { agents, earlyExit } of graph.clusters) {
    const asked = earlyExit.metric === "none" ? 0 : agents.length;
    events += asked * (2 + 4 * Math.min(asked, 16));
  }
  return events;
}
