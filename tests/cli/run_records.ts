import { configSchema } from "../../cfgs/schema/config.ts";
import { buildGraphs } from "../../router/moa/graph/build_graph.ts";
import type { Graph } from "../../router/moa/graph/graph_types.ts";
import type { AgentRecord, RunRecord } from "../../router/moa/record/run_record.ts";

/** The graph with this name of a config with models `4b` and `32b`. */
export function graphOf(graph: unknown): Graph {
  const model = { model: "m", engine: "openai", workers: ["http://127.0.0.1:1"] };
  const config = configSchema.parse({ models: { "4b": model, "32b": model }, graphs: { moa: graph } });
  const built = buildGraphs(config).get("moa");
  if (built === undefined) throw new Error("The graph was not built");
  return built;
}

/** Two clusters of two, two aggregators, a root. */
export const TREE = graphOf({
  layers: [
    { clusters: 2, agents: [{ model: "4b" }, { model: "32b" }] },
    { agents: [{ model: "4b" }, { model: "32b" }] },
    { agents: [{ model: "32b" }] },
  ],
});

/** Two agents that two others read both. */
export const DENSE = graphOf({
  layers: [
    { agents: [{ model: "4b" }, { model: "32b" }] },
    { agents: [{ model: "4b" }, { model: "32b" }] },
    { agents: [{ model: "32b" }] },
  ],
});

/** What is said of one agent; the rest is filled in. */
export type AgentFacts = Partial<AgentRecord> & { tokens?: number };

/** A record of a run with these facts about its agents; all others wait. */
export function recordOf(graph: Graph, facts: Record<string, AgentFacts>, durationMs?: number): RunRecord {
  const agents = graph.agents.map((node): AgentRecord => {
    const { tokens = 0, ...known } = facts[node.id] ?? {};
    return {
      id: node.id,
      model: node.model,
      state: "waiting",
      worker: undefined,
      prompt: undefined,
      text: "",
      reasoning: "",
      finishReason: undefined,
      error: undefined,
      startedAtMs: undefined,
      firstTokenAtMs: undefined,
      endedAtMs: undefined,
      resumes: 0,
      restarts: 0,
      usage: {
        agent: node.id,
        model: node.model,
        calls: 1,
        promptTokens: 10,
        completionTokens: tokens,
        cachedTokens: undefined,
        reasoningTokens: 0,
        wastedTokens: 0,
      },
      ...known,
    };
  });
  const completionTokens = agents.reduce((sum, agent) => sum + (agent.usage?.completionTokens ?? 0), 0);
  return {
    id: "run_1",
    graph: graph.name,
    state: durationMs === undefined ? "running" : "done",
    startedAtUnixMs: 0,
    durationMs,
    error: undefined,
    usage: {
      promptTokens: 0,
      completionTokens,
      cachedTokens: undefined,
      reasoningTokens: 0,
      wastedTokens: 0,
      calls: agents.length,
      agents: [],
      parts: [],
    },
    agents,
    exits: [],
    rootSkipped: false,
    drawSeed: "1",
    events: [],
  };
}
