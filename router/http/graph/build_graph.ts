import { badRequest } from "../../../base/errors.ts";
import { leastAnswers, noEarlyExit } from "../../../cfgs/schema/early_exit.ts";
import { MAX_AGENTS } from "../../../cfgs/topology/expanded_graph.ts";
import type { Sampling } from "../../engines/engine.ts";
import type { AgentGraph, AgentNode, ClusterNode } from "../../moa/graph/graph_types.ts";
import { type PromptTemplate, segmentsOf } from "../../moa/graph/template.ts";

/** The name of every graph that came in a request, in records and metrics; none in a config has parentheses. */
export const REQUEST_GRAPH = "(request)";

/** Most slots of one request: answers are copied into each of them. */
const MAX_SLOTS = 4096;

/** One agent as a request describes it. */
export interface AgentSpec {
  readonly id: string;
  /** Paths in the request: the agent, and its prompt. */
  readonly field: string;
  readonly promptField: string;
  /** Key of the served model. */
  readonly model: string;
  readonly template: PromptTemplate;
  readonly sampling: Sampling;
  /** Agents that it reads besides those that its slots name. */
  readonly reads: readonly string[];
  /** Default: all that it reads. */
  readonly minResponses: number | undefined;
  readonly deadlineMs: number | undefined;
  readonly onDeadline: AgentNode["onDeadline"];
  readonly earlyExit: ClusterNode["earlyExit"];
}

/** Settings of a whole graph. */
export interface GraphRules {
  /** Outputs without which the run fails. */
  readonly minResponses: number;
  readonly slots: AgentGraph["slots"];
  readonly stripReasoning: boolean;
  readonly deadlineMs: number | undefined;
  readonly incrementalPrefill: AgentGraph["incrementalPrefill"];
  readonly onOverflow: AgentGraph["onOverflow"];
}

/**
 * Makes a graph without a root: its outputs are the agents that nobody reads. Throws 400 naming the field for a slot
 * without agent, a cycle, too many agents or slots, or more answers asked for than there can be.
 */
export function buildRequestGraph(specs: readonly AgentSpec[], rules: GraphRules): AgentGraph {
  if (specs.length === 0) throw badRequest("agents", "agents must hold at least one agent", "missing_field");
  if (specs.length > MAX_AGENTS) {
    throw badRequest("agents", `agents may be at most ${MAX_AGENTS}: there are ${specs.length}`);
  }
  const readsOf = findReads(specs);
  const nodes = new Map<string, AgentNode>();
  const clusters: ClusterNode[] = [];
  for (const spec of inOrder(specs, readsOf)) {
    const reads = (readsOf.get(spec.id) ?? []).map((id) => nodes.get(id)!);
    const cluster = reads.length === 0 ? undefined : makeCluster(spec, reads);
    if (cluster !== undefined) clusters.push(cluster);
    else if (spec.minResponses !== undefined) {
      throw badRequest(
        `${spec.field}.min_responses`,
        `${spec.field}.min_responses is ${spec.minResponses}, but the agent reads nobody: leave it out`,
      );
    }
    nodes.set(spec.id, {
      id: spec.id,
      model: spec.model,
      template: spec.template,
      promptField: spec.promptField,
      sampling: spec.sampling,
      deadlineMs: spec.deadlineMs,
      onDeadline: spec.onDeadline,
      reads: cluster === undefined ? [] : [cluster],
    });
  }
  const outputs = makeOutputs(specs, readsOf, nodes, rules.minResponses);
  return {
    name: REQUEST_GRAPH,
    agents: [...nodes.values()],
    clusters: [...clusters, outputs],
    root: undefined,
    outputs,
    slots: rules.slots,
    stripReasoning: rules.stripReasoning,
    deadlineMs: rules.deadlineMs,
    compat: undefined,
    incrementalPrefill: rules.incrementalPrefill,
    onOverflow: rules.onOverflow,
  };
}

