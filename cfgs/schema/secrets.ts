import { withoutPassword } from "../../base/transport.ts";
import type { ConfigPath } from "./config_path.ts";

const SECRET_KEY = /(^|[_-])(api[_-]?keys?|admin[_-]?keys?|token|secret|password|authorization|cookie)$/i;
/** Names of headers that carry one, whatever stands around it: `Ocp-Apim-Subscription-Key`, `X-Auth`. */
const SECRET_HEADER = /key|auth|token|secret|password|credential|cookie/i;

/** True for places whose value must never be printed: keys, tokens, and headers that carry them. */
export function isSecretPath(path: ConfigPath): boolean {
  const names = path.filter((part) => typeof part === "string");
  const chosen = chosenPart(path);
  return names.some((name, at) => at >= chosen && SECRET_KEY.test(name)) || isSecretHeader(path);
}

/** Headers to a collector of traces are there for keys, however that calls them. */
function isSecretHeader([section, key, place, name]: ConfigPath): boolean {
  if (place !== "headers" || typeof name !== "string") return false;
  return section === "models" ? SECRET_HEADER.test(name) : section === "server" && key === "tracing";
}

/** Parts of a path up to a name that the user has chosen (of a model, a prompt, a graph, a key): it says nothing of what is in it. */
function chosenPart([section, key, inner]: ConfigPath): number {
  if (section === "models" || section === "prompts" || section === "graphs") return 2;
  return section === "server" && key === "limits" && inner === "keys" ? 4 : 0;
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
  return withoutPassword(value);
}
