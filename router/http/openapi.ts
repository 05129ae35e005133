import { z } from "zod";
import { isJsonObject, type Json, type JsonObject } from "../../base/json.ts";
import type { Access } from "./gate/auth.ts";
import { type DescribedRoute, descriptionOf } from "./gate/route.ts";
import { errorSchema } from "./openai/response_schema.ts";

/** A route as Hono lists it. */
interface ListedRoute {
  readonly method: string;
  /** Hono's pattern. */
  readonly path: string;
  readonly handler: object;
}

/** Whose key opens a route, in a sentence. */
const ACCESS_WORDS: Readonly<Record<Access, string>> = {
  open: "Needs no key.",
  api: "Needs a key where there are keys.",
  owner: "Needs a key where there is any; a client's key for its own runs, the admin key for all.",
  admin: "Needs the admin key where there is any key.",
  control: "Needs the admin key; without any key only from this host.",
};

/** The description of all guarded routes as OpenAPI 3.1, whose schemas are plain JSON Schema 2020-12. */
export function openApiDocument(routes: readonly ListedRoute[], options: { version: string }): JsonObject {
  const paths: Record<string, JsonObject> = {};
  const schemas = z.registry<{ id: string }>();
  const refer = (schema: z.ZodType): JsonObject => {
    const id = schema.meta()?.id;
    if (id === undefined) throw new Error("Cannot describe the routes: a schema has no id");
    schemas.add(schema, { id });
    return { $ref: refTo(id) };
  };
  for (const { method, path: pattern, handler } of routes) {
    const description = descriptionOf(handler);
    if (description === undefined) continue;
    const path = pattern.replace(/:(\w+)(?:\{[^}]*\})?/g, "{$1}");
    const operationId = idOf(method, pattern);
    const of = { operationId, ...operationBody(description, path, refer) };
    paths[path] = { ...paths[path], [method.toLowerCase()]: of };
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
      schemas: jsonSchemas(schemas),
      securitySchemes: { bearer: { type: "http", scheme: "bearer" } },
    },
  };
}

function operationBody(
  { summary, access, request, query = {}, response, contentType, streams, error }: DescribedRoute,
  path: string,
  refer: (schema: z.ZodType) => JsonObject,
): JsonObject {
  const content: JsonObject = {
    [contentType ?? "application/json"]: response === undefined ? {} : { schema: refer(response) },
  };
  if (streams !== undefined) {
    content["text/event-stream"] = streams === true ? {} : { schema: refer(streams) };
  }
  const parameters = [
    ...[...path.matchAll(/\{(\w+)\}/g)].map(([, name]): Json => ({
      name: name ?? "",
      in: "path",
      required: true,
      schema: { type: "string" },
    })),
    ...Object.entries(query).map(([name, description]): Json => ({
      name,
      in: "query",
      description,
      schema: { type: "string" },
    })),
  ];
  return {
    summary,
    description: ACCESS_WORDS[access],
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(request === undefined ? {} : {
      requestBody: { required: true, content: { "application/json": { schema: refer(request) } } },
    }),
    security: access === "open" ? [] : [{}, { bearer: [] }],
    responses: {
      "200": { description: "The answer.", content },
      default: {
        description: "An error.",
        content: { "application/json": { schema: refer(error ?? errorSchema) } },
      },
    },
  };
}

/** Such as `post_v1_chat_completions`. */
function idOf(method: string, pattern: string): string {
  const words = pattern.replace(/\{[^}]*\}/g, "").split(/\W+/).filter((word) => word !== "");
  return [method.toLowerCase(), ...words].join("_");
}

function refTo(id: string): string {
  return `#/components/schemas/${id}`;
}

function jsonSchemas(registry: z.core.$ZodRegistry<{ id: string }>): JsonObject {
  const { schemas } = z.toJSONSchema(registry, { uri: refTo, io: "input", unrepresentable: "any" });
  return Object.fromEntries(
    Object.entries(schemas).map(([id, schema]): [string, Json] => {
      const json: unknown = schema;
      if (!isJsonObject(json)) throw new Error("Cannot describe the routes: a schema is no object");
      const { $schema: _, $id: __, ...rest } = json;
      return [id, rest];
    }),
  );
}
