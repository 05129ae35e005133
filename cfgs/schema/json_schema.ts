import { z } from "zod";
import type { JsonObject } from "../../base/json.ts";
import { configSchema } from "./config.ts";

/** The JSON Schema (draft 2020-12) of a Canopy config file, for editors: what may be written, not what is filled in. */
export function configJsonSchema(): JsonObject {
  const { $schema, ...schema } = z.toJSONSchema(configSchema, { io: "input" });
  const json: JsonObject = JSON.parse(JSON.stringify({ $schema, title: "Canopy configuration", ...schema }));
  return json;
}
