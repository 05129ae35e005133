import type { Context } from "hono";
import type { RequestIdVariables } from "hono/request-id";
import type { KeyPass } from "./key_limits.ts";
import type { Span } from "../../tracing/spans.ts";

/** Hono's environment: what middleware sets for handlers. */
export type Env = {
  Variables: RequestIdVariables & {
    /** The client's headers by lower-case names, and the request's id; to be read once, and not to be changed. */
    headers: Readonly<Record<string, string>>;
    /** Where traces are recorded, that of the request. */
    span?: Span | undefined;
    /** Where limits count for the caller's key, those of the request. */
    pass?: KeyPass | undefined;
    /** The caller's key as `authorization` would have it, on routes that take it in another header, too. */
    authorization?: string | undefined;
  };
  /** What the runtime's server hands over beside the request. */
  Bindings: object;
};

/** One request on its way through the handlers. */
export type Call = Context<Env>;
