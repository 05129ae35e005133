import { isJsonObject, type Json, type JsonObject } from "../../base/json.ts";
import { anchorOf, bulletList, code, markdownTable, pageHead, paragraph } from "./markdown.ts";
import { SchemaSections } from "./schema_sections.ts";

const HEAD = pageHead(
  "HTTP reference",
  "Every route but that of [the page](page.md), with what it takes and answers; made from `GET /openapi.json`, whose schemas are those that check the requests (`deno task reference`). What the routes do and refuse: [http.md](http.md). A field without a meaning here has the one of the API that it is from: OpenAI's, Anthropic's, Ollama's or SGLang's.",
);
const REF = "#/components/schemas/";

/** A route, with the other paths of the same method that do the same. */
interface Route {
  readonly method: string;
  readonly paths: readonly string[];
  readonly operation: JsonObject;
}

/** The page with every route of an OpenAPI document of the router. */
export function httpReference(document: JsonObject): string {
  const schemas = members(members(document["components"])["schemas"] ?? {});
  const sections = new SchemaSections({
    anchorOfRef: (ref) => {
      const name = ref.slice(REF.length);
      return ref.startsWith(REF) && Object.hasOwn(schemas, name)
        ? { name, anchor: anchorOf(name) }
        : undefined;
    },
  });
  const described = Object.entries(schemas).flatMap(([name, schema]) =>
    schemaSections(sections, name, schema)
  );
  return [HEAD, "## Routes\n", ...routesOf(document).map(routeSection), "## Bodies\n", ...described].join(
    "\n",
  );
}

/** The routes in the order of the document; those that differ in their paths alone are one. */
function routesOf(document: JsonObject): Route[] {
  const routes = new Map<string, Route>();
  for (const [path, methods] of Object.entries(members(document["paths"]))) {
    for (const [method, operation] of Object.entries(members(methods))) {
      const key = JSON.stringify([method, { ...operation, operationId: "" }]);
      const paths = [...routes.get(key)?.paths ?? [], path];
      routes.set(key, { method: method.toUpperCase(), paths, operation });
    }
  }
  return [...routes.values()];
}

function routeSection({ method, paths, operation }: Route): string {
  const { summary, description, parameters, requestBody, responses } = operation;
  const answers = members(responses);
  const parts = [paragraph(`${String(summary)} ${String(description)}`)];
  const rows = (Array.isArray(parameters) ? parameters.filter(isJsonObject) : []).flatMap((one) =>
    one["in"] === "query" ? [[code(String(one["name"])), String(one["description"])]] : []
  );
  if (rows.length > 0) parts.push(markdownTable(["query", "meaning"], rows));
  const bodies = [
    ["Asked with", isJsonObject(requestBody) ? contentOf(requestBody) : ""],
    ["Answers", contentOf(members(answers)["200"] ?? {})],
    ["Errors", contentOf(members(answers)["default"] ?? {})],
  ].filter(([, content]) => content !== "");
  parts.push(bulletList(bodies.map(([what, content]) => `${what}: ${content}`)));
  return `### ${method} ${paths.join(", ")}\n\n${parts.join("\n\n")}\n`;
}

/** The bodies of a request or an answer: each media type, with the schema where there is one. */
function contentOf(holder: JsonObject): string {
  return Object.entries(members(holder["content"])).map(([type, { schema }]) => {
    const ref = isJsonObject(schema) ? schema["$ref"] : undefined;
    if (typeof ref !== "string") return `\`${type}\``;
    const name = ref.slice(REF.length);
    return `\`${type}\` [${name}](#${anchorOf(name)})`;
  }).join(", or ");
}

function schemaSections(sections: SchemaSections, name: string, schema: JsonObject): string[] {
  return sections.sectionsOf(name, schema).map(({ heading, text }) => `### ${heading}\n\n${text}\n`);
}

function members(value: Json | undefined): Record<string, JsonObject> {
  if (!isJsonObject(value)) return {};
  return Object.fromEntries(
    Object.entries(value).flatMap(([name, one]) => isJsonObject(one) ? [[name, one]] : []),
  );
}
