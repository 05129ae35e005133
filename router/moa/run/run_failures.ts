import { CanopyError, messageOf } from "../../../base/errors.ts";
import type { AgentCall } from "../agent/agent_call.ts";
import type { MemberFailure } from "./cluster.ts";
import { type AgentGraph, type AgentNode, answeringAgents, type ClusterNode } from "../graph/graph_types.ts";
import type { Degraded } from "../record/usage.ts";

/** Agents that an error text names; the trace has them all. */
const MAX_NAMED = 8;

/**
 * The run's error when a cluster cannot reach its `minResponses`: 400 when the request itself was refused, 503 when
 * all that was missing was room, else 502.
 */
export function clusterFailure(cluster: ClusterNode, failures: readonly MemberFailure[]): CanopyError {
  const alike = Map.groupBy(
    failures.slice(0, MAX_NAMED),
    ({ agent, error }) => JSON.stringify([agent.model, messageOf(error)]),
  );
  const named = [...alike.values()].map((group) =>
    `${describe(group.map(({ agent }) => agent))}: ${messageOf(group[0]?.error)}`
  );
  const more = failures.length > MAX_NAMED ? `; and ${failures.length - MAX_NAMED} more` : "";
  const answers = cluster.agents.length - failures.length;
  const message =
    `Cluster ${cluster.id} needs ${cluster.minResponses} of ${cluster.agents.length} answers and can ` +
    `get at most ${answers}: ${named.join("; ")}${more}`;
  const first = failures[0]?.error;
  if (failures.every((failure) => isClientFault(failure.error)) && CanopyError.is(first)) {
    return asClientFault(first, message);
  }
  if (failures.every((failure) => isOverload(failure.error)) && CanopyError.is(first)) {
    return new CanopyError(message, {
      code: first.code,
      status: 503,
      retryAfterSeconds: first.retryAfterSeconds ?? 1,
      cause: first,
    });
  }
  return new CanopyError(message, { code: "agents_failed", status: 502, cause: first });
}

/** The agents whose answers a run does without because they failed; undefined when there are none. */
export function degradedBy(
  graph: Pick<AgentGraph, "agents" | "root" | "joined">,
  calls: readonly AgentCall[],
): Degraded | undefined {
  const answering = answeringAgents(graph);
  const failed = calls.filter(({ state, node }) => state === "failed" && !answering.includes(node));
  if (failed.length === 0) return undefined;
  return {
    agents: graph.agents.length - answering.length,
    failed: failed.map(({ id, node, error }) => ({ agent: id, model: node.model, reason: messageOf(error) })),
  };
}

/** The run's error when the root fails: the status tells a client whether it, time, load or a worker is at fault. */
export function rootFailure(root: AgentNode, error: unknown): CanopyError {
  const message = `${describe([root])} failed: ${messageOf(error)}`;
  if (!CanopyError.is(error)) {
    return new CanopyError(message, { code: "agents_failed", status: 502, cause: error });
  }
  if (isClientFault(error)) return asClientFault(error, message);
  const passed = error.status === 429 || error.status === 503 || error.status === 504;
  return new CanopyError(message, {
    code: error.code,
    status: passed ? error.status : 502,
    ...(error.retryAfterSeconds === undefined ? {} : { retryAfterSeconds: error.retryAfterSeconds }),
    cause: error,
  });
}

/** The error of a run without a root when too few of its outputs can be had; a single output's is like a root's. */
export function outputsFailure(cluster: ClusterNode, failures: readonly MemberFailure[]): CanopyError {
  const [first] = failures;
  if (first !== undefined && failures.length === 1 && cluster.agents.length === 1) {
    return rootFailure(first.agent, first.error);
  }
  return clusterFailure(cluster, failures);
}

/** The run's error when its own deadline has passed. */
export function runOverdue(graph: Pick<AgentGraph, "name" | "deadlineMs">): CanopyError {
  return new CanopyError(`The run of ${graph.name} took longer than its deadline of ${graph.deadlineMs} ms`, {
    code: "deadline_exceeded",
    status: 504,
  });
}

/** The run's error when somebody ends it: the client, or a shutdown. */
export function cancellation(reason: unknown): CanopyError {
  if (CanopyError.is(reason)) return reason;
  return new CanopyError(`The run was cancelled: ${messageOf(reason)}`, {
    code: "cancelled",
    status: 499,
    cause: reason,
  });
}

/** The run's error when the router itself is at fault. */
export function internalFailure(error: unknown): CanopyError {
  return new CanopyError(`The run failed inside the router: ${messageOf(error)}`, {
    code: "internal_error",
    status: 500,
    cause: error,
  });
}

/** A worker's 401 or 404 is about our config; these three are about what the client sent. */
function isClientFault(error: unknown): boolean {
  return CanopyError.is(error) && (error.status === 400 || error.status === 413 || error.status === 422);
}

/** The same request may well succeed later. */
function isOverload(error: unknown): boolean {
  return CanopyError.is(error) && (error.status === 429 || error.status === 503);
}

function asClientFault(error: CanopyError, message: string): CanopyError {
  return new CanopyError(message, {
    code: error.code,
    status: 400,
    ...(error.param === undefined ? {} : { param: error.param }),
    cause: error,
  });
}

/** Agents of one model that failed for one reason. */
function describe(agents: readonly AgentNode[]): string {
  const ids = agents.map(({ id }) => id);
  return `${ids.length === 1 ? "agent" : "agents"} ${ids.join(", ")} (model ${agents[0]?.model})`;
}
