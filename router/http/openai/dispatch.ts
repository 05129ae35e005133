import { badRequest, CanopyError } from "../../../base/errors.ts";
import type { JsonObject } from "../../../base/json.ts";
import type { Call } from "../gate/context.ts";
import { findServedModel, modelNotFound, onlyServedModel } from "../gate/find_model.ts";
import { type ReadRequest, tracingHeaders, withBody } from "../gate/read_request.ts";
import type { HttpServices } from "../gate/services.ts";
import { serveEngine } from "./engine_model.ts";
import { engineRoute } from "./engine_routes.ts";
import type { Translation } from "./translation.ts";
import { serveVirtual } from "./virtual_model.ts";
import type { Graph } from "../../moa/graph/graph_types.ts";
import type { ServedModel } from "../../served/served_model.ts";
import { saysJson } from "../../wire/headers.ts";

/** The task of a route. `engine`: something that only engine models can do; a translation: of graphs' requests. */
export type Task = "chat" | "completion" | "engine" | Translation;

/** Serves a request that names a model: a run for a virtual model, a relay for an engine model. */
export function dispatch(http: HttpServices, call: Call, task: Task): Promise<Response> {
  return withBody(http, call, (request) => serveByModel(http, request, task));
}

/** Serves a request that was read by the model that it names; throws, or rejects with, a `CanopyError`. */
export function serveByModel(
  http: HttpServices,
  { call, bytes, body, scope }: ReadRequest,
  task: Task,
): Promise<Response> {
  const { path: asked } = call.req;
  const target = findTarget(http, body, asked);
  if ("model" in target) {
    scope.model = target.model.name;
    const path = workerPath(target.model, asked);
    const sent = engineHeaders(call);
    // The body was read as JSON, whatever it was called: engines go by the name.
    const headers = saysJson(sent["content-type"]) ? sent : { ...sent, "content-type": "application/json" };
    const request = { model: target.model, path, query: queryOf(call), headers, bytes, body };
    return serveEngine(http, request, scope);
  }
  const { graph } = target;
  scope.model = graph.name;
  if (task === "engine") throw engineModelsOnly(graph.name, asked);
  const headers = tracingHeaders(call);
  return serveVirtual(http, { kind: task, path: asked, graph, body, headers }, scope);
}

/** The query as it came, with its question mark; empty without one. */
export function queryOf({ req: { url } }: Call): string {
  const at = url.indexOf("?");
  return at < 0 ? "" : url.slice(at);
}

/** The client's headers for a worker, by lower-case names, with the request's id. */
export function engineHeaders(call: Call): Readonly<Record<string, string>> {
  const headers = call.get("headers");
  return call.get("span")?.carriedBy(headers) ?? headers;
}

/** The path of a request on a worker of the model, without its query. Throws 501 for one that pairs do not serve. */
export function workerPath(model: ServedModel, path: string): string {
  const route = engineRoute(path);
  if (route !== undefined && !route.pairs && model.config.engine.endsWith("-pd")) {
    throw new CanopyError(
      `${model.name} is served by prefill/decode pairs, which have no ${path}: ask a model on whole servers`,
      { code: "not_implemented", status: 501, param: "model" },
    );
  }
  return route?.workerPath ?? path;
}

/** The 404 of a route that relays, for a virtual model. */
export function engineModelsOnly(name: string, path: string): CanopyError {
  return new CanopyError(`${name} is a virtual model and has no ${path}: ask an engine model`, {
    code: "model_not_supported",
    status: 404,
    param: "model",
  });
}

/** The graph or model that a request is for. Throws 400 without a name, 404 for a name that is not served. */
export function findTarget(
  http: HttpServices,
  body: JsonObject,
  path: string,
): { graph: Graph } | { model: ServedModel } {
  if (http.models.size + http.moa.graphs.size === 0) throw nothingServed(http);
  const name = body["model"];
  if (name === undefined || name === null) {
    const only = modelOfUnnamed(http, path) ?? modelOfAnyName(http);
    if (only !== undefined) return { model: only };
    throw badRequest(
      "model",
      "model is required: GET /v1/models lists the models that are served",
      "missing_field",
    );
  }
  if (typeof name !== "string") throw badRequest("model", "model must be a string");
  const graph = http.moa.graphs.get(name);
  if (graph !== undefined) return { graph };
  const model = findServedModel(http, name) ?? modelOfAnyName(http);
  if (model !== undefined) return { model };
  throw modelNotFound(name);
}

/**
 * SGLang answers for any model's name, or none, with the model it has: so does a router that serves nothing else. Where
 * the model was learned from its workers, they know whether they have another one, such as an adapter.
 */
function modelOfAnyName(http: HttpServices): ServedModel | undefined {
  const only = http.moa.graphs.size === 0 ? onlyServedModel(http) : undefined;
  return http.fleet !== undefined || only?.config.engine.startsWith("sglang") === true ? only : undefined;
}

/** The refusal of a router whose first worker is still to come. */
function nothingServed({ fleet }: HttpServices): CanopyError {
  const waiting = fleet?.pending.length ?? 0;
  return new CanopyError(
    waiting === 0
      ? "No worker is here yet: add one by POST /workers"
      : `${waiting} workers have not named their model yet: ask again soon`,
    { code: "no_worker", status: 503, retryAfterSeconds: 1 },
  );
}

/** SGLang's own clients name no model: they mean the only one there is. */
function modelOfUnnamed(http: HttpServices, path: string): ServedModel | undefined {
  const route = engineRoute(path);
  if (route?.pairs) {
    // Clients that probe for a tokenizer (lm-eval, vllm bench) take this for "there is none".
    throw new CanopyError(`${path} needs the name of an engine model: a virtual model has no tokenizer`, {
      code: "model_not_supported",
      status: 404,
      param: "model",
    });
  }
  return path === "/generate" || route?.nameless ? onlyServedModel(http) : undefined;
}
