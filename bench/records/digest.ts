import { createHash } from "node:crypto";
import { canonicalJson } from "../../base/json.ts";

/** SHA-256 of a value's canonical JSON, in hexadecimal digits. */
export function digestOf(value: unknown): string {
  return createHash("sha256").update(canonicalJson(value)).digest("hex");
}
