import type { Context } from "hono";
import type { Random } from "../../../base/random.ts";
import type { Admission } from "./admission.ts";
import type { Access, Keys } from "./auth.ts";
import type { Drain } from "./drain.ts";
import type { RouterServices } from "./services.ts";
import type { Metrics } from "../metrics/metrics.ts";
import type { Relay } from "../../relay/relay_types.ts";

/** What the handlers have at hand. */
export interface HttpServices extends RouterServices {
  readonly relay: Relay;
  readonly admission: Admission;
  readonly drain: Drain;
  readonly keys: Keys;
  readonly metrics: Metrics;
  /** For ids. */
  readonly random: Random;
  /** When the router started, as unix time in seconds. */
  readonly startedAt: number;
}

export type Env = { Variables: { requestId: string } };
export type Call = Context<Env>;

/** One route: how it is matched, who may call it, what it does, how /openapi.json describes it. */
export interface Route {
  readonly method: "GET" | "POST" | "PUT" | "DELETE";
  /** Hono's pattern; `:id{.+}` also matches slashes. */
  readonly path: string;
  readonly access: Access;
  readonly handle: (call: Call) => Response | Promise<Response>;
  readonly operation: Operation;
}

/** What /openapi.json says of a route. Schema names are keys of its components. */
export interface Operation {
  readonly summary: string;
  readonly request?: string;
  /** Absent: an object without further description. */
  readonly response?: string;
  readonly contentType?: "application/json" | "text/event-stream" | "text/plain";
  /** The JSON answer may come as server-sent events, too. */
  readonly streams?: boolean;
}
