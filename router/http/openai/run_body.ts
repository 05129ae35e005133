import type { Json, JsonObject } from "../../../base/json.ts";
import type { Prompt } from "../../engines/engine.ts";
import { byModel, type Counts } from "../metrics/by_model.ts";
import type { Include } from "./plan.ts";
import { answeringAgents, type Graph } from "../../moa/graph/graph_types.ts";
import type { TraceEvent } from "../../moa/record/trace.ts";
import { type RunUsage, splicedCachedShare } from "../../moa/record/usage.ts";
import type { Run } from "../../moa/run/run.ts";

/** Counts for `usage`: of a run, or of one agent. */
type Usage = Pick<
  RunUsage,
  "promptTokens" | "completionTokens" | "cachedTokens" | "reasoningTokens" | "cost" | "degraded" | "spent"
>;

/**
 * OpenAI's `usage`: the sum over all that is given. Details that no engine reported are left out. `answerTokens`: those
 * of the answer itself, where the others are of agents before it.
 */
export function usageBody(usages: readonly Usage[], answerTokens?: number): JsonObject {
  const sum = { prompt: 0, completion: 0, cached: 0, reasoning: 0 };
  let cachedKnown = false;
  for (const usage of usages) {
    sum.prompt += usage.promptTokens;
    sum.completion += usage.completionTokens;
    sum.reasoning += usage.reasoningTokens;
    sum.cached += usage.cachedTokens ?? 0;
    cachedKnown ||= usage.cachedTokens !== undefined;
  }
  const answer = answerTokens === undefined ? {} : { answer_tokens: answerTokens };
  return {
    prompt_tokens: sum.prompt,
    completion_tokens: sum.completion,
    total_tokens: sum.prompt + sum.completion,
    ...(cachedKnown ? { prompt_tokens_details: { cached_tokens: sum.cached } } : {}),
    completion_tokens_details: { reasoning_tokens: sum.reasoning, ...answer },
    ...costBody(usages),
    ...degradedBody(usages),
    ...spentBody(usages),
  };
}

/** `cost`: of all together; nothing where one of them has none. */
function costBody(usages: readonly { readonly cost?: number | undefined }[]): JsonObject {
  if (usages.length === 0 || usages.some(({ cost }) => cost === undefined)) return {};
  // A sum of decimal fractions has digits that nobody means.
  return { cost: Number(usages.reduce((sum, { cost = 0 }) => sum + cost, 0).toPrecision(12)) };
}

/** `spent`: what the runs of a request with a budget have spent, side by side and all together. */
function spentBody(usages: readonly Pick<Usage, "spent">[]): JsonObject {
  const all = usages.flatMap(({ spent }) => spent ?? []);
  if (all.length === 0) return {};
  const priced = all.some(({ cost }) => cost !== undefined);
  return {
    spent: {
      latency_ms: Math.round(Math.max(...all.map(({ latencyMs }) => latencyMs))),
      tokens: all.reduce((sum, { tokens }) => sum + tokens, 0),
      ...(priced ? { cost: all.reduce((sum, { cost = 0 }) => sum + cost, 0) } : {}),
      ended_by: all.find(({ endedBy }) => endedBy !== undefined)?.endedBy ?? null,
    },
  };
}

/** `degraded`: the agents that the runs did without because they failed; nothing when there are none. */
function degradedBody(usages: readonly Usage[]): JsonObject {
  const all = usages.flatMap(({ degraded }) => degraded ?? []);
  if (all.length === 0) return {};
  const failed = all.flatMap((one) => one.failed);
  return {
    degraded: {
      agents: all.reduce((sum, { agents }) => sum + agents, 0),
      failed: failed.slice(0, MAX_NAMED).map(({ agent, model, reason }): Json => ({ agent, model, reason })),
      ...(failed.length > MAX_NAMED ? { more: failed.length - MAX_NAMED } : {}),
    },
  };
}

/** Most failed agents that a usage names. */
const MAX_NAMED = 64;

