import { CanopyError } from "../../../base/errors.ts";
import type { AgentNode } from "../graph/graph_types.ts";

/** A call's error when its agent's deadline has passed. */

export function agentOverdue(id: string, { deadlineMs }: Pick<AgentNode, "deadlineMs">): CanopyError {
  return new CanopyError(`Agent ${id} took longer than its deadline of ${deadlineMs} ms`, {
    code: "deadline_exceeded",
    status: 504,
  });
}
