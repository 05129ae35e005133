import assert from "node:assert/strict";
import { test } from "node:test";
import { isJsonObject } from "../../../base/json.ts";
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

test("Every setting of the server and of a model has a description", () => {
  const undescribed: string[] = [];
  const visit = (name: string, schema: unknown) => {
    if (!isJsonObject(schema) || !isJsonObject(schema["properties"])) return;
    for (const [key, field] of Object.entries(schema["properties"])) {
      if (isJsonObject(field) && field["description"] === undefined) undescribed.push(`${name}.${key}`);
    }
  };
  const { properties } = configJsonSchema();
  assert.ok(isJsonObject(properties));
  visit("server", properties["server"]);
  const models = properties["models"];
  if (isJsonObject(models)) visit("model", models["additionalProperties"]);
  visit("config", { properties });
  assert.deepEqual(undescribed, ["server.log_level", "server.log_format"]);
});
