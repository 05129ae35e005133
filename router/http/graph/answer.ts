import type { Json, JsonObject } from "../../../base/json.ts";
import type { GraphInclude } from "./read_graph.ts";
import { promptBody, traceEventBody, usageBody } from "../openai/run_body.ts";
import type { AgentEvent } from "../../moa/agent/agent_events.ts";
import type { AgentGraph } from "../../moa/graph/graph_types.ts";
import type { AgentRecord } from "../../moa/record/run_record.ts";
import type { Run } from "../../moa/run/run.ts";

/** A run of a request's graph, with what its answers need. */
export interface GraphAnswer {
  readonly run: Run;
  readonly graph: AgentGraph;
  readonly include: readonly GraphInclude[];
  /** Unix time in seconds. */
  readonly created: number;
}

/** The answer of a request without `stream`, once the run has ended. */
export function wholeGraph(answer: GraphAnswer): JsonObject {
  const { agents } = answer.run.record();
  const outputs = outputsOf(answer.graph);
  const only = outputs.length === 1 ? agents.find((agent) => agent.id === outputs[0]) : undefined;
  return {
    id: answer.run.id,
    object: "graph",
    created: answer.created,
    outputs,
    text: only?.text ?? null,
    agents: Object.fromEntries(agents.map((agent): [string, Json] => [agent.id, {
      model: agent.model,
      text: agent.text,
      ...(agent.reasoning === "" ? {} : { reasoning: agent.reasoning }),
      ...endBody(agent, answer.include),
    }])),
    ...sums(answer),
  };
}

/** One event of a stream: new text of an agent, or its end. */
export function graphChunk(answer: GraphAnswer, event: AgentEvent): JsonObject {
  const head = { ...chunkHead(answer), type: event.type, agent: event.agent };
  if (event.type === "end") return { ...head, ...endBody(event.record, answer.include) };
  return { ...head, text: event.text, ...(event.reasoning === "" ? {} : { reasoning: event.reasoning }) };
}

/** The last event of a stream, once the run has ended. */
export function closingChunk(answer: GraphAnswer): JsonObject {
  return { ...chunkHead(answer), type: "done", outputs: outputsOf(answer.graph), ...sums(answer) };
}

function chunkHead({ run, created }: GraphAnswer): JsonObject {
  return { id: run.id, object: "graph.chunk", created };
}

function outputsOf(graph: AgentGraph): string[] {
  return (graph.outputs?.agents ?? []).map((agent) => agent.id);
}

function sums({ run, include }: GraphAnswer): JsonObject {
  return {
    usage: usageBody([run.usage()]),
    ...(include.includes("trace") ? { trace: run.record().events.map(traceEventBody) } : {}),
  };
}

/** Facts about an agent that has ended, besides its text. */
function endBody(agent: AgentRecord, include: readonly GraphInclude[]): JsonObject {
  const { usage, startedAtMs, firstTokenAtMs, endedAtMs } = agent;
  return {
    state: agent.state,
    finish_reason: agent.finishReason ?? null,
    error: agent.error ?? null,
    worker: agent.worker ?? null,
    usage: usage === undefined ? null : usageBody([usage]),
    timing: {
      started_ms: startedAtMs ?? null,
      first_token_ms: firstTokenAtMs ?? null,
      ended_ms: endedAtMs ?? null,
    },
    ...(include.includes("prompts") ? { prompt: promptBody(agent.prompt) } : {}),
  };
}
