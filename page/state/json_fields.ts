import { isJsonObject } from "../../base/json.ts";

/** The value behind these keys and indices; undefined where there is none. */
export function fieldOf(value: unknown, ...path: readonly (string | number)[]): unknown {
  let found = value;
  for (const key of path) {
    if (typeof key === "number") found = Array.isArray(found) ? found[key] : undefined;
    else found = isJsonObject(found) && Object.hasOwn(found, key) ? found[key] : undefined;
  }
  return found;
}

/** A text behind these keys; empty where there is none. */
export function textField(value: unknown, ...path: readonly (string | number)[]): string {
  const found = fieldOf(value, ...path);
  return typeof found === "string" ? found : "";
}

/** A finite number behind these keys; undefined where there is none. */
export function numberAt(value: unknown, ...path: readonly (string | number)[]): number | undefined {
  const found = fieldOf(value, ...path);
  return typeof found === "number" && Number.isFinite(found) ? found : undefined;
}

/** A list behind these keys; empty where there is none. */
export function listField(value: unknown, ...path: readonly (string | number)[]): readonly unknown[] {
  const found = fieldOf(value, ...path);
  return Array.isArray(found) ? found : [];
}

/** The texts of a list behind these keys. */
export function textsField(value: unknown, ...path: readonly (string | number)[]): readonly string[] {
  return listField(value, ...path).filter((one) => typeof one === "string");
}
