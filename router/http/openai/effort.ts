import { badRequest } from "../../../base/errors.ts";
import type { JsonObject } from "../../../base/json.ts";
import { EFFORTS } from "../../../cfgs/schema/early_exit.ts";
import type { Graph } from "../../moa/graph/graph_types.ts";
import { isSet, shown } from "../gate/fields.ts";

/**
 * The graph at the level of effort that a request asks for, and the request without that, which is no engine's then.
 * Throws 400 for a level that is none.
 */
export function atEffort(
  graph: Graph,
  body: JsonObject,
): { readonly graph: Graph; readonly body: JsonObject } {
  const { reasoning_effort: asked, ...rest } = body;
  if (!isSet(asked) || graph.efforts === undefined) return { graph, body };
  const effort = EFFORTS.find((one) => one === asked);
  if (effort !== undefined) return { graph: graph.efforts[effort], body: rest };
  throw badRequest(
    "reasoning_effort",
    `reasoning_effort must be ${
      EFFORTS.join(", ")
    } for ${graph.name}, where it says how far a run goes: current ` +
      `value is ${shown(asked)}`,
  );
}