/** Headers of an answer: the runs behind it, and how many agents have failed until now whose answers it lacks. */
export function runHeaders(runs: readonly Run[]): Record<string, string> {
  const ids = { "x-canopy-run-id": runs.slice(0, MAX_RUN_IDS).map((run) => run.id).join(",") };
  const all = runs.flatMap((run) => run.usage().degraded ?? []);
  if (all.length === 0) return ids;
  const failed = all.reduce((sum, one) => sum + one.failed.length, 0);
  const agents = all.reduce((sum, one) => sum + one.agents, 0);
  return { ...ids, "x-canopy-degraded": `${failed} of ${agents} agents failed` };
}

/** Most run ids in one header. */
const MAX_RUN_IDS = 32;

/** The `canopy` object of an answer: what `include` asks for, of one run, or of several under `runs`. */
export function canopyBody(runs: readonly Run[], graph: Graph, include: readonly Include[]): JsonObject {
  const answering = answeringAgents(graph);
  const panel = new Set(graph.agents.filter((agent) => !answering.includes(agent)).map(({ id }) => id));
  const parts = runs.map((run) => ofRun(run, panel, include));
  return parts.length === 1 ? parts[0]! : { runs: parts };
}

function ofRun(run: Run, panel: ReadonlySet<string>, include: readonly Include[]): JsonObject {
  const body: JsonObject = { run_id: run.id };
  if (include.includes("usage")) body["usage"] = breakdown(run.usage());
  if (include.includes("panel") || include.includes("trace")) {
    const record = run.record();
    if (include.includes("panel")) {
      // All but the root, whose text is the answer itself.
      body["panel"] = record.agents.filter((agent) => panel.has(agent.id)).map((agent): Json => ({
        agent: agent.id,
        model: agent.model,
        state: agent.state,
        text: agent.text,
        finish_reason: agent.finishReason ?? null,
        error: agent.error ?? null,
        ...(agent.fallback === undefined ? {} : { answered_by: agent.fallback.model }),
      }));
    }
    if (include.includes("trace")) {
      body["trace"] = record.events.map(traceEventBody);
    }
  }
  return body;
}

/** A trace event as JSON. */
export function traceEventBody(event: TraceEvent): JsonObject {
  return {
    at_ms: event.atMs,
    type: event.type,
    ...(event.agent === undefined ? {} : { agent: event.agent }),
    ...(event.cluster === undefined ? {} : { cluster: event.cluster }),
    ...(event.data === undefined ? {} : { data: event.data }),
  };
}

/** Usage of a run as JSON, with its sums per agent and per model. */
export function breakdown(usage: RunUsage): JsonObject {
  return {
    ...countsBody(usage),
    ...degradedBody([usage]),
    ...spentBody([usage]),
    agents: usage.agents.map((agent): Json => ({
      agent: agent.agent,
      model: agent.model,
      ...countsBody(agent),
    })),
    models: [...byModel(usage.parts)].map(([model, counts]): Json => ({ model, ...countsBody(counts) })),
  };
}

type ExtraCounts = Pick<
  RunUsage,
  "warmTokens" | "savedTokens" | "cutTokens" | "splicedTokens" | "splicedCachedTokens" | "cost"
>;

function countsBody(
  counts: Readonly<Omit<Counts, keyof ExtraCounts>> & ExtraCounts,
): JsonObject {
  const share = splicedCachedShare(counts);
  return {
    calls: counts.calls,
    prompt_tokens: counts.promptTokens,
    completion_tokens: counts.completionTokens,
    cached_tokens: counts.cachedTokens ?? null,
    reasoning_tokens: counts.reasoningTokens,
    wasted_tokens: counts.wastedTokens,
    warm_tokens: counts.warmTokens ?? 0,
    cut_tokens: counts.cutTokens ?? 0,
    spliced_tokens: counts.splicedTokens ?? 0,
    spliced_cached_tokens: counts.splicedCachedTokens ?? null,
    spliced_cached_share: share === undefined ? null : Math.round(share * 10_000) / 10_000,
    saved_tokens_estimate: counts.savedTokens ?? 0,
    ...costBody([counts]),
  };
}

/** A prompt as it was sent, as JSON; `null` before that. */
export function promptBody(prompt: Prompt | undefined): Json {
  if (prompt === undefined) return null;
  if (prompt.kind === "tokens") return { kind: "tokens", ids: [...prompt.ids] };
  if (prompt.kind === "text") return { kind: "text", text: prompt.text };
  return { kind: "chat", messages: [...prompt.messages] };
}
