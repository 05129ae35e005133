import { isJsonObject, type Json } from "../../base/json.ts";

/** Fields whose objects are keyed by tokens. */
const TOKEN_MAPS = new Set(["top_logprobs", "prompt_logprobs"]);

/**
 * Keys in their order, and types. Equal for two answers that differ in texts, numbers and lengths of lists only.
 * A list is the set of its items' shapes. The simulator's word that it is one is left out: no server has it.
 */
export function shape(value: Json, key = ""): string {
  if (value === null) return "null";
  if (Array.isArray(value)) {
    if (TOKEN_MAPS.has(key)) {
      return `[${
        [...new Set(value.map((item) => isJsonObject(item) && !("token" in item) ? "map" : shape(item)))]
          .sort().join("|")
      }]`;
    }
    return `[${[...new Set(value.map((item) => shape(item)))].sort().join("|")}]`;
  }
  if (!isJsonObject(value)) return typeof value;
  const fields = Object.entries(value).filter(([name, item]) => name !== "simulated" || item !== true);
  return `{${fields.map(([name, item]) => `${name}:${shape(item, name)}`).join(",")}}`;
}

/** The different shapes of a stream's events, in the order in which they first come. */
export function streamShape(events: readonly Json[]): string[] {
  return [...new Set(events.map((event) => shape(event)))];
}
