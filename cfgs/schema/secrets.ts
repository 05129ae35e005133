import type { ConfigPath } from "./config_path.ts";

const SECRET_KEY = /(^|[_-])(api[_-]?keys?|admin[_-]?keys?|token|secret|password|authorization|cookie)$/i;

/** True for places whose value must never be printed: keys, tokens, and headers that carry them. */
export function isSecretPath(path: ConfigPath): boolean {
  const names = path.filter((part) => typeof part === "string");
  // Names that the user has chosen (of models, prompts, graphs) say nothing about their content.
  const chosen = path[0] === "models" || path[0] === "prompts" || path[0] === "graphs" ? 2 : 0;
  return names.some((name, at) => at >= chosen && SECRET_KEY.test(name));
}

/** The value as it may be shown: secrets, and passwords inside URLs, become `***`. */
export function shownSecret(value: unknown, path: ConfigPath): unknown {
  if (Array.isArray(value)) return value.map((item, at) => shownSecret(item, [...path, at]));
  if (typeof value === "object" && value !== null) {
    return Object.fromEntries(
      Object.entries(value).map(([key, item]) => [key, shownSecret(item, [...path, key])]),
    );
  }
  if (value !== undefined && isSecretPath(path)) return "***";
  if (typeof value !== "string") return value;
  return value.replace(/^([a-z]+:\/\/[^/@:\s]*):[^/@\s]*@/i, "$1:***@");
}
