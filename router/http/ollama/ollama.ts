import { Hono } from "hono";
import { badRequest, CanopyError } from "../../../base/errors.ts";
import type { Json, JsonObject } from "../../../base/json.ts";
import type { Call, Env } from "../gate/context.ts";
import { fieldError, isSet } from "../gate/fields.ts";
import { findServedModel, modelNotFound } from "../gate/find_model.ts";
import { type ReadRequest, tracingHeaders, withBody } from "../gate/read_request.ts";
import { guarded } from "../gate/route.ts";
import type { HttpServices } from "../gate/services.ts";
import type { Translation } from "../openai/translation.ts";
import { serveVirtual } from "../openai/virtual_model.ts";
import { listedGraphs, loadedGraphs, shownGraph, TAG } from "./ollama_models.ts";
import { ollamaChats, ollamaGenerations, readGenerate, readOllamaChat } from "./ollama_translation.ts";
import { ollamaChatSchema, ollamaGenerateSchema, ollamaShowSchema } from "./request_schema.ts";
import {
  ollamaAnswerSchema,
  ollamaErrorSchema,
  ollamaGeneratedSchema,
  ollamaProcessesSchema,
  ollamaShownSchema,
  ollamaTagsSchema,
  ollamaVersionSchema,
} from "./response_schema.ts";
import type { Graph } from "../../moa/graph/graph_types.ts";

const CHAT = "/api/chat";
const GENERATE = "/api/generate";

/** The part of Ollama's API by which its clients find the graphs and ask them; `version` is this program's. */
export function ollamaRoutes(http: HttpServices, version: string): Hono<Env> {
  const routes = new Hono<Env>();
  askingRoutes(http, routes);
  const error = ollamaErrorSchema;
  routes.get(
    "/api/version",
    guarded(http, "api", {
      summary: "The router's version, as Ollama's.",
      response: ollamaVersionSchema,
      error,
    }),
    (call) => call.json({ version }),
  );
  routes.get(
    "/api/tags",
    guarded(http, "api", { summary: "The graphs, as Ollama's models.", response: ollamaTagsSchema, error }),
    (call) => call.json({ models: listedGraphs(http) }),
  );
  routes.get(
    "/api/ps",
    guarded(http, "api", {
      summary: "The graphs whose roots can answer now, as models that Ollama has loaded.",
      response: ollamaProcessesSchema,
      error,
    }),
    (call) => call.json({ models: loadedGraphs(http) }),
  );
  routes.post(
    "/api/show",
    guarded(http, "api", {
      summary: "One graph, as Ollama shows a model.",
      request: ollamaShowSchema,
      response: ollamaShownSchema,
      error,
    }),
    (call) => show(http, call),
  );
  return routes;
}

function askingRoutes(http: HttpServices, routes: Hono<Env>): void {
  const error = ollamaErrorSchema;
  routes.post(
    CHAT,
    guarded(http, "api", {
      summary:
        "Answer a conversation, as Ollama; graphs only. Streamed as lines of JSON unless stream is false.",
      request: ollamaChatSchema,
      response: ollamaAnswerSchema,
      error,
    }),
    (call) =>
      withBody(http, call, async (request) => {
        const graph = graphOf(http, request.body["model"]);
        const { messages } = readOllamaChat(request.body);
        return isSet(messages) && messages.length > 0
          ? await ask(http, request, { graph, kind: ollamaChats, path: CHAT })
          : loaded(http, request, { graph, answer: { message: { role: "assistant", content: "" } } });
      }),
  );
  routes.post(
    GENERATE,
    guarded(http, "api", {
      summary: "Answer a prompt, as Ollama; graphs only. Streamed as lines of JSON unless stream is false.",
      request: ollamaGenerateSchema,
      response: ollamaGeneratedSchema,
      error,
    }),
    (call) =>
      withBody(http, call, async (request) => {
        const graph = graphOf(http, request.body["model"]);
        const { prompt, system, images } = readGenerate(request.body);
        const asks = [prompt, system].some((text) => isSet(text) && text !== "") || (images ?? []).length > 0;
        return asks
          ? await ask(http, request, { graph, kind: ollamaGenerations, path: GENERATE })
          : loaded(http, request, { graph, answer: { response: "" } });
      }),
  );
}

function ask(
  http: HttpServices,
  { call, body, scope }: ReadRequest,
  { graph, kind, path }: { readonly graph: Graph; readonly kind: Translation; readonly path: string },
): Promise<Response> {
  scope.model = graph.name;
  return serveVirtual(http, { kind, path, graph, body, headers: tracingHeaders(call) }, scope);
}

/** The answer to a request without a message or prompt, by which Ollama's clients load a model, or unload it. */
function loaded(
  http: HttpServices,
  { call, body, scope }: ReadRequest,
  { graph, answer: empty }: { readonly graph: Graph; readonly answer: JsonObject },
): Response {
  scope.model = graph.name;
  scope.end("ok");
  const { clock } = http;
  const created_at = new Date(clock.unixEpochMs + clock.now()).toISOString();
  const done_reason = body["keep_alive"] === 0 ? "unload" : "load";
  const model = body["model"] ?? graph.name;
  const answer: JsonObject = { model, created_at, ...empty, done: true, done_reason };
  if (body["stream"] === false) return call.json(answer);
  return new Response(`${JSON.stringify(answer)}\n`, { headers: { "content-type": "application/x-ndjson" } });
}

function show(http: HttpServices, call: Call): Promise<Response> {
  return withBody(http, call, ({ body, scope }) => {
    const parsed = ollamaShowSchema.safeParse(body);
    if (!parsed.success) throw fieldError(parsed.error, body);
    const graph = graphOf(http, parsed.data.model ?? parsed.data.name);
    scope.model = graph.name;
    scope.end("ok");
    return Promise.resolve(call.json(shownGraph(http, graph)));
  });
}

/** The graph of a name, with or without Ollama's tag. Throws 400 for no name, 404 where there is no such graph. */
function graphOf(http: HttpServices, model: Json | undefined): Graph {
  if (typeof model !== "string") throw badRequest("model", "model is required: it must be a string");
  const { graphs } = http.moa;
  const graph = graphs.get(model) ?? graphs.get(model.endsWith(TAG) ? model.slice(0, -TAG.length) : model);
  if (graph !== undefined) return graph;
  if (findServedModel(http, model) === undefined) throw modelNotFound(model);
  throw new CanopyError(`${model.slice(0, 100)} is an engine model: ask it by /v1/chat/completions`, {
    code: "model_not_supported",
    status: 404,
    param: "model",
  });
}
