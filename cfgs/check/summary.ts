import type { Config, GraphConfig, ModelConfig, WorkerConfig } from "../schema/config.ts";
import { type EarlyExitConfig, type Effort, EFFORTS, leastAnswers, lowEffort } from "../schema/early_exit.ts";
import { shownSecret } from "../schema/secrets.ts";
import { prefilledModels, whyNotPrefilled, whyNotResumed } from "./prefill.ts";
import { waitingModels } from "./check_staircase.ts";
import type { ExpandedGraph } from "../topology/expanded_graph.ts";
import { expandGraph } from "../topology/expand_graph.ts";

/** A configuration for people: models with their workers, graphs with their agents and calls. */
export function summaryText(config: Config): string {
  const lines: string[] = [];
  for (const [name, model] of Object.entries(config.models)) {
    const called = model.model === name ? "" : ` (${model.model})`;
    const { fallback = [] } = model;
    const others = fallback.length === 0 ? "" : `; falls back on ${fallback.join(", ")}`;
    lines.push(`model ${name}${called}: ${model.engine}, ${workersText(model)}${others}`);
  }
  if (config.fleet !== undefined) {
    const { workers, engine } = config.fleet;
    const asked = engine === "auto"
      ? "asked for their models and engines"
      : `${engine}, asked for their models`;
    lines.push(`fleet: ${count(workers.length, "server")}, ${asked}`);
  }
  for (const [name, graphConfig] of Object.entries(config.graphs)) {
    const { graph } = expandGraph(graphConfig, ["graphs", name]);
    if (graph === undefined) continue;
    lines.push(`graph ${name}: ${count(graph.agents.length, "call")} for each answer`);
    const members = new Map(graph.clusters.map((cluster) => [cluster.id, cluster.agents]));
    for (const agent of graph.agents) {
      const reads = agent.reads.flatMap((id) => members.get(id) ?? []);
      const what = reads.length === 0 ? "reads nobody" : `reads ${reads.join(", ")}`;
      const role = graph.joined?.agents.includes(agent.id) === true
        ? ", joined with its layer's"
        : agent.id === graph.rootId
        ? ", root"
        : "";
      lines.push(`  ${agent.id}: ${agent.config.model}, prompt ${agent.config.prompt}, ${what}${role}`);
    }
    for (const { id, agents, earlyExit } of graph.clusters) {
      if (id !== graph.joined?.id && earlyExit.metric !== "none") {
        lines.push(`  ${id}: ${earlyExitText(earlyExit, agents.length)}`);
      }
    }
    const { early_exit: own } = config.graphs[name]!;
    if (own.scope === "run") lines.push(`  the run: ${consensusText(own)}`);
    if (graphConfig.effort === "root" || Object.keys(graphConfig.effort).length > 0) {
      lines.push(`  reasoning_effort: ${effortText(graphConfig, graph)}`);
    }
    if (graph.agents.some(({ reads }) => reads.length > 0)) {
      lines.push(`  incremental prefill: ${prefillText(config, name)}`);
    }
    if (graphConfig.root === "staircase") lines.push(`  root: ${staircaseText(config, name)}`);
    lines.push(...anewLines(config, graph));
  }
  return lines.map((line) => `${line}\n`).join("");
}

/** Says of whose answers another worker cannot write the rest. */
function anewLines(config: Config, { agents }: ExpandedGraph): string[] {
  const models = new Set(agents.map(({ config: { model } }) => model));
  const reasons = [...models].flatMap((model) => {
    const why = whyNotResumed(config, model);
    return why === undefined ? [] : [`${model} (${why})`];
  });
  return reasons.length === 0 ? [] : [`  answers that break off begin anew: ${reasons.join(", ")}`];
}

/** A graph's way of prefilling ahead, and for whom it is not in effect. */
function prefillText(config: Config, name: string): string {
  const { incremental_prefill: { mode }, compat } = config.graphs[name]!;
  if (mode !== "off" && compat !== undefined) return `off, compat "${compat}" fills prompts as a whole`;
  const without = prefilledModels(config, name).flatMap((model) => {
    const why = whyNotPrefilled(config, model);
    return why === undefined ? [] : [`, not for ${model}: ${why}`];
  });
  return `${mode}${without.join("")}`;
}

/** How a graph's root starts early, and who waits nevertheless. */
function staircaseText(config: Config, name: string): string {
  const { climbs, first_tokens, steps, write_tokens, ahead_tokens } = config.graphs[name]!.staircase;
  const who = climbs === "all" ? "it and all agents that read others start" : "it starts";
  const without = waitingModels(config, name).map(({ model, why }) => `; not ${model}: ${why}`);
  return `staircase: ${who} on the first ${first_tokens} tokens of those that it reads, in at most ${steps} steps of ` +
    `${write_tokens} tokens, ${ahead_tokens} ahead${without.join("")}`;
}

function workersText({ engine, workers, launch }: ModelConfig): string {
  if (engine === "onnx") return "in this process";
  if (workers.length > 0) return workers.map(workerText).join(", ");
  return launch === undefined ? "no workers" : "to be launched";
}

function earlyExitText(settings: EarlyExitConfig, members: number): string {
  const least = Math.min(leastAnswers(settings), members);
  return `may exit early, metric ${settings.metric}, from ${least} of ${count(members, "answer")} on`;
}

function effortText({ effort, early_exit }: GraphConfig, { joined }: ExpandedGraph): string {
  if (effort === "root" || joined !== undefined) return "goes to the last agents' engine as it came";
  const usual: Readonly<Record<Effort, string>> = {
    low: consensusText(lowEffort(early_exit)),
    medium: "the graph as it is",
    high: "the whole graph",
  };
  return EFFORTS.map((which) => {
    const { graph, early_exit: own } = effort[which] ?? {};
    if (graph !== undefined) return `${which} is the graph ${graph}`;
    if (own === undefined) return `${which}: ${usual[which]}`;
    return `${which}: ${own.scope === "run" ? consensusText(own) : `metric ${own.metric}`}`;
  }).join("; ");
}

function consensusText({ consensus }: EarlyExitConfig): string {
  const { agree, share, posterior, start, cut, undecided, undecided_level, audit, finish, rewrite } =
    consensus;
  const rule = posterior !== undefined
    ? `the leading answer is right with probability ${posterior}`
    : agree !== undefined
    ? `${agree} final answers agree`
    : share !== undefined
    ? `as many final answers agree as ${share === 1 / 3 ? "a third" : share} of the agents that read nobody`
    : "as many final answers agree as 4 of 9 agents that read nobody";
  const staged = start === "staged" ? "; the smallest models start first" : "";
  const cuts = cut === "decided" && posterior === undefined && undecided === "root"
    ? "; members whose votes cannot matter any more are ended"
    : "";
  const written = finish === "rewrite"
    ? `; ${rewrite.model ?? "its smallest model"} writes the answer up`
    : "";
  const least = posterior === undefined ? "" : `, if it is right with probability ${undecided_level},`;
  const leader = undecided === "leader"
    ? `; undecided it ends with the answer that leads${least} when all that read nobody have answered`
    : "";
  return `ends early when ${rule}${leader}${staged}${cuts}${written}${
    audit > 0 ? `; ${audit} of the exits are audited` : ""
  }`;
}

function workerText(worker: WorkerConfig): string {
  const url = (text: string) => String(shownSecret(text, []));
  if (typeof worker === "string") return url(worker);
  return "url" in worker ? url(worker.url) : `${url(worker.prefill)} → ${url(worker.decode)}`;
}

function count(many: number, noun: string): string {
  return `${many} ${noun}${many === 1 ? "" : "s"}`;
}
