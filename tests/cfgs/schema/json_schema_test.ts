import assert from "node:assert/strict";
import { test } from "node:test";
import { isJsonObject, type Json } from "../../../base/json.ts";
import { configJsonSchema } from "../../../cfgs/schema/json_schema.ts";

test("The JSON Schema lets defaults be left out, refuses unknown keys and explains the fields", () => {
  const schema = configJsonSchema();
  assert.equal(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
  assert.equal(schema["title"], "Canopy configuration");
  assert.equal(schema["required"], undefined);
  assert.equal(schema["additionalProperties"], false);
  const properties = schema["properties"];
  assert.ok(isJsonObject(properties));
  assert.deepEqual(Object.keys(properties), [
    "$schema",
    "server",
    "models",
    "fleet",
    "prompts",
    "graphs",
    "scorer",
    "launch",
  ]);
  const models = properties["models"];
  assert.ok(isJsonObject(models) && isJsonObject(models["additionalProperties"]));
  const model = models["additionalProperties"];
  assert.deepEqual(model["required"], ["model", "engine"]);
  assert.ok(isJsonObject(model["properties"]) && isJsonObject(model["properties"]["engine"]));
  assert.deepEqual(model["properties"]["engine"]["enum"], [
    "openai",
    "vllm",
    "sglang",
    "vllm-pd",
    "sglang-pd",
    "onnx",
  ]);
});

/** Paths of the fields that have no description, nor one in a form that they may have. */
function undescribed(schema: Json | undefined, path: string): string[] {
  if (Array.isArray(schema)) return schema.flatMap((one) => undescribed(one, path));
  if (!isJsonObject(schema)) return [];
  const fields = isJsonObject(schema["properties"]) ? Object.entries(schema["properties"]) : [];
  const { anyOf, items, additionalProperties } = schema;
  return [
    ...fields.flatMap(([name, field]) => {
      const at = `${path}.${name}`;
      const isDescribed = isJsonObject(field) && typeof field["description"] === "string";
      return [...isDescribed ? [] : [at], ...undescribed(field, at)];
    }),
    ...undescribed(anyOf, path),
    ...undescribed(items, `${path}[]`),
    ...undescribed(additionalProperties, `${path}.NAME`),
  ];
}

test("Every field of a configuration file is described", () => {
  assert.deepEqual([...new Set(undescribed(configJsonSchema(), ""))], []);
});
