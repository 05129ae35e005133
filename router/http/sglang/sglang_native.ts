import { Hono } from "hono";
import { badRequest, CanopyError } from "../../../base/errors.ts";
import { isJsonObject, type Json, type JsonObject } from "../../../base/json.ts";
import { olderThan } from "../../engines/version.ts";
import type { Access } from "../gate/auth.ts";
import { parseBody, readBody } from "../gate/body.ts";
import type { Call, Env } from "../gate/context.ts";
import { isSet, shown } from "../gate/fields.ts";
import { findServedModel, modelNotFound } from "../gate/find_model.ts";
import { naming } from "../gate/naming.ts";
import { guarded, type Operation } from "../gate/route.ts";
import type { HttpServices } from "../gate/services.ts";
import { askHealth } from "./ask_health.ts";
import { engineMetrics } from "./engine_metrics.ts";
import {
  askWorkers,
  type FanOutTarget,
  isGood,
  unanswered,
  type WorkerAnswer,
  workersToAsk,
} from "./worker_fan_out.ts";
import type { ServedModel } from "../../served/served_model.ts";

/** Longest wait for a worker's answer; its loads come from a snapshot, its info from memory. */
const ANSWER_MS = 5_000;
/** Longest wait for a cache to be emptied. */
const FLUSH_MS = 30_000;

/** Members of a server's own description that nobody else should see. */
const SECRET = /api_key|password|keyfile|watermark_key|token$/;

/** SGLang's own routes about its servers, answered for all of them. `?model=` names one of several models. */
export function sglangNativeRoutes(http: HttpServices): Hono<Env> {
  const routes = new Hono<Env>();
  const add = (
    method: "GET" | "POST",
    path: string,
    summary: string,
    handle: (http: HttpServices, call: Call) => Promise<Response>,
    { access = "api", ...operation }: Partial<Operation> & { readonly access?: Access } = {},
  ) =>
    routes.on(method, path, guarded(http, access, { summary, ...operation }), (call) => handle(http, call));
  const all = { query: { model: "The servers of this model; by default all SGLang servers" } };
  const one = { query: { model: "The servers of this model; by default the first one that is served" } };
  add("POST", "/abort_request", "Stop a request by its `rid` on every SGLang server.", abort, all);
  for (const method of ["POST", "GET"] as const) {
    const operation = { ...all, access: "admin" } as const;
    add(method, "/flush_cache", "Empty the prefix caches of all SGLang servers.", flushCaches, operation);
  }
  for (const path of ["/get_server_info", "/server_info"]) {
    add("GET", path, "What SGLang's servers say about themselves; of pairs, both halves.", serverInfo, one);
  }
  for (const path of ["/get_model_info", "/model_info"]) {
    add("GET", path, "What an SGLang server says about its model.", modelInfo, one);
  }
  for (const path of ["/v1/loads", "/get_loads", "/loads"]) {
    add("GET", path, "The loads of all SGLang servers, each with its URL.", loads, all);
  }
  add("GET", "/get_load", "The loads of all SGLang servers, as a list.", loadList, all);
  add("GET", "/health_generate", "One worker of every served model was asked, and is well.", askHealth);
  add("GET", "/engine_metrics", "The workers' own metrics, each with its worker.", engineMetrics, {
    contentType: "text/plain",
  });
  return routes;
}

/**
 * Stops the caller's own requests of exactly this `rid`, or with `abort_all` everything. SGLang would take `rid` for the
 * beginning of ids, other clients' too. Where it is not known, nothing happens, as there.
 */
async function abort(http: HttpServices, call: Call): Promise<Response> {
  const { signal } = call.req.raw;
  const bytes = await readBody(call.req.raw, {
    maxBytes: http.config.server.max_body_bytes,
    clock: http.clock,
    signal,
  });
  const { rid, abort_all: all, ...rest } = bytes.length === 0 ? {} : await parseBody(bytes, http);
  const key = call.req.header("authorization");
  const targets = workersToAsk(sglangModels(http, call)).filter((target) => !leaksWhenAborted(target));
  const tell = (to: readonly FanOutTarget[], body: JsonObject) => {
    const question = { method: "POST", path: "/abort_request", limitMs: ANSWER_MS } as const;
    // A client that leaves now still wants it.
    return askWorkers(http, to, { ...question, body: JSON.stringify({ ...rest, ...body }) }, {
      call,
      signal: http.drain.cut,
    });
  };
  if (isTrue("abort_all", all)) {
    http.keys.check("admin", key);
    await tell(targets, { abort_all: true });
  } else if (isSet(rid)) {
    if (typeof rid !== "string") {
      throw badRequest("rid", `rid must be a string: current value is ${shown(rid)}`);
    }
    const live = http.relay.liveRids(rid, (owner) => http.keys.mayTouch(owner, key));
    await Promise.all(
      live.map((one) => tell(targets.filter(({ model }) => model.name === one.model), { rid: one.rid })),
    );
  }
  return new Response(null, { status: 200 });
}

