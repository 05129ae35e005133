import type { AgentNode, Graph } from "../../router/moa/graph/graph_types.ts";
import type { AgentRecord, RunRecord } from "../../router/moa/record/run_record.ts";
import { builtinTokenizer } from "../../simulator/server/backend.ts";

/** One agent of a run; times count from the run's start, in ms. */
export interface AgentFigures {
  readonly id: string;
  readonly model: string;
  /** Time at which its last precursor was done; 0 for an agent that reads no other. */
  readonly readyAtMs: number;
  readonly firstTokenAtMs: number;
  readonly endedAtMs: number;
  readonly promptTokens: number;
  readonly completionTokens: number;
  readonly cachedTokens: number;
  /** Tokens from the first answer's begin to the last one's end in its prompt; 0 where it reads none. */
  readonly spliceTokens: number;
  /** Of these, the ones that the engine had cached when it got the prompt. */
  readonly splicedFromCache: number;
}

/** Parts of a run's time along the chain of agents that it waited for, in ms. */
export interface PathFigures {
  /** From the start to the first token of the chain's first agent: its prompt has nothing to hide behind. */
  readonly leafMs: number;
  /** From the last precursor's last token to the first token, over all hops of the chain. */
  readonly handOverMs: number;
  /** From first to last token, over all agents of the chain. */
  readonly decodeMs: number;
}

/** The figures of one run; durations in ms. */
export interface RunFigures {
  readonly e2eMs: number;
  /** From the start to the first token of the answer. */
  readonly ttftMs: number;
  /** Longest silence between two steps of the root's answer, until there is more to read; 0 for one without steps. */
  readonly stallMs: number;
  readonly calls: number;
  readonly promptTokens: number;
  readonly completionTokens: number;
  readonly cachedTokens: number;
  readonly path: PathFigures;
  /** The critical-path bound from this run's own decodes; see `criticalPathMs`. */
  readonly boundMs: number;
  readonly agents: readonly AgentFigures[];
}

/** The figures of a finished run. Throws when an agent has no answer. */
export function runFigures(graph: Graph, record: RunRecord): RunFigures {
  const records = new Map(record.agents.map((agent) => [agent.id, agent]));
  const agents = graph.agents.map((node) => agentFigures(node, records));
  const byId = new Map(agents.map((agent) => [agent.id, agent]));
  const root = figuresOf(graph.root, byId);
  const { usage } = record;
  return {
    e2eMs: root.endedAtMs,
    ttftMs: root.firstTokenAtMs,
    stallMs: stallOf(record.agents.find(({ id }) => id === graph.root.id)),
    calls: usage.calls,
    promptTokens: usage.promptTokens,
    completionTokens: usage.completionTokens,
    cachedTokens: usage.cachedTokens ?? 0,
    path: pathFigures(graph, byId),
    boundMs: criticalPathMs(graph, byId),
    agents,
  };
}

/**
 * The critical-path bound: the longest chain from an agent that reads no other to the root, where such an agent counts
 * from the run's start to its last token, and every other one only from its first to its last token, as if its whole
 * prompt had been prefilled and handed over in no time. No schedule with these decodes is faster.
 */
export function criticalPathMs(graph: Graph, agents: ReadonlyMap<string, AgentFigures>): number {
  const ends = new Map<AgentNode, number>();
  for (const node of graph.agents) {
    const own = figuresOf(node, agents);
    const precursors = precursorsOf(node);
    const end = precursors.length === 0
      ? own.endedAtMs
      : Math.max(...precursors.map((precursor) => ends.get(precursor) ?? 0)) + own.endedAtMs -
        own.firstTokenAtMs;
    ends.set(node, end);
  }
  return ends.get(graph.root) ?? 0;
}

/** Walks from the root to the precursor that ended last, and so on; the three parts add up to the run's time. */
function pathFigures(graph: Graph, agents: ReadonlyMap<string, AgentFigures>): PathFigures {
  const path = { leafMs: 0, handOverMs: 0, decodeMs: 0 };
  let node: AgentNode | undefined = graph.root;
  while (node !== undefined) {
    const own = figuresOf(node, agents);
    path.decodeMs += own.endedAtMs - own.firstTokenAtMs;
    const precursors = precursorsOf(node);
    if (precursors.length === 0) path.leafMs += own.firstTokenAtMs;
    else path.handOverMs += own.firstTokenAtMs - own.readyAtMs;
    node = precursors.find((precursor) => figuresOf(precursor, agents).endedAtMs === own.readyAtMs);
  }
  return path;
}

function stallOf(root: AgentRecord | undefined): number {
  const steps = root?.steps ?? [];
  const waits = steps.map(({ startedAtMs }, index) =>
    index === 0 ? 0 : startedAtMs - (steps[index - 1]?.endedAtMs ?? startedAtMs)
  );
  return Math.max(0, ...waits);
}

function agentFigures(node: AgentNode, records: ReadonlyMap<string, AgentRecord>): AgentFigures {
  const own = records.get(node.id);
  if (own?.state !== "done" || own.firstTokenAtMs === undefined || own.endedAtMs === undefined) {
    throw new Error(`Agent ${node.id} did not answer: ${own?.error ?? "it is not in the run's record"}`);
  }
  const precursors = precursorsOf(node).flatMap(({ id }) => records.get(id) ?? []);
  const cachedTokens = own.usage?.cachedTokens ?? 0;
  const splice = spliceOf(own, precursors);
  return {
    id: node.id,
    model: node.model,
    readyAtMs: Math.max(0, ...precursors.map((precursor) => precursor.endedAtMs ?? 0)),
    firstTokenAtMs: own.firstTokenAtMs,
    endedAtMs: own.endedAtMs,
    promptTokens: own.usage?.promptTokens ?? 0,
    completionTokens: own.usage?.completionTokens ?? 0,
    cachedTokens,
    spliceTokens: splice.end - splice.begin,
    splicedFromCache: Math.max(0, Math.min(cachedTokens, splice.end) - splice.begin),
  };
}

/** Places of the precursors' answers in a prompt, in tokens. */
function spliceOf(own: AgentRecord, precursors: readonly AgentRecord[]): { begin: number; end: number } {
  const nothing = { begin: 0, end: 0 };
  if (own.prompt?.kind !== "tokens" || precursors.length === 0) return nothing;
  const tokenizer = builtinTokenizer();
  const text = tokenizer.decode(own.prompt.ids);
  const answers = precursors.map((precursor) => precursor.text.trim());
  const begins = answers.map((answer) => text.indexOf(answer));
  if (begins.includes(-1)) return nothing;
  const begin = Math.min(...begins);
  const end = Math.max(...answers.map((answer, index) => (begins[index] ?? 0) + answer.length));
  return {
    begin: tokenizer.encode(text.slice(0, begin)).length,
    end: own.prompt.ids.length - tokenizer.encode(text.slice(end)).length,
  };
}

function precursorsOf(node: AgentNode): readonly AgentNode[] {
  return node.reads.flatMap((cluster) => cluster.agents);
}

function figuresOf(node: AgentNode, agents: ReadonlyMap<string, AgentFigures>): AgentFigures {
  const figures = agents.get(node.id);
  if (figures === undefined) throw new Error(`Agent ${node.id} is not in the run's record`);
  return figures;
}
