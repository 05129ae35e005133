import { createHash } from "node:crypto";
import { badRequest, type CanopyError } from "../../../base/errors.ts";
import { builtinPrompts, promptNamed } from "../../../cfgs/prompts/builtin.ts";
import type { Config, GraphConfig, PromptConfig } from "../../../cfgs/schema/config.ts";
import { whyNoStaircase } from "../../../cfgs/check/check_staircase.ts";
import { type Effort, lowEffort, noEarlyExit } from "../../../cfgs/schema/early_exit.ts";
import { type ConfigPath, formatPath } from "../../../cfgs/schema/config_path.ts";
import { expandGraph } from "../../../cfgs/topology/expand_graph.ts";
import type { ExpandedAgent, ExpandedCluster, ExpandedGraph } from "../../../cfgs/topology/expanded_graph.ts";
import type { Sampling } from "../../engines/engine.ts";
import type { AgentNode, ClusterNode, Graph } from "./graph_types.ts";
import { mergeSampling, samplingOf } from "./sampling.ts";
import { parseTemplate, type PromptTemplate, segmentsOf } from "./template.ts";

const HASH_LENGTH = 12;

/** Builds every graph of a config. Throws as `buildGraph` does. */
export function buildGraphs(config: Config): Map<string, Graph> {
  return new Map(Object.keys(config.graphs).map((name) => [name, buildGraph(name, config)]));
}

/**
 * Builds the graph `name` of a config. Throws 400 `invalid_config`, with the config path as `param`, for a graph
 * that cannot be run: wrong shape, unknown model or prompt, a slot without precursor, precursors that nobody reads.
 */
export function buildGraph(name: string, config: Config): Graph {
  const graph = buildOne(name, config);
  const { byDefault, refusal } = graph.staircase ?? {};
  if (byDefault === true && refusal !== undefined) {
    throw invalid(["graphs", name, "root"], `is "staircase", but ${refusal}`);
  }
  return { ...graph, efforts: effortGraphs(graph, config) };
}

/** A graph at each level of effort; undefined where `reasoning_effort` is the root's own. */
function effortGraphs(graph: Graph, config: Config): Graph["efforts"] {
  const { name } = graph;
  const written = config.graphs[name]!;
  const { effort } = written;
  // Of several answers one after the other there is no early end.
  if (effort === "root" || graph.joined !== undefined) return undefined;
  const built = (changed: GraphConfig) => buildOne(name, { ...config, graphs: { [name]: changed } });
  const level = (which: Effort, usual: () => Graph): Graph => {
    const { graph: other, early_exit } = effort[which] ?? {};
    if (other !== undefined && own(config.graphs, other) === undefined) {
      const known = Object.keys(config.graphs).join(", ");
      throw invalid(
        ["graphs", name, "effort", which, "graph"],
        `is "${other}", which is not one of the graphs: ${known}`,
      );
    }
    if (other !== undefined) return { ...buildOne(other, config), effort: which };
    return { ...early_exit === undefined ? usual() : built({ ...written, early_exit }), effort: which };
  };
  return {
    low: level("low", () => {
      const early_exit = lowEffort(written.early_exit);
      const refusal = whyNoStaircase({ ...written, early_exit });
      return {
        ...graph,
        runExit: early_exit,
        staircase: graph.staircase && { ...graph.staircase, refusal },
      };
    }),
    medium: level("medium", () => graph),
    high: level("high", () => built(withoutExits(written))),
  };
}

function withoutExits(graph: GraphConfig): GraphConfig {
  if (!("layers" in graph)) return { ...graph, early_exit: noEarlyExit };
  const layers = graph.layers.map((layer) => ({
    ...layer,
    early_exit: undefined,
    clusters: typeof layer.clusters === "number"
      ? layer.clusters
      : layer.clusters.map((cluster) => ({ ...cluster, early_exit: undefined })),
  }));
  return { ...graph, layers, early_exit: noEarlyExit };
}

