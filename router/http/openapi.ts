import { z } from "zod";
import { isJsonObject, type Json, type JsonObject } from "../../base/json.ts";
import { newWorkerSchema, workerChangeSchema } from "./admin/worker_schema.ts";
import type { Route } from "./gate/context.ts";
import {
  graphRequestSchema,
  prefillRequestSchema,
  shellRequestSchema,
  warmRequestSchema,
} from "./graph/request_schema.ts";
import { graphAnswerSchema, graphChunkSchema, warmSchema } from "./graph/response_schema.ts";
import { chatRequestSchema, completionRequestSchema } from "./openai/request_schema.ts";
import {
  chatChunkSchema,
  chatCompletionSchema,
  completionSchema,
  engineRequestSchema,
  errorSchema,
  modelCardSchema,
  modelListSchema,
} from "./openai/response_schema.ts";

/** The schemas that operations name. */
const COMPONENTS: Readonly<Record<string, z.ZodType>> = {
  ChatCompletionRequest: chatRequestSchema,
  CompletionRequest: completionRequestSchema,
  EngineRequest: engineRequestSchema,
  GraphRequest: graphRequestSchema,
  WarmRequest: warmRequestSchema,
  GenerateRequest: z.union([shellRequestSchema, engineRequestSchema]),
  PrefillRequest: prefillRequestSchema,
  Graph: graphAnswerSchema,
  GraphChunk: graphChunkSchema,
  Warm: warmSchema,
  ChatCompletion: chatCompletionSchema,
  ChatCompletionChunk: chatChunkSchema,
  Completion: completionSchema,
  Model: modelCardSchema,
  ModelList: modelListSchema,
  Error: errorSchema,
  NewWorker: newWorkerSchema,
  WorkerChange: workerChangeSchema,
};

/** The description of all routes as OpenAPI 3.1, whose schemas are plain JSON Schema 2020-12. */
export function openApiDocument(routes: readonly Route[], options: { version: string }): JsonObject {
  const paths: Record<string, JsonObject> = {};
  for (const route of routes) {
    const path = route.path.replace(/:(\w+)(?:\{[^}]*\})?/g, "{$1}");
    paths[path] = { ...paths[path], [route.method.toLowerCase()]: operation(route, path) };
  }
  return {
    openapi: "3.1.0",
    info: {
      title: "Canopy",
      version: options.version,
      license: { name: "Apache-2.0", identifier: "Apache-2.0" },
    },
    paths,
    components: {
      schemas: Object.fromEntries(
        Object.entries(COMPONENTS).map(([name, schema]) => [name, jsonSchema(schema)]),
      ),
      securitySchemes: { bearer: { type: "http", scheme: "bearer" } },
    },
  };
}

function operation(route: Route, path: string): JsonObject {
  const { summary, request, response, contentType, streams } = route.operation;
  const content: JsonObject = {
    [contentType ?? "application/json"]: response === undefined ? {} : { schema: reference(response) },
    ...(streams === true ? { "text/event-stream": {} } : {}),
  };
  const parameters = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]): Json => ({
    name: name ?? "",
    in: "path",
    required: true,
    schema: { type: "string" },
  }));
  return {
    operationId: operationId(route),
    summary,
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(request === undefined ? {} : {
      requestBody: { required: true, content: { "application/json": { schema: reference(request) } } },
    }),
    ...(route.access === "open" ? { security: [] } : { security: [{}, { bearer: [] }] }),
    responses: {
      "200": { description: "The answer.", content },
      default: {
        description: "An error.",
        content: { "application/json": { schema: reference("Error") } },
      },
    },
  };
}

/** Such as `post_v1_chat_completions`. */
function operationId(route: Route): string {
  const words = route.path.replace(/\{[^}]*\}/g, "").split(/\W+/).filter((word) => word !== "");
  return [route.method.toLowerCase(), ...words].join("_");
}

function reference(name: string): JsonObject {
  if (!(name in COMPONENTS)) throw new Error(`Cannot describe the routes: there is no schema named ${name}`);
  return { $ref: `#/components/schemas/${name}` };
}

function jsonSchema(schema: z.ZodType): JsonObject {
  const json: unknown = z.toJSONSchema(schema, {
    target: "draft-2020-12",
    io: "input",
    unrepresentable: "any",
  });
  if (!isJsonObject(json)) throw new Error("Cannot describe the routes: a schema is no object");
  const { $schema: _, ...rest } = json;
  return rest;
}
