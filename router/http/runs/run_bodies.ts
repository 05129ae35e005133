import { int64Json } from "../../../base/int64.ts";
import type { Json, JsonObject } from "../../../base/json.ts";
import { breakdown, promptBody, traceEventBody } from "../openai/run_body.ts";
import type {
  AgentRecord,
  DrawnBy,
  ExitRecord,
  RecordedRequest,
  RunRecord,
  StepRecord,
} from "../../moa/record/run_record.ts";

/** A run as a list shows it: without prompts and texts. */
export function summaryBody(record: RunRecord): JsonObject {
  return {
    id: record.id,
    object: "run",
    request_id: record.requestId ?? null,
    graph: record.graph,
    effort: record.effort ?? null,
    state: record.state,
    created: Math.floor(record.startedAtUnixMs / 1000),
    created_ms: Math.floor(record.startedAtUnixMs),
    duration_ms: record.durationMs ?? null,
    error: record.error === undefined ? null : { message: record.error.message, code: record.error.code },
    early_exits: record.exits.filter(({ exit }) => exit).length,
    usage: breakdown(record.usage),
  };
}

/** A run with all prompts, texts and events. */
export function recordBody(record: RunRecord): JsonObject {
  return {
    ...factsBody(record),
    agents: record.agents.map(agentBody),
    events: record.events.map(traceEventBody),
  };
}

/** All of a run but what its agents did and its events. */
export function factsBody(record: RunRecord): JsonObject {
  return {
    ...summaryBody(record),
    graph_hash: record.graphHash ?? null,
    request: record.request === undefined ? null : requestBody(record.request),
    draw_seed: record.drawSeed,
    exits: record.exits.map(exitBody),
    cuts: (record.cuts ?? []).map(({ agent, cluster, atMs, savedTokens }) => ({
      agent,
      cluster,
      at_ms: atMs,
      saved_tokens: savedTokens,
    })),
    exit_audit: record.audit === undefined
      ? null
      : { ...record.audit, found: record.audit.found ?? null, doubt: record.audit.doubt ?? null },
    rewrite: record.rewrite === undefined ? null : {
      given: record.rewrite.given,
      reason: record.rewrite.reason ?? null,
      agent: agentBody(record.rewrite.agent),
    },
    root_skipped: record.rootSkipped,
  };
}

/** What was asked, as it is sent again: the seed stands in the body. */
function requestBody({ path, body, seed }: RecordedRequest): JsonObject {
  return { path, body: seed === undefined ? body : { ...body, seed: int64Json(seed) } };
}

function drawnBody({ temperature, seed }: DrawnBy): JsonObject {
  return { temperature: temperature ?? null, seed: seed === undefined ? null : int64Json(seed) };
}

function exitBody(exit: ExitRecord): Json {
  const { cluster, metric, completions, late, ms } = exit;
  return { cluster, metric, at_ms: exit.atMs, completions, exit: exit.exit, late, ms };
}

/** An agent of a run. */
export function agentBody(agent: AgentRecord): Json {
  return {
    id: agent.id,
    model: agent.model,
    state: agent.state,
    sampling: agent.sampling === undefined ? null : drawnBody(agent.sampling),
    reads: [...agent.reads ?? []],
    worker: agent.worker ?? null,
    prompt: promptBody(agent.prompt),
    text: agent.text,
    reasoning: agent.reasoning,
    ...(agent.logprobs === undefined ? {} : { logprobs: agent.logprobs.map(shortened) }),
    finish_reason: agent.finishReason ?? null,
    error: agent.error ?? null,
    ended_for: agent.endedFor ?? null,
    started_at_ms: agent.startedAtMs ?? null,
    first_token_at_ms: agent.firstTokenAtMs ?? null,
    ended_at_ms: agent.endedAtMs ?? null,
    resumes: agent.resumes,
    restarts: agent.restarts,
    hedge: agent.hedge === undefined ? null : {
      worker: agent.hedge.worker,
      started_at_ms: agent.hedge.startedAtMs,
      ended_at_ms: agent.hedge.endedAtMs ?? null,
      outcome: agent.hedge.outcome ?? null,
      tokens: agent.hedge.tokens,
    },
    ...(agent.fallback === undefined ? {} : { fallback: { ...agent.fallback } }),
    ...(agent.steps === undefined ? {} : { steps: agent.steps.map(stepBody) }),
  };
}

/** Digits of a log-probability that are kept: fewer than engines give, more than any decision needs. */
const LOGPROB_UNITS = 1e6;

/** A number that is short as JSON; minus infinity becomes null there. */
function shortened(logprob: number): number {
  return Math.round(logprob * LOGPROB_UNITS) / LOGPROB_UNITS;
}

/** One step of an answer that was begun before its prompt was whole. */
function stepBody(step: StepRecord): Json {
  return {
    started_at_ms: step.startedAtMs,
    ended_at_ms: step.endedAtMs ?? null,
    last: step.isLast,
    reads: { ...step.reads },
    before: step.before,
    prompt_tokens: step.promptTokens ?? null,
    cached_tokens: step.cachedTokens ?? null,
    completion_tokens: step.completionTokens ?? null,
  };
}
