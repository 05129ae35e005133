import type { MiddlewareHandler } from "hono";
import type { Random } from "../../../base/random.ts";
import type { Env } from "./context.ts";

/** Anything that can stand in a header and a log line. */
const USABLE = /^[\x21-\x7e]{1,128}$/;

/** Gives every request an id and every answer its header: the first usable one in these headers, else a new one. */
export function identified(random: Random, names: readonly string[]): MiddlewareHandler<Env> {
  return async (call, next) => {
    const id = names.map((name) => call.req.header(name)).find((sent) => USABLE.test(sent ?? ""));
    call.set("requestId", id ?? `req_${random.hex(24)}`);
    await next();
    call.res.headers.set("x-request-id", call.get("requestId"));
  };
}