function buildOne(name: string, config: Config): Graph {
  const graph = config.graphs[name];
  const path = ["graphs", name];
  if (graph === undefined) throw invalid(path, "does not exist");
  const { graph: expanded, problems } = expandGraph(graph, path);
  if (expanded === undefined) {
    const [first, ...others] = problems;
    const more = others.length === 0 ? "" : ` (and ${others.length} more problems)`;
    throw invalid(first?.path ?? path, `${first?.message ?? "has no agents"}${more}`);
  }
  return new GraphBuilder(graph, config).build(name, expanded);
}

class GraphBuilder {
  readonly #graph: GraphConfig;
  readonly #config: Config;
  readonly #templates = new Map<string, PromptTemplate>();

  constructor(graph: GraphConfig, config: Config) {
    this.#graph = graph;
    this.#config = config;
  }

  build(name: string, expanded: ExpandedGraph): Graph {
    const writtenClusters = new Map(expanded.clusters.map((cluster) => [cluster.id, cluster]));
    const agents = new Map<string, AgentNode>();
    const clusters = new Map<string, ClusterNode>();
    // Agents come after all that they read, so a cluster's members are there when its first reader is built.
    for (const agent of expanded.agents) {
      for (const id of agent.reads) {
        if (!clusters.has(id)) clusters.set(id, this.#cluster(writtenClusters.get(id)!, agents));
      }
      agents.set(agent.id, this.#agent(agent, agent.reads.map((id) => clusters.get(id)!)));
    }
    const joined = expanded.joined && { ...this.#cluster(expanded.joined, agents), earlyExit: noEarlyExit };
    if (joined !== undefined) clusters.set(joined.id, joined);
    const { slots, strip_reasoning, deadline_ms, compat, neutralise_control_tokens } = this.#graph;
    const { incremental_prefill, early_exit, on_overflow, root, staircase } = this.#graph;
    const refusal = whyNoStaircase(this.#graph);
    return {
      name,
      hash: this.#hash(expanded),
      agents: [...agents.values()],
      clusters: [...clusters.values()],
      root: agents.get(expanded.rootId)!,
      joined,
      slots,
      // MoA-vllm passes on what the models say, reasoning included.
      stripReasoning: strip_reasoning && compat === undefined,
      deadlineMs: deadline_ms,
      compat,
      neutralisedTexts: neutralise_control_tokens,
      incrementalPrefill: {
        // MoA-vllm writes all answers at once, wherever a text has its placeholder.
        mode: compat === undefined ? incremental_prefill.mode : "off",
        chunkTokens: incremental_prefill.chunk_tokens,
        maxStallMs: incremental_prefill.max_stall_ms,
      },
      runExit: early_exit.scope === "run" ? early_exit : undefined,
      rewriteTemplate: this.#rewriteTemplate(name),
      staircase: {
        byDefault: root === "staircase",
        settings: staircase,
        refusal,
      },
      onOverflow: on_overflow,
      answerTokens: this.#graph.answer_tokens,
      endLoops: this.#graph.end_loops && compat === undefined,
    };
  }

  #hash({ agents }: ExpandedGraph): string {
    const prompts = agents.map(({ config }) => promptNamed(this.#config, config.prompt));
    const sampling = agents.map(({ config }) => own(this.#config.models, config.model)?.sampling);
    const whole = JSON.stringify([this.#graph, prompts, sampling]);
    return createHash("sha256").update(whole).digest("hex").slice(0, HASH_LENGTH);
  }

  #cluster(written: ExpandedCluster, agents: ReadonlyMap<string, AgentNode>): ClusterNode {
    return {
      id: written.id,
      agents: written.agents.map((id) => agents.get(id)!),
      minResponses: written.minResponses,
      minOnExit: written.minOnExit,
      earlyExit: written.earlyExit,
    };
  }

  #agent(written: ExpandedAgent, reads: readonly ClusterNode[]): AgentNode {
    const template = this.#template(written);
    checkSlots(written, template, reads);
    return {
      id: written.id,
      model: written.config.model,
      template,
      sampling: this.#sampling(written),
      deadlineMs: written.config.deadline_ms,
      onDeadline: written.onDeadline,
      reads,
    };
  }

  #sampling(written: ExpandedAgent): Sampling {
    const { model, sampling } = written.config;
    const served = own(this.#config.models, model);
    if (served === undefined) {
      const known = Object.keys(this.#config.models).join(", ");
      throw invalid([...written.path, "model"], `is "${model}", which is not one of the models: ${known}`);
    }
    return mergeSampling(samplingOf(served.sampling ?? {}), samplingOf(sampling ?? {}));
  }

  #rewriteTemplate(graph: string): PromptTemplate | undefined {
    const { scope, consensus: { finish, rewrite } } = this.#graph.early_exit;
    if (scope !== "run" || finish !== "rewrite") return undefined;
    const path = ["graphs", graph, "early_exit", "consensus", "rewrite"];
    const config = promptNamed(this.#config, rewrite.prompt);
    if (config === undefined) throw unknownPrompt([...path, "prompt"], rewrite.prompt, this.#config);
    const template = parseTemplate(config);
    if (!segmentsOf(template).some(({ kind }) => kind === "responses")) {
      throw invalid([...path, "prompt"], "has no slot for the texts that agree: put [responses] into it");
    }
    if (rewrite.model !== undefined && own(this.#config.models, rewrite.model) === undefined) {
      const known = Object.keys(this.#config.models).join(", ");
      throw invalid([...path, "model"], `is "${rewrite.model}", which is not one of the models: ${known}`);
    }
    return template;
  }

  #template(written: ExpandedAgent): PromptTemplate {
    const name = written.config.prompt;
    const parsed = this.#templates.get(name);
    if (parsed !== undefined) return parsed;
    const config = promptNamed(this.#config, name);
    if (config === undefined) throw unknownPrompt([...written.path, "prompt"], name, this.#config);
    const template = this.#graph.compat === "moa-vllm"
      ? moaVllmTemplate(config, written)
      : parseTemplate(config);
    this.#templates.set(name, template);
    return template;
  }
}

function unknownPrompt(path: ConfigPath, name: string, { prompts }: Config): CanopyError {
  const known = Object.keys({ ...builtinPrompts, ...prompts }).join(", ");
  return invalid(path, `is "${name}", which is not one of the prompts: ${known}`);
}

function moaVllmTemplate(config: PromptConfig, written: ExpandedAgent): PromptTemplate {
  if (typeof config === "string" || !("text" in config)) {
    throw invalid([...written.path, "prompt"], `must be a raw prompt ({"text": …}) under compat "moa-vllm"`);
  }
  return { kind: "moa-vllm", text: config.text };
}

/** Every slot needs a precursor to fill it, and precursors need a slot. MoA-vllm allows both mistakes. */
function checkSlots(written: ExpandedAgent, template: PromptTemplate, reads: readonly ClusterNode[]): void {
  if (template.kind === "moa-vllm") return;
  const path = [...written.path, "prompt"];
  const precursors = new Set(reads.flatMap((cluster) => cluster.agents.map((agent) => agent.id)));
  const segments = segmentsOf(template);
  for (const segment of segments) {
    if (segment.kind === "answer" && !precursors.has(segment.agent)) {
      const known = precursors.size === 0 ? "it reads nobody" : `it reads ${[...precursors].join(", ")}`;
      throw invalid(path, `has a slot <|answer:${segment.agent}|> that ${written.id} cannot fill: ${known}`);
    }
  }
  if (precursors.size > 0 && !segments.some(({ kind }) => kind === "answer" || kind === "responses")) {
    throw invalid(
      path,
      `has no slot for the ${precursors.size} answers that ${written.id} reads: put [responses] into it`,
    );
  }
}

/** An entry of a record that is really its own: `toString` and the like are not. */
function own<V>(record: Readonly<Record<string, V>>, name: string): V | undefined {
  return Object.hasOwn(record, name) ? record[name] : undefined;
}

function invalid(path: ConfigPath, message: string): CanopyError {
  const place = formatPath(path);
  return badRequest(place, `${place} ${message}`, "invalid_config");
}
