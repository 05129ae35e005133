import { badRequest } from "../../../base/errors.ts";
import type { Call } from "./context.ts";

/** A parameter of the query that is true or false; absent: false. Throws 400 for what is neither. */
export function queryFlag(call: Call, name: string): boolean {
  const text = call.req.query(name) ?? "false";
  if (text === "true" || text === "false") return text === "true";
  throw badRequest(name, `${name} must be true or false: current value is ${text}`);
}
