import { Hono } from "hono";
import { badRequest, CanopyError } from "../../../base/errors.ts";
import type { Json, JsonObject } from "../../../base/json.ts";
import type { Call, Env } from "../gate/context.ts";
import { guarded, type Operation } from "../gate/route.ts";
import type { HttpServices } from "../gate/services.ts";
import { breakdown, promptBody, traceEventBody } from "../openai/run_body.ts";
import { runEventStream } from "./run_event_stream.ts";
import type { AgentRecord, ExitRecord, RunRecord, StepRecord } from "../../moa/record/run_record.ts";
import type { Run } from "../../moa/run/run.ts";

const DEFAULT_LIMIT = 100;
const MAX_LIMIT = 1000;

/** The records of runs: the prompt and text of each agent, and every decision. */
export function runRoutes(http: HttpServices): Hono<Env> {
  const routes = new Hono<Env>();
  const guard = (operation: Operation) => guarded(http, "owner", operation);
  routes.get(
    "/v1/runs",
    guard({ summary: "Runs, live ones first, without prompts and texts (?limit=N, ?request_id=ID)." }),
    (call) => {
      const key = call.req.header("authorization");
      const request = call.req.query("request_id");
      const own = http.moa.list().filter(({ owner, requestId }) =>
        http.keys.mayTouch(owner, key) && (request === undefined || requestId === request)
      );
      const records = own.slice(0, limitOf(call));
      return call.json({ object: "list", data: records.map(summaryBody) });
    },
  );
  routes.get(
    "/v1/runs/:id",
    guard({ summary: "One run with all prompts, texts and events." }),
    (call) => call.json(recordBody(findRecord(http, call))),
  );
  routes.delete(
    "/v1/runs/:id",
    guard({ summary: "Cancel a run; answers when no engine works for it any more." }),
    (call) => cancel(http, call),
  );
  routes.post(
    "/v1/runs/:id/cancel",
    guard({ summary: "Cancel a run; the same as DELETE." }),
    (call) => cancel(http, call),
  );
  routes.get(
    "/v1/runs/:id/events",
    guard({
      summary:
        "The trace of a run, past events first, as server-sent events; with ?texts=true what agents write, too.",
      contentType: "text/event-stream",
    }),
    (call) => {
      const run = liveRun(http, call);
      return runEventStream(run, { texts: textsWanted(call), client: call.req.raw.signal });
    },
  );
  return routes;
}

async function cancel(http: HttpServices, call: Call): Promise<Response> {
  const run = liveRun(http, call);
  await run.cancel(
    new CanopyError(`The run ${run.id} was cancelled on request`, { code: "run_cancelled", status: 499 }),
  );
  return call.json({ id: run.id, object: "run", state: run.record().state });
}

function limitOf(call: Call): number {
  const text = call.req.query("limit");
  if (text === undefined) return DEFAULT_LIMIT;
  const limit = Number(text);
  if (!Number.isInteger(limit) || limit < 1 || limit > MAX_LIMIT) {
    throw badRequest(
      "limit",
      `limit must be a whole number from 1 to ${MAX_LIMIT}: current value is ${text}`,
    );
  }
  return limit;
}

/** `?texts`. Throws 400 for what is neither true nor false. */
function textsWanted(call: Call): boolean {
  const text = call.req.query("texts") ?? "false";
  if (text === "true" || text === "false") return text === "true";
  throw badRequest("texts", `texts must be true or false: current value is ${text}`);
}

function runId(call: Call): string {
  return call.req.param("id") ?? "";
}

function liveRun(http: HttpServices, call: Call): Run {
  const run = http.moa.get(runId(call));
  if (run === undefined) throw runNotFound(runId(call));
  checkOwner(http, call, run.record());
  return run;
}

function findRecord(http: HttpServices, call: Call): RunRecord {
  const id = runId(call);
  const record = http.moa.get(id)?.record() ?? http.moa.list().find((one) => one.id === id);
  if (record === undefined) throw runNotFound(id);
  checkOwner(http, call, record);
  return record;
}

/** Throws `admin_key_required` (403) for a run of another key. */
function checkOwner({ keys }: HttpServices, { req }: Call, { id, owner }: RunRecord): void {
  if (!keys.mayTouch(owner, req.header("authorization"))) throw keys.notYours(`The run ${id}`);
}

function runNotFound(id: string): CanopyError {
  return new CanopyError(
    `There is no run ${JSON.stringify(id.slice(0, 100))}: it never was, or is not kept any more`,
    {
      code: "run_not_found",
      status: 404,
      param: "id",
    },
  );
}

function summaryBody(record: RunRecord): JsonObject {
  return {
    id: record.id,
    object: "run",
    request_id: record.requestId ?? null,
    graph: record.graph,
    effort: record.effort ?? null,
    state: record.state,
    created: Math.floor(record.startedAtUnixMs / 1000),
    duration_ms: record.durationMs ?? null,
    error: record.error === undefined ? null : { message: record.error.message, code: record.error.code },
    early_exits: record.exits.filter(({ exit }) => exit).length,
    usage: breakdown(record.usage),
  };
}

function recordBody(record: RunRecord): JsonObject {
  return {
    ...summaryBody(record),
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
      : { found: record.audit.found ?? null, off: record.audit.off },
    rewrite: record.rewrite === undefined ? null : {
      given: record.rewrite.given,
      reason: record.rewrite.reason ?? null,
      agent: agentBody(record.rewrite.agent),
    },
    root_skipped: record.rootSkipped,
    agents: record.agents.map(agentBody),
    events: record.events.map(traceEventBody),
  };
}

function exitBody(exit: ExitRecord): Json {
  const { cluster, metric, completions, late, ms } = exit;
  return { cluster, metric, at_ms: exit.atMs, completions, exit: exit.exit, late, ms };
}

function agentBody(agent: AgentRecord): Json {
  return {
    id: agent.id,
    model: agent.model,
    state: agent.state,
    reads: [...agent.reads ?? []],
    worker: agent.worker ?? null,
    prompt: promptBody(agent.prompt),
    text: agent.text,
    reasoning: agent.reasoning,
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
