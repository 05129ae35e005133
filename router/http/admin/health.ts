import { Hono } from "hono";
import type { Env } from "../gate/context.ts";
import { guarded } from "../gate/route.ts";
import type { HttpServices } from "../gate/services.ts";
import { poolProblem } from "../../pool/pool_problem.ts";
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
      summary: "Every served model has a worker that is known to be well, and the router is not draining.",
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
  const graphs = [...http.moa.graphs.values()];
  const used = new Set(graphs.flatMap(({ agents }) => agents.map(({ model }) => model)));
  const problems = new Map<string, string>();
  let served = 0;
  for (const { name, config, pool } of http.models.values()) {
    if (!config.served && !used.has(name)) continue;
    const problem = poolProblem(pool.workers(), config);
    if (problem !== undefined) problems.set(name, problem);
    else if (config.served) served++;
  }
  if (problems.size === 0) return http.models.size === 0 ? "no model is served" : undefined;
  const usable = (graph: Graph) => graph.agents.every(({ model }) => !problems.has(model));
  if (http.config.server.readiness === "any" && (served > 0 || graphs.some(usable))) return undefined;
  return [...problems].map(([name, problem]) => `model ${name}: ${problem}`).join("; ");
}
