import type { MiddlewareHandler } from "hono";
import { matchedRoutes } from "hono/route";
import type { Clock } from "../../../base/clock.ts";
import type { Random } from "../../../base/random.ts";
import type { HttpMetrics } from "../metrics/http_metrics.ts";
import { headerRecordOf } from "../server/client_request.ts";
import { headerOf } from "../server/ready_response.ts";
import type { Env } from "./context.ts";

/** Anything that can stand in a header and a log line. */
const USABLE = /^[\x21-\x7e]{1,128}$/;
const ID_HEADER = "x-request-id";

/** Options of `arriving`. */
export interface ArrivingOptions {
  readonly clock: Clock;
  /** For ids of requests. */
  readonly random: Random;
  /** Headers that may hold a request's id, in lower case; the first usable one does. */
  readonly idHeaders: readonly string[];
  readonly metrics: HttpMetrics;
}

/**
 * What every request passes first: its headers are read, once for all; it gets an id, and its answer the id's header;
 * and it is counted, by the path of its route, so that clients add no series.
 */
export function arriving({ clock, random, idHeaders, metrics }: ArrivingOptions): MiddlewareHandler<Env> {
  return async (call, next) => {
    const headers = headerRecordOf(call.req.raw);
    const id = givenId(headers, idHeaders) ?? `req_${random.hex(24)}`;
    headers[ID_HEADER] = id;
    call.set("headers", headers);
    call.set("requestId", id);
    const counts = !isInner(call.env);
    const startedMs = clock.now();
    if (counts) metrics.active++;
    try {
      await next();
    } finally {
      if (counts) metrics.active--;
    }
    const { res } = call;
    if (counts) {
      const path = matchedRoutes(call).find((route) => route.path !== "/*")?.path ?? "unknown";
      metrics.count({ method: call.req.method, path, startedMs }, res);
    }
    // To set it where it stands costs more than to look.
    if (headerOf(res, ID_HEADER) !== id) res.headers.set(ID_HEADER, id);
  };
}

function givenId(headers: Readonly<Record<string, string>>, names: readonly string[]): string | undefined {
  for (const name of names) {
    const sent = headers[name];
    if (sent !== undefined && USABLE.test(sent)) return sent;
  }
  return undefined;
}

/** True for a request that the thread that leads sends to another one: it has counted the client's. */
function isInner(env: unknown): boolean {
  return typeof env === "object" && env !== null && "inner" in env;
}
