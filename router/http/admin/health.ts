import { Hono } from "hono";
import type { Env } from "../gate/context.ts";
import { guarded } from "../gate/route.ts";
import type { HttpServices } from "../gate/services.ts";
import type { Graph } from "../../moa/graph/graph_types.ts";

/** Probes: whether the process lives, and whether it should get requests. */
export function healthRoutes(http: HttpServices): Hono<Env> {
  const routes = new Hono<Env>();
  for (const path of ["/health", "/liveness"]) {
    routes.get(
      path,
      guarded(http, "open", { summary: "The router answers." }),
      (call) => call.json({ status: "ok" }),
    );
  }
  routes.get(
    "/readiness",
    guarded(http, "open", {
      summary: "At least one model can be served, and the router is not draining.",
    }),
    (call) => {
      const reason = notReadyReason(http);
      if (reason === undefined) return call.json({ status: "ready" });
      return call.json({ status: "not_ready", reason }, 503, { "retry-after": "1" });
    },
  );
  return routes;
}

/** The reason not to send requests here now; undefined when all is well. */
function notReadyReason(http: HttpServices): string | undefined {
  if (http.drain.draining) return "draining";
  const ready = (model: string) => http.models.get(model)?.pool.ready === true;
  const usable = (graph: Graph) => graph.agents.every((agent) => ready(agent.model));
  for (const graph of http.moa.graphs.values()) if (usable(graph)) return undefined;
  for (const model of http.models.values()) if (model.config.served && model.pool.ready) return undefined;
  return "no model has a worker that can take work";
}
