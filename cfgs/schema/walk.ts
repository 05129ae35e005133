import { z } from "zod";
import type { ConfigPath } from "./config_path.ts";

/** A schema without the wrappers that make it optional, defaulted, lazy or transformed. */
export function unwrap(schema: unknown): unknown {
  let inner = schema;
  while (true) {
    if (
      inner instanceof z.ZodOptional || inner instanceof z.ZodDefault || inner instanceof z.ZodPrefault ||
      inner instanceof z.ZodLazy
    ) inner = inner.unwrap();
    else if (inner instanceof z.ZodPipe) inner = inner.in;
    else return inner;
  }
}

/** The schemas that may describe what stands at one key or index: several below a union. */
function stepInto(schema: unknown, part: string | number): unknown[] {
  const inner = unwrap(schema);
  if (inner instanceof z.ZodUnion) return inner.options.flatMap((option: unknown) => stepInto(option, part));
  if (inner instanceof z.ZodObject) {
    const shape: Record<string, unknown> = inner.shape;
    return Object.hasOwn(shape, part) ? [shape[part]] : [];
  }
  if (inner instanceof z.ZodRecord) return [inner.valueType];
  if (inner instanceof z.ZodArray) return typeof part === "number" ? [inner.element] : [];
  return [];
}

/** The schemas that may describe what stands at a path. */
export function schemasAt(schema: unknown, path: ConfigPath): unknown[] {
  let at = [schema];
  for (const part of path) at = at.flatMap((one) => stepInto(one, part));
  return at;
}

/** The keys that an object may have; empty for maps, lists and scalars. */
export function keysOf(schema: unknown): string[] {
  const inner = unwrap(schema);
  if (inner instanceof z.ZodUnion) {
    return [...new Set(inner.options.flatMap((option: unknown) => keysOf(option)))];
  }
  return inner instanceof z.ZodObject ? Object.keys(inner.shape) : [];
}

/** Values that a schema accepts, in words for the end of "expected …". */
export function describeSchema(schema: unknown): string {
  const inner = unwrap(schema);
  if (inner instanceof z.ZodURL) return "a URL such as http://127.0.0.1:30000";
  if (inner instanceof z.ZodString) return "a text";
  if (inner instanceof z.ZodNumber) return inner.isInt ? "a whole number" : "a number";
  if (inner instanceof z.ZodBoolean) return "true or false";
  if (inner instanceof z.ZodArray) return "a list";
  if (inner instanceof z.ZodRecord) return "a map of names to values";
  if (inner instanceof z.ZodEnum) {
    return `one of ${inner.options.map((option: unknown) => JSON.stringify(option)).join(", ")}`;
  }
  if (inner instanceof z.ZodLiteral) {
    return [...inner.values].map((value) => JSON.stringify(value)).join(" or ");
  }
  if (inner instanceof z.ZodUnion) {
    return [...new Set(inner.options.map((option: unknown) => describeSchema(option)))].join(", or ");
  }
  if (inner instanceof z.ZodObject) {
    const required = Object.entries(inner.shape).filter(([, field]) =>
      field instanceof z.ZodType && !field.isOptional()
    ).map(([key]) => JSON.stringify(key));
    return required.length === 0 ? "an object" : `an object with ${required.join(" and ")}`;
  }
  return "another kind of value";
}
