import type { z } from "zod";
import { badRequest, CanopyError } from "../../../base/errors.ts";
import type { JsonObject } from "../../../base/json.ts";

/**
 * The 400 for the first thing that a schema found wrong; its message names the field, the rule and the value.
 * `whole` is the name of the value itself.
 */
export function fieldError(error: z.ZodError, body: unknown, whole = "body"): CanopyError {
  const issue = error.issues[0];
  if (issue === undefined) return badRequest("body", "The body does not have the form of a request");
  const param = fieldName(issue.path, whole);
  const value = valueAt(body, issue.path);
  if (value === undefined) return badRequest(param, `${param} is required: ${rule(issue)}`, "missing_field");
  if (issue.code === "unrecognized_keys") {
    const name = fieldName([...issue.path, issue.keys[0] ?? ""], whole);
    return badRequest(name, `${name} is not known: leave it out; /openapi.json has what ${param} takes`);
  }
  if (isInexact(value) && issue.code !== "custom") {
    return badRequest(
      param,
      `${param} must lie between -2^53 and 2^53 for a virtual model: larger integers are not carried exactly`,
    );
  }
  return badRequest(param, `${param} ${rule(issue)}: current value is ${shown(value)}`);
}

/** True for a whole number that JSON may hold and a `number` does not hold exactly. */
function isInexact(value: unknown): boolean {
  return typeof value === "number" && Number.isInteger(value) && !Number.isSafeInteger(value);
}

/** `["messages", 0, "content"]` as `messages[0].content`. */
function fieldName(path: readonly PropertyKey[], whole: string): string {
  let name = "";
  for (const step of path) {
    if (typeof step === "number") name += `[${step}]`;
    else name += (name === "" ? "" : ".") + String(step).slice(0, 100);
  }
  return name === "" ? whole : name;
}

/** A value as JSON, cut to a length that fits a sentence. */
export function shown(value: unknown): string {
  if (typeof value === "string" && value.length > 60) return `${JSON.stringify(value.slice(0, 60))}…`;
  if (JSON.isRawJSON(value)) return value.rawJSON.slice(0, 60);
  if (Array.isArray(value)) return `a list of ${value.length}`;
  if (typeof value === "object" && value !== null) return "an object";
  return JSON.stringify(value) ?? String(value);
}

function rule(issue: z.core.$ZodIssue): string {
  switch (issue.code) {
    case "invalid_type":
      return `must be ${TYPES[issue.expected] ?? issue.expected}`;
    case "too_small":
      if (issue.origin === "array") return `must have at least ${issue.minimum} element(s)`;
      if (issue.origin === "string") return "must not be empty";
      return `must be ${issue.inclusive === true ? "at least" : "above"} ${issue.minimum}`;
    case "too_big":
      return issue.origin === "array"
        ? `must have at most ${issue.maximum} elements`
        : `must be at most ${issue.maximum}`;
    case "invalid_value":
      return `must be one of ${issue.values.map((value) => JSON.stringify(value)).join(", ")}`;
    default:
      return issue.message;
  }
}

const TYPES: Readonly<Record<string, string>> = {
  string: "a string",
  number: "a number",
  int: "a whole number",
  boolean: "true or false",
  array: "a list",
  object: "an object",
  record: "an object",
};

function valueAt(body: unknown, path: readonly PropertyKey[]): unknown {
  let value = body;
  for (const step of path) {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, step)) return undefined;
    value = Reflect.get(value, step);
  }
  return value;
}

/** Does `read`; a 400 that names a field is thrown on as one about that field of `place` ("": of the body). */
export function within<Value>(place: string, read: () => Value): Value {
  if (place === "") return read();
  try {
    return read();
  } catch (error) {
    if (!CanopyError.is(error) || error.status !== 400) throw error;
    const inner = error.param === undefined || error.param === "body" ? "" : error.param;
    const param = inner === "" ? place : `${place}.${inner}`;
    const message = inner !== "" && error.message.startsWith(`${inner} `)
      ? `${place}.${error.message}`
      : `${param}: ${error.message}`;
    throw new CanopyError(message, { code: error.code, status: 400, param, cause: error });
  }
}

/** The text of a field of `place`. Throws 400 naming the field where there is none. */
export function requiredText(object: JsonObject, field: string, place: string): string {
  const value = object[field];
  if (typeof value === "string") return value;
  const param = `${place}.${field}`;
  if (!isSet(value)) throw badRequest(param, `${param} is required`, "missing_field");
  throw badRequest(param, `${param} must be a string: current value is ${shown(value)}`);
}

/** True unless the field is absent or `null`, which both mean "not set". */
export function isSet<Value>(value: Value): value is NonNullable<Value> {
  return value !== null && value !== undefined;
}
