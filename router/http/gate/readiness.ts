import type { HttpServices } from "./services.ts";
import type { Graph } from "../../moa/graph/graph_types.ts";
import { servingProblem } from "../../served/fallbacks.ts";

/** The reason not to send requests here now; undefined when all is well. */
export function notReadyReason(http: HttpServices): string | undefined {
  if (http.drain.draining) return "draining";
  const graphs = [...http.moa.graphs.values()];
  const used = new Set(graphs.flatMap(({ agents }) => agents.map(({ model }) => model)));
  const problems = new Map<string, string>();
  let served = 0;
  for (const model of http.models.values()) {
    const { name, config } = model;
    if (!config.served && !used.has(name)) continue;
    const problem = servingProblem(model, (other) => http.models.get(other));
    if (problem !== undefined) problems.set(name, problem);
    else if (config.served) served++;
  }
  if (problems.size === 0) return http.models.size === 0 ? nothingServed(http) : undefined;
  const usable = (graph: Graph) => graph.agents.every(({ model }) => !problems.has(model));
  if (http.config.server.readiness === "any" && (served > 0 || graphs.some(usable))) return undefined;
  return [...problems].map(([name, problem]) => `model ${name}: ${problem}`).join("; ");
}

function nothingServed({ fleet }: HttpServices): string {
  const waiting = fleet?.pending.length ?? 0;
  return waiting === 0 ? "no model is served" : `${waiting} workers have not named their model yet`;
}
