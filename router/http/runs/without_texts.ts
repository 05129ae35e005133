import { isJsonObject, type Json, type JsonObject } from "../../../base/json.ts";

/** Fields of events that hold final answers: of votes, of compared answers, and of an audit's two sides. */
const ANSWER_FIELDS = new Set(["text", "value", "exit", "whole"]);

/** The data of a trace event without the final answers that a decision has compared; all its figures stay. */
export function dataWithoutTexts(data: JsonObject): JsonObject {
  return Object.fromEntries(
    Object.entries(data).flatMap(([name, value]) =>
      ANSWER_FIELDS.has(name) && typeof value === "string" ? [] : [[name, valueWithoutTexts(value)]]
    ),
  );
}

function valueWithoutTexts(value: Json): Json {
  if (Array.isArray(value)) return value.map(valueWithoutTexts);
  return isJsonObject(value) ? dataWithoutTexts(value) : value;
}
