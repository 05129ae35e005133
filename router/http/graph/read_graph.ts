import { badRequest } from "../../../base/errors.ts";
import { isJsonObject, type JsonObject } from "../../../base/json.ts";
import { noEarlyExit } from "../../../cfgs/schema/early_exit.ts";
import { MAX_AGENTS } from "../../../cfgs/topology/expanded_graph.ts";
import { fieldError, isSet, shown, within } from "../gate/fields.ts";
import type { HttpServices } from "../gate/services.ts";
import { type AgentSpec, buildRequestGraph } from "./build_graph.ts";
import { type AgentDefaults, readAgent, readParameters } from "./read_agent.ts";
import { defaultPrefill, graphRequestSchema, type RulesRequest, rulesSchema } from "./request_schema.ts";
import type { AgentGraph } from "../../moa/graph/graph_types.ts";

/** Ids can be written into slots and error texts, and are not taken for something else there. */
export const ID = /^[\p{L}\p{N}_.:/-]{1,128}$/u;

/** Additions to an answer, on request. */
export type GraphInclude = "prompts" | "trace";

/** A request for a graph. */
export interface GraphPlan {
  readonly graph: AgentGraph;
  readonly stream: boolean;
  readonly include: readonly GraphInclude[];
}

/** Reads the body of POST /v1/graph. Throws 400 naming the field at fault. */
export function readGraph(http: HttpServices, body: JsonObject): GraphPlan {
  for (const name of Object.keys(body)) {
    if (body[name] !== null && !Object.hasOwn(graphRequestSchema.shape, name)) {
      throw badRequest(
        name.slice(0, 100),
        `${
          name.slice(0, 100)
        } is not a field of a graph: parameters of a generation belong to an agent, or to sampling`,
        "unknown_field",
      );
    }
  }
  const parsed = rulesSchema.safeParse(body);
  if (!parsed.success) throw fieldError(parsed.error, body);
  const rules = parsed.data;
  const agents = body["agents"];
  if (!isSet(agents)) {
    throw badRequest("agents", "agents is required: an object of agents by their ids", "missing_field");
  }
  if (!isJsonObject(agents)) {
    throw badRequest("agents", `agents must be an object of agents by their ids: it is ${shown(agents)}`);
  }
  const entries = Object.entries(agents);
  if (entries.length > MAX_AGENTS) {
    throw badRequest("agents", `agents may be at most ${MAX_AGENTS}: there are ${entries.length}`);
  }
  const defaults: AgentDefaults = {
    sampling: within(
      "sampling",
      () => isJsonObject(body["sampling"]) ? readParameters(body["sampling"]) : {},
    ),
    onDeadline: rules.on_deadline ?? "drop",
    earlyExit: rules.early_exit ?? noEarlyExit,
  };
  const specs = entries.map(([id, agent]) => {
    if (!ID.test(id)) {
      throw badRequest(
        "agents",
        `agents has an id ${JSON.stringify(id.slice(0, 60))}: use 1 to 128 letters, digits, _, ., :, / and -`,
      );
    }
    return readAgent(http, id, agent, defaults);
  });
  checkRequestedExit(http, specs, defaults.earlyExit);
  const prefill = rules.incremental_prefill ?? defaultPrefill;
  const graph = buildRequestGraph(specs, {
    minResponses: rules.min_responses ?? 1,
    slots: rules.slots ?? "declared",
    stripReasoning: rules.strip_reasoning ?? true,
    deadlineMs: rules.deadline_ms ?? undefined,
    incrementalPrefill: {
      mode: prefill.mode,
      chunkTokens: prefill.chunk_tokens,
      maxStallMs: prefill.max_stall_ms,
    },
    onOverflow: rules.on_overflow ?? "cut_middle",
  });
  checkRoot(graph, rules);
  return { graph, stream: rules.stream === true, include: rules.include ?? [] };
}

function checkRoot(graph: AgentGraph, { root }: RulesRequest): void {
  if (!isSet(root)) return;
  const outputs = (graph.outputs?.agents ?? []).map((agent) => agent.id);
  if (outputs.length === 1 && outputs[0] === root) return;
  const named = JSON.stringify(root.slice(0, 100));
  if (!graph.agents.some((agent) => agent.id === root)) {
    throw badRequest("root", `root is ${named}, but there is no such agent`);
  }
  const others = outputs.filter((id) => id !== root).slice(0, 8).join(", ");
  throw badRequest("root", `root is ${named}, but these agents are read by nobody, too: ${others}`);
}

/** Throws 400 naming the field for early exit that names nobody, or that cannot be decided here. */
export function checkRequestedExit(
  http: HttpServices,
  specs: readonly AgentSpec[],
  ofAll: AgentSpec["earlyExit"],
): void {
  const agents = new Set(specs.map(({ id }) => id));
  const models = new Set(specs.map(({ model }) => model));
  const seen = new Set<AgentSpec["earlyExit"]>();
  for (const { earlyExit, field } of specs) {
    if (seen.has(earlyExit)) continue;
    seen.add(earlyExit);
    within(earlyExit === ofAll ? "" : field, () => {
      if (earlyExit.scope === "run") {
        throw badRequest(
          "early_exit.scope",
          'early_exit.scope is "run": only virtual models of the configuration end whole runs; use "cluster"',
        );
      }
      for (const [at, name] of earlyExit.never_skip.entries()) {
        const place = `early_exit.never_skip[${at}]`;
        if (agents.has(name) || models.has(name)) continue;
        throw badRequest(
          place,
          `${place} is ${shown(name)}: there is no such agent, and no agent of such a model`,
        );
      }
      const { model } = earlyExit.verdict;
      if (model !== undefined && http.models.get(model)?.config.served !== true) {
        throw badRequest(
          "early_exit.verdict.model",
          `early_exit.verdict.model is ${shown(model)}, which is not served`,
        );
      }
      http.moa.checkEarlyExit(earlyExit);
    });
  }
}