/** The truth of a value in all the spellings that SGLang's servers (pydantic) take. Throws a 400 for any other. */
function isTrue(name: string, value: Json | undefined): boolean {
  if (!isSet(value)) return false;
  const word = String(value).trim().toLowerCase();
  if (["true", "t", "1", "yes", "y", "on"].includes(word)) return true;
  if (["false", "f", "0", "no", "n", "off"].includes(word)) return false;
  throw badRequest(name, `${name} must be true or false: current value is ${shown(value)}`);
}

/** A prefill server before 0.5.10 loses a buffer for each request that is aborted while it waits. */
function leaksWhenAborted({ model, worker }: FanOutTarget): boolean {
  const { version } = model.engine.capabilities;
  return worker.role === "prefill" && version !== undefined && olderThan(version, "0.5.10");
}

async function flushCaches(http: HttpServices, call: Call): Promise<Response> {
  const targets = workersToAsk(sglangModels(http, call));
  const question = { method: "POST", path: "/flush_cache", limitMs: FLUSH_MS } as const;
  const answers = await askWorkers(http, targets, question, { call });
  const failed = answers.filter((answer) => !isGood(answer));
  const flushed = answers.length - failed.length;
  return call.json({
    status: failed.length === 0 ? "success" : flushed === 0 ? "error" : "partial_success",
    message: failed.length === 0
      ? "Cache flushed on all workers"
      : `Cache not flushed on ${failed.map(complaintOf).join("; ")} (a server that is busy refuses)`,
    workers_flushed: flushed,
    total_http_workers: answers.length,
    total_workers: answers.length,
  }, failed.length === 0 ? 200 : failed.some((answer) => answer.status === 0) ? 502 : 400);
}

/**
 * The first server's description; of pairs also `prefill` and `decode`, one of each server, with which SGLang's bench
 * client knows a pair.
 */
async function serverInfo(http: HttpServices, call: Call): Promise<Response> {
  const targets = workersToAsk([firstModel(http, call)]);
  const answers = await askBoth(http, call, targets, "/get_server_info", "/server_info");
  const infos = answers.map(({ worker, text, status }) => {
    const told = status === 200 ? objectOf(text) : undefined;
    return { role: worker.role, info: told && openInfo(told) };
  });
  const first = infos.find(({ info }) => info !== undefined)?.info;
  if (first === undefined) throw unanswered(answers);
  const ofRole = (role: "prefill" | "decode") =>
    infos.flatMap((one) => one.role === role && one.info !== undefined ? [one.info] : []);
  const [decode] = ofRole("decode");
  if (decode === undefined) return call.json(first);
  return call.json({
    ...first,
    ...(decode.internal_states === undefined ? {} : { internal_states: decode.internal_states }),
    prefill: ofRole("prefill"),
    decode: ofRole("decode"),
  });
}

async function modelInfo(http: HttpServices, call: Call): Promise<Response> {
  const targets = workersToAsk([firstModel(http, call)]);
  const answers = await askBoth(http, call, targets.slice(0, 1), "/get_model_info", "/model_info");
  const info = answers.map(({ status, text }) => status === 200 ? objectOf(text) : undefined).find((one) =>
    one !== undefined
  );
  if (info === undefined) throw unanswered(answers);
  return call.json(info);
}