/** The agents that each agent reads, in declared order: those it lists, then those that only its slots name. */
function findReads(specs: readonly AgentSpec[]): Map<string, readonly string[]> {
  const known = new Set(specs.map((spec) => spec.id));
  const readsOf = new Map<string, readonly string[]>();
  let slots = 0;
  for (const spec of specs) {
    for (const [at, id] of spec.reads.entries()) {
      const place = `${spec.field}.reads[${at}]`;
      if (!known.has(id)) throw badRequest(place, `${place} names an agent ${quote(id)} that does not exist`);
      if (spec.reads.indexOf(id) !== at) throw badRequest(place, `${place} names ${quote(id)} again`);
    }
    const segments = segmentsOf(spec.template).filter((segment) => segment.kind !== "literal");
    slots += segments.length;
    if (slots > MAX_SLOTS) {
      throw badRequest(
        spec.promptField,
        `${spec.promptField} has too many slots: ${MAX_SLOTS} in all are allowed`,
      );
    }
    const named = new Set<string>();
    for (const segment of segments) {
      if (segment.kind !== "answer") continue;
      if (!known.has(segment.agent)) {
        throw badRequest(
          spec.promptField,
          `${spec.promptField} has a slot <|answer:${segment.agent}|>, but there is no such agent`,
        );
      }
      named.add(segment.agent);
    }
    const unused = spec.reads.find((id) => !named.has(id));
    if (unused !== undefined && !segments.some((segment) => segment.kind === "responses")) {
      throw badRequest(
        `${spec.field}.reads`,
        `${spec.field}.reads names ${quote(unused)}, but the prompt has no place for its answer: ` +
          `put [responses] or <|answer:${unused}|> into it`,
      );
    }
    readsOf.set(spec.id, [...new Set([...spec.reads, ...named])]);
  }
  return readsOf;
}

/** Agents after all that they read, otherwise in the order of the request. Throws 400 for a cycle. */
function inOrder(specs: readonly AgentSpec[], readsOf: ReadonlyMap<string, readonly string[]>): AgentSpec[] {
  const readers = new Map<string, AgentSpec[]>(specs.map((spec) => [spec.id, []]));
  const missing = new Map<string, number>();
  for (const spec of specs) {
    const reads = readsOf.get(spec.id) ?? [];
    missing.set(spec.id, reads.length);
    for (const id of reads) readers.get(id)?.push(spec);
  }
  const order = specs.filter((spec) => missing.get(spec.id) === 0);
  for (const { id } of order) {
    for (const reader of readers.get(id) ?? []) {
      const left = (missing.get(reader.id) ?? 0) - 1;
      missing.set(reader.id, left);
      if (left === 0) order.push(reader);
    }
  }
  if (order.length === specs.length) return order;
  const cycle = findCycle(specs, readsOf, new Set(order.map((spec) => spec.id)));
  const first = specs.find((spec) => spec.id === cycle[0])!;
  const shown = [...cycle.slice(0, 8), ...(cycle.length > 8 ? ["…"] : []), cycle[0]].join(" → ");
  throw badRequest(first.promptField, `${first.promptField} is part of a cycle (${shown} read each other)`);
}

/** A cycle, by what reads what: every agent that could not be ordered reads another such one. */
function findCycle(
  specs: readonly AgentSpec[],
  readsOf: ReadonlyMap<string, readonly string[]>,
  ordered: ReadonlySet<string>,
): string[] {
  const path: string[] = [];
  const seen = new Set<string>();
  let id = specs.find((spec) => !ordered.has(spec.id))!.id;
  while (!seen.has(id)) {
    seen.add(id);
    path.push(id);
    id = readsOf.get(id)!.find((read) => !ordered.has(read))!;
  }
  return path.slice(path.indexOf(id));
}

function makeCluster(spec: AgentSpec, agents: readonly AgentNode[]): ClusterNode {
  // Who allows an exit can do with as many answers as that needs.
  const least = spec.earlyExit.metric === "none" ? agents.length : leastAnswers(spec.earlyExit);
  const all = Math.min(least, agents.length);
  const minResponses = spec.minResponses ?? all;
  if (minResponses > agents.length) {
    throw badRequest(
      `${spec.field}.min_responses`,
      `${spec.field}.min_responses is ${minResponses}, but the agent reads only ${agents.length}`,
    );
  }
  return { id: `${spec.id}.reads`, agents, minResponses, earlyExit: spec.earlyExit };
}

function makeOutputs(
  specs: readonly AgentSpec[],
  readsOf: ReadonlyMap<string, readonly string[]>,
  nodes: ReadonlyMap<string, AgentNode>,
  minResponses: number,
): ClusterNode {
  const read = new Set([...readsOf.values()].flat());
  const agents = specs.filter((spec) => !read.has(spec.id)).map((spec) => nodes.get(spec.id)!);
  if (minResponses > agents.length) {
    throw badRequest(
      "min_responses",
      `min_responses is ${minResponses}, but only ${agents.length} agents are read by nobody`,
    );
  }
  return { id: "outputs", agents, minResponses, earlyExit: noEarlyExit };
}

function quote(id: string): string {
  return JSON.stringify(id.slice(0, 100));
}
