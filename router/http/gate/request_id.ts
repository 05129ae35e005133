import type { MiddlewareHandler } from "hono";
import type { Random } from "../../../base/random.ts";
import type { Env } from "./context.ts";

const NAMES = ["x-request-id", "x-correlation-id", "x-trace-id", "request-id"];
/** Anything that can stand in a header and a log line. */
const USABLE = /^[\x21-\x7e]{1,128}$/;

/** Gives every request an id and every answer its header: the first usable id that the client sent, else a new one. */
export function identified(random: Random): MiddlewareHandler<Env> {
  return async (call, next) => {
    const id = NAMES.map((name) => call.req.header(name)).find((sent) => USABLE.test(sent ?? ""));
    call.set("requestId", id ?? `req_${random.hex(24)}`);
    await next();
    call.res.headers.set("x-request-id", call.get("requestId"));
  };
}
