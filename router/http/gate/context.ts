import type { Context } from "hono";
import type { RequestIdVariables } from "hono/request-id";

/** Hono's environment: what middleware sets for handlers. */
export type Env = {
  Variables: RequestIdVariables;
  /** What the runtime's server hands over beside the request. */
  Bindings: object;
};

/** One request on its way through the handlers. */
export type Call = Context<Env>;
