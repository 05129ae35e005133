import { type Config, type WorkerConfig } from "./schema.ts";
import { shown } from "./secrets.ts";
import { expandGraph } from "./topology.ts";

/** What would be run, for people: models with their workers, graphs with their agents and calls. */
export function summaryText(config: Config): string {
  const lines: string[] = [];
  for (const [name, model] of Object.entries(config.models)) {
    const called = model.model === name ? "" : ` (${model.model})`;
    const none = model.launch === undefined ? "no workers" : "to be launched";
    const workers = model.workers.length === 0 ? none : model.workers.map(workerText).join(", ");
    lines.push(`model ${name}${called}: ${model.engine}, ${workers}`);
  }
  for (const [name, graphConfig] of Object.entries(config.graphs)) {
    const { graph } = expandGraph(graphConfig, ["graphs", name]);
    if (graph === undefined) continue;
    lines.push(`graph ${name}: ${count(graph.agents.length, "call")} for each answer`);
    const members = new Map(graph.clusters.map((cluster) => [cluster.id, cluster.agents]));
    for (const agent of graph.agents) {
      const reads = agent.reads.flatMap((id) => members.get(id) ?? []);
      const what = reads.length === 0 ? "reads nobody" : `reads ${reads.join(", ")}`;
      const role = agent.id === graph.rootId ? ", root" : "";
      lines.push(`  ${agent.id}: ${agent.config.model}, prompt ${agent.config.prompt}, ${what}${role}`);
    }
  }
  return lines.map((line) => `${line}\n`).join("");
}

function workerText(worker: WorkerConfig): string {
  const url = (text: string) => String(shown(text, []));
  if (typeof worker === "string") return url(worker);
  return "url" in worker ? url(worker.url) : `${url(worker.prefill)} → ${url(worker.decode)}`;
}

function count(many: number, noun: string): string {
  return `${many} ${noun}${many === 1 ? "" : "s"}`;
}
