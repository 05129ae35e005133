import { Hono } from "hono";
import { CanopyError } from "../../../base/errors.ts";
import type { Call, Env } from "../gate/context.ts";
import { queryFlag } from "../gate/query_flag.ts";
import { guarded, type Operation } from "../gate/route.ts";
import type { HttpServices } from "../gate/services.ts";
import { endedRunSchema, runEventSchema, runListSchema, runSchema } from "./response_schema.ts";
import { recordBody } from "./run_bodies.ts";
import { endedEventStream, runEventStream } from "./run_event_stream.ts";
import { RUN_PAGE_QUERY, runList, runPage, usableArchive } from "./run_list.ts";
import type { ArchivedRecord } from "../../archive/archive_thread.ts";
import type { RunRecord } from "../../moa/record/run_record.ts";
import type { Run } from "../../moa/run/run.ts";

/** The records of runs: the prompt and text of each agent, and every decision. */
export function runRoutes(http: HttpServices): Hono<Env> {
  const routes = new Hono<Env>();
  const guard = (operation: Operation) => guarded(http, "owner", operation);
  routes.get(
    "/v1/runs",
    guard({
      summary: "Runs, live ones first, then the newest, without prompts and texts.",
      query: RUN_PAGE_QUERY,
      response: runListSchema,
    }),
    async (call) => {
      const key = call.req.header("authorization");
      // Nobody has an empty name.
      const owner = http.keys.mayTouchAll(key) ? undefined : http.keys.ownerOf(key) ?? "";
      const page = runPage((name) => call.req.query(name), owner);
      return await runList({ moa: http.moa, archive: usableArchive(http.archive) }, page);
    },
  );
  routes.get(
    "/v1/runs/:id",
    guard({
      summary: "One run with all prompts, texts and events, as far as they are kept.",
      response: runSchema,
    }),
    async (call) => {
      const record = recordInMemory(http, call);
      if (record !== undefined) return call.json(recordBody(record));
      return jsonAnswer((await archived(http, call)).bytes);
    },
  );
  routes.delete(
    "/v1/runs/:id",
    guard({
      summary: "Cancel a run; answers when no engine works for it any more.",
      response: endedRunSchema,
    }),
    (call) => cancel(http, call),
  );
  routes.post(
    "/v1/runs/:id/cancel",
    guard({ summary: "Cancel a run; the same as DELETE.", response: endedRunSchema }),
    (call) => cancel(http, call),
  );
  routes.get(
    "/v1/runs/:id/events",
    guard({
      summary: "The trace of a run, past events first, as server-sent events.",
      query: { texts: "true: what agents write, too" },
      response: runEventSchema,
      contentType: "text/event-stream",
    }),
    async (call) => {
      const run = runInMemory(http, call);
      const texts = queryFlag(call, "texts");
      if (run !== undefined) return runEventStream(run, { texts, client: call.req.raw.signal });
      await archived(http, call);
      return endedEventStream(await http.archive?.events(runId(call)) ?? []);
    },
  );
  return routes;
}

async function cancel(http: HttpServices, call: Call): Promise<Response> {
  const run = runInMemory(http, call);
  // What only the archive knows has ended.
  if (run === undefined) {
    const { state } = await archived(http, call);
    return call.json({ id: runId(call), object: "run", state });
  }
  await run.cancel(
    new CanopyError(`The run ${run.id} was cancelled on request`, { code: "run_cancelled", status: 499 }),
  );
  return call.json({ id: run.id, object: "run", state: run.record().state });
}

function jsonAnswer(bytes: Uint8Array<ArrayBuffer>): Response {
  return new Response(bytes, { headers: { "content-type": "application/json" } });
}

function runId(call: Call): string {
  return call.req.param("id") ?? "";
}

/** Undefined for a run that is not in memory. Throws `admin_key_required` (403) for a run of another key. */
function runInMemory(http: HttpServices, call: Call): Run | undefined {
  const run = http.moa.get(runId(call));
  if (run !== undefined) checkOwner(http, call, run.record().owner);
  return run;
}

/** As `runInMemory`. */
function recordInMemory(http: HttpServices, call: Call): RunRecord | undefined {
  const id = runId(call);
  const record = http.moa.get(id)?.record() ?? http.moa.list().find((one) => one.id === id);
  if (record !== undefined) checkOwner(http, call, record.owner);
  return record;
}

/** A run of the archive. Throws `run_not_found` (404), or 403 for a run of another key. */
async function archived(http: HttpServices, call: Call): Promise<ArchivedRecord> {
  const run = await usableArchive(http.archive)?.get(runId(call));
  if (run === undefined) throw runNotFound(runId(call));
  checkOwner(http, call, run.owner);
  return run;
}

/** Throws `admin_key_required` (403) for a run of another key. */
function checkOwner({ keys }: HttpServices, call: Call, owner: string | undefined): void {
  if (!keys.mayTouch(owner, call.req.header("authorization"))) {
    throw keys.notYours(`The run ${runId(call)}`);
  }
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