/** The loads of all servers with their sums; `workers` is what SGLang's router 0.3 has of it. */
async function loads(http: HttpServices, call: Call): Promise<Response> {
  const { list, silent } = await askLoads(http, call);
  const total = (name: string) => list.reduce((sum, load) => sum + Number(load[name] ?? 0), 0);
  return call.json({
    timestamp: new Date(http.clock.unixEpochMs + http.clock.now()).toISOString(),
    dp_rank_count: list.length,
    loads: list,
    aggregate: {
      total_running_reqs: total("num_running_reqs"),
      total_waiting_reqs: total("num_waiting_reqs"),
    },
    workers: list.map((load) => ({
      worker: load.worker,
      load: Number(load.num_running_reqs ?? 0) + Number(load.num_waiting_reqs ?? 0),
    })),
    unanswered: silent,
  });
}

async function loadList(http: HttpServices, call: Call): Promise<Response> {
  return call.json((await askLoads(http, call)).list);
}

/** The loads of all servers, and the names of those that did not tell; older servers know only `/get_load`. */
async function askLoads(
  http: HttpServices,
  call: Call,
): Promise<{ list: JsonObject[]; silent: string[] }> {
  const targets = workersToAsk(sglangModels(http, call));
  const { search } = new URL(call.req.url);
  const asked = await askWorkers(http, targets, get(`/v1/loads${search}`), { call });
  const unable = asked.filter((answer) => !isGood(answer));
  // 0.5.10.post1 fails where `include` is given, earlier ones do not know the path.
  const again = await askWorkers(http, unable, get("/get_load"), { call });
  const answers = asked.map((answer) => again.find(({ worker }) => worker === answer.worker) ?? answer);
  const answered = answers.filter(isGood);
  if (answered.length === 0) throw unanswered(answers);
  const nameOf = naming(http, call);
  const list = answered.flatMap((answer): JsonObject[] => {
    const { worker, model } = answer;
    const value = jsonOf(answer.text);
    const own = Array.isArray(value)
      ? value
      : isJsonObject(value) && Array.isArray(value.loads)
      ? value.loads
      : [];
    const type = worker.role ?? "regular";
    return own.filter(isJsonObject).map((load) => ({
      worker: nameOf(worker),
      worker_type: type,
      model: model.name,
      ...load,
      ...(load.num_running_reqs === undefined && typeof load.num_reqs === "number"
        ? { num_running_reqs: load.num_reqs - Number(load.num_waiting_reqs ?? 0) }
        : {}),
    }));
  });
  return { list, silent: answers.filter((answer) => !isGood(answer)).map(({ worker }) => nameOf(worker)) };
}

function get(path: string) {
  return { method: "GET", path, limitMs: ANSWER_MS } as const;
}

/** Servers know either spelling of a path, depending on their age. */
async function askBoth(
  http: HttpServices,
  call: Call,
  targets: readonly FanOutTarget[],
  older: string,
  newer: string,
): Promise<WorkerAnswer[]> {
  const asked = await askWorkers(http, targets, get(older), { call });
  const unknown = asked.filter(({ status }) => status === 404);
  const again = await askWorkers(http, unknown, get(newer), { call });
  return asked.map((answer) => again.find(({ worker }) => worker === answer.worker) ?? answer);
}

function sglangModels(http: HttpServices, call: Call): ServedModel[] {
  const named = call.req.query("model");
  if (named !== undefined) {
    const model = findServedModel(http, named);
    if (model === undefined) throw modelNotFound(named);
    return [model];
  }
  return [...http.models.values()].filter(({ config }) => config.engine.startsWith("sglang"));
}

function firstModel(http: HttpServices, call: Call): ServedModel {
  const models = sglangModels(http, call);
  const model = models.find(({ config }) => config.served) ?? models[0];
  if (model !== undefined) return model;
  throw new CanopyError("No SGLang server is served here: this route is about those", {
    code: "model_not_supported",
    status: 404,
  });
}

function objectOf(text: string): JsonObject | undefined {
  const value = jsonOf(text);
  return isJsonObject(value) ? value : undefined;
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** SGLang prints its arguments, keys included, and prints them again in each of its `internal_states`. */
function openInfo(info: JsonObject): JsonObject {
  return Object.fromEntries(
    Object.entries(info).map(([name, value]) => [name, SECRET.test(name) ? null : openValue(value)]),
  );
}

function openValue(value: Json): Json {
  if (Array.isArray(value)) return value.map(openValue);
  return isJsonObject(value) ? openInfo(value) : value;
}

/** For the operator, by the worker's address. */
function complaintOf({ worker, status, text }: WorkerAnswer): string {
  return `${worker.url} (${status === 0 ? text : `status ${status}`})`;
}
