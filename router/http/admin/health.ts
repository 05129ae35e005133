import type { HttpServices, Route } from "../gate/context.ts";
import type { Graph } from "../../moa/graph/graph_types.ts";

/** Probes: whether the process lives, and whether it should get requests. */
export function healthRoutes(http: HttpServices): Route[] {
  const alive = (path: string, summary: string): Route => ({
    method: "GET",
    path,
    access: "open",
    handle: (call) => call.json({ status: "ok" }),
    operation: { summary },
  });
  return [
    alive("/health", "The router answers."),
    alive("/liveness", "The router answers."),
    {
      method: "GET",
      path: "/readiness",
      access: "open",
      handle: (call) => {
        const reason = notReadyReason(http);
        if (reason === undefined) return call.json({ status: "ready" });
        return call.json({ status: "not_ready", reason }, 503, { "retry-after": "1" });
      },
      operation: { summary: "At least one model can be served, and the router is not draining." },
    },
  ];
}

/** Why no request should be sent here now; undefined when all is well. */
function notReadyReason(http: HttpServices): string | undefined {
  if (http.drain.draining) return "draining";
  const ready = (model: string) => http.models.get(model)?.pool.ready === true;
  const usable = (graph: Graph) => graph.agents.every((agent) => ready(agent.model));
  for (const graph of http.moa.graphs.values()) if (usable(graph)) return undefined;
  for (const model of http.models.values()) if (model.config.served && model.pool.ready) return undefined;
  return "no model has a worker that can take work";
}
