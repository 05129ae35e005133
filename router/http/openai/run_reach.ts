import { badRequest } from "../../../base/errors.ts";
import type { JsonObject } from "../../../base/json.ts";
import { EFFORTS } from "../../../cfgs/schema/early_exit.ts";
import type { AgentGraph, Graph } from "../../moa/graph/graph_types.ts";
import type { RunInput, RunLimits } from "../../moa/graph/run_input.ts";
import { fallbacksOf } from "../../served/fallbacks.ts";
import type { ServedModel } from "../../served/served_model.ts";
import { isSet, shown } from "../gate/fields.ts";
import type { CommonRequest } from "./request_schema.ts";

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

/** `canopy.budget` of a request. Throws 400 for one without a limit. */
export function readBudget({ canopy }: Pick<CommonRequest, "canopy">): RunLimits | undefined {
  const budget = canopy?.budget ?? undefined;
  if (budget === undefined) return undefined;
  const { latency_ms: latencyMs, tokens, cost } = budget;
  const limits = { latencyMs: latencyMs ?? undefined, tokens: tokens ?? undefined, cost: cost ?? undefined };
  if (Object.values(limits).every((limit) => limit === undefined)) {
    throw badRequest("canopy.budget", "canopy.budget has no limit: give latency_ms, tokens or cost");
  }
  return limits;
}

/**
 * Throws 400 for a budget that cannot be kept: the request wants what only a call of the root's own can give, or costs
 * are limited and some model has no price, be it one that only answers in another's place.
 */
export function checkBudget(
  input: RunInput,
  graph: AgentGraph,
  models: ReadonlyMap<string, ServedModel>,
): void {
  const { budget, choices, rootLogprobs, rootSampling: { extra = {} } } = input;
  if (budget === undefined) return;
  const only = (what: string) =>
    badRequest(
      "canopy.budget",
      `canopy.budget cannot be kept: ${what}, and an answer of another agent would not do; leave one of them out`,
      "unsupported_parameter",
    );
  if (graph.joined !== undefined) throw only(`${graph.name} answers with the texts of several agents`);
  if (input.root === "staircase") throw only("a root that begins as a staircase reads again at each step");
  if (choices > 1) throw only("n asks for several answers of the root");
  if (rootLogprobs !== undefined) throw only("logprobs are those of the root");
  const [field] = Object.keys(extra);
  if (field !== undefined) throw only(`${field.slice(0, 60)} is for the root`);
  if (budget.cost === undefined) return;
  const judges = graph.clusters.filter(({ earlyExit: { metric } }) =>
    metric === "verdict" || metric === "agreement"
  );
  const agents = graph.agents.map(({ model }) => model);
  const named = [
    ...agents,
    ...agents.flatMap((name) => fallbacksOf(name, (key) => models.get(key)).map(({ name }) => name)),
    ...judges.map(({ earlyExit }) => earlyExit.verdict.model),
    graph.rewriteTemplate && graph.runExit?.consensus.rewrite.model,
  ].filter((name) => name !== undefined);
  const unpriced = [...new Set(named)].filter((name) => models.get(name)?.config.price === undefined);
  if (unpriced.length === 0) return;
  throw badRequest(
    "canopy.budget.cost",
    `canopy.budget.cost needs the prices of all models of ${graph.name}, and of those that may answer in their ` +
      `place: ${unpriced.join(", ")} ${unpriced.length === 1 ? "has" : "have"} none; ` +
      `set models.${unpriced[0]}.price, or leave cost out`,
  );
}
