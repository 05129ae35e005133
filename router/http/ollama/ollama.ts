import { createHash } from "node:crypto";
import { Hono } from "hono";
import { badRequest, CanopyError } from "../../../base/errors.ts";
import type { Call, Env } from "../gate/context.ts";
import { findServedModel, modelNotFound } from "../gate/find_model.ts";
import { tracingHeaders, withBody } from "../gate/read_request.ts";
import { guarded } from "../gate/route.ts";
import type { HttpServices } from "../gate/services.ts";
import { serveVirtual } from "../openai/virtual_model.ts";
import { ollamaTranslation } from "./ollama_translation.ts";
import { ollamaChatSchema } from "./request_schema.ts";
import {
  ollamaAnswerSchema,
  ollamaErrorSchema,
  ollamaTagsSchema,
  ollamaVersionSchema,
} from "./response_schema.ts";

/** The tag that Ollama's clients put behind a name without one. */
const TAG = ":latest";
const CHAT = "/api/chat";

/** The part of Ollama's API by which its clients find the graphs and ask them; `version` is this program's. */
export function ollamaRoutes(http: HttpServices, version: string): Hono<Env> {
  const routes = new Hono<Env>();
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
    (call) => call.json({ models: [...http.moa.graphs.keys()].map((name) => tagOf(name, http.startedAt)) }),
  );
  routes.post(
    CHAT,
    guarded(http, "api", {
      summary:
        "Answer a conversation, as Ollama; graphs only. Streamed as lines of JSON unless stream is false.",
      request: ollamaChatSchema,
      response: ollamaAnswerSchema,
      error,
    }),
    (call) => chat(http, call),
  );
  return routes;
}

function chat(http: HttpServices, call: Call): Promise<Response> {
  return withBody(http, call, async ({ body, scope }) => {
    const { model } = body;
    if (typeof model !== "string") throw badRequest("model", "model is required: it must be a string");
    const { graphs } = http.moa;
    const graph = graphs.get(model) ?? graphs.get(model.endsWith(TAG) ? model.slice(0, -TAG.length) : model);
    if (graph === undefined) {
      if (findServedModel(http, model) === undefined) throw modelNotFound(model);
      throw new CanopyError(`${model.slice(0, 100)} is an engine model: ask it by /v1/chat/completions`, {
        code: "model_not_supported",
        status: 404,
        param: "model",
      });
    }
    scope.model = graph.name;
    const headers = tracingHeaders(call);
    return await serveVirtual(http, { kind: ollamaTranslation, path: CHAT, graph, body, headers }, scope);
  });
}

function tagOf(graph: string, startedAt: number) {
  const name = graph.includes(":") ? graph : graph + TAG;
  return {
    name,
    model: name,
    modified_at: new Date(startedAt * 1000).toISOString(),
    size: 0,
    digest: createHash("sha256").update(graph).digest("hex"),
    details: {
      parent_model: "",
      format: "graph",
      family: "canopy",
      families: ["canopy"],
      parameter_size: "",
      quantization_level: "",
    },
  };
}
