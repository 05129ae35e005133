import type { MiddlewareHandler } from "hono";
import type { z } from "zod";
import { logger } from "../../../base/log.ts";
import type { Access, Keys } from "./auth.ts";
import { isFromThisHost } from "./caller.ts";
import type { Call, Env } from "./context.ts";
import type { Sites } from "./sites.ts";

/** A route's description in /openapi.json. Its schemas have an `id` in their metadata, by which they are referred to. */
export interface Operation {
  readonly summary: string;
  readonly request?: z.ZodType;
  /** Parameters of the query, and what each is. */
  readonly query?: Readonly<Record<string, string>>;
  /** Absent: an object without further description. */
  readonly response?: z.ZodType;
  readonly contentType?: "application/json" | "text/event-stream" | "text/plain" | "text/html";
  /** The answer may come as server-sent events, too, each with JSON of this schema (true: of any). */
  readonly streams?: z.ZodType | true;
  /** A header that may hold the key, where no `authorization` does. */
  readonly keyHeader?: string;
  /** By default OpenAI's. */
  readonly error?: z.ZodType;
}

/** An operation, and who may call it. */
export interface DescribedRoute extends Operation {
  readonly access: Access;
}

const log = logger("audit");

const DESCRIPTIONS = new WeakMap<object, DescribedRoute>();

/** Everything that a request has to pass. */
export interface Guards {
  readonly keys: Keys;
  readonly sites: Sites;
  /** True to log each change to the running router. */
  readonly audit?: boolean | undefined;
}

/** The first handler of every route: lets pass who may call it, and carries its description. */
export function guarded(
  { keys, sites, audit }: Guards,
  access: Access,
  operation: Operation,
): MiddlewareHandler<Env> {
  const guard: MiddlewareHandler<Env> = (call, next) => {
    const headers = call.get("headers");
    if (access !== "open") sites.check(headers, call.req.url);
    const authorization = headers["authorization"] ?? otherKey(call, operation.keyHeader);
    keys.check(access, authorization, access === "control" && isFromThisHost(call));
    if (access === "control" && audit === true && call.req.method !== "GET") {
      const who = keys.nameOf(authorization) ?? "none";
      log.info("{method} {path} with key {who}", { method: call.req.method, path: call.req.path, who });
    }
    return next();
  };
  DESCRIPTIONS.set(guard, { access, ...operation });
  return guard;
}

/** The key of another header, which is kept for those that ask whose request it is. */
function otherKey(call: Call, header: string | undefined): string | undefined {
  const key = header === undefined ? undefined : call.get("headers")[header];
  if (key === undefined) return undefined;
  const authorization = `Bearer ${key}`;
  call.set("authorization", authorization);
  return authorization;
}

/** The description that a handler carries; undefined for all but those that `guarded` made. */
export function descriptionOf(handler: object): DescribedRoute | undefined {
  return DESCRIPTIONS.get(handler);
}
