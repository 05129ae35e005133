import { createHash } from "node:crypto";
import type { JsonObject } from "../../../base/json.ts";
import type { Graph } from "../../moa/graph/graph_types.ts";
import { contextTokensOf } from "../../moa/prompt/run_prompts.ts";
import type { HttpServices } from "../gate/services.ts";

/** The tag that Ollama's clients put behind a name without one. */
export const TAG = ":latest";

/** Graphs are never unloaded: Ollama has a date for each of its models. */
const YEARS_LOADED_MS = 100 * 365 * 24 * 60 * 60 * 1000;

/** Graphs as Ollama's models, for lists. */
export function listedGraphs({ moa, startedAt }: HttpServices): JsonObject[] {
  return [...moa.graphs.values()].map((graph) => ({
    ...named(graph),
    modified_at: dateOf(startedAt * 1000),
  }));
}

/** Graphs whose roots can answer now, as models that Ollama has loaded. */
export function loadedGraphs(http: HttpServices): JsonObject[] {
  const { moa, models, startedAt } = http;
  const ready = [...moa.graphs.values()].filter(({ root }) => models.get(root.model)?.pool.ready === true);
  return ready.map((graph) => {
    const context = contextOf(http, graph);
    return {
      ...named(graph),
      expires_at: dateOf(startedAt * 1000 + YEARS_LOADED_MS),
      size_vram: 0,
      ...(context === undefined ? {} : { context_length: context }),
    };
  });
}

/** One graph as Ollama shows a model. */
export function shownGraph(http: HttpServices, graph: Graph): JsonObject {
  const context = contextOf(http, graph);
  const { name, agents, joined } = graph;
  return {
    modified_at: dateOf(http.startedAt * 1000),
    modelfile: `# ${name} is a graph of ${agents.length} agents.\nFROM ${tagged(name)}\n`,
    parameters: "",
    template: "",
    details: details(),
    model_info: {
      "general.architecture": FAMILY,
      "general.basename": name,
      [`${FAMILY}.agents`]: agents.length,
      ...(context === undefined ? {} : { [`${FAMILY}.context_length`]: context }),
    },
    capabilities: joined === undefined ? ["completion", "tools"] : ["completion"],
  };
}

const FAMILY = "canopy";

function contextOf({ models }: HttpServices, { root }: Graph): number | undefined {
  const model = models.get(root.model);
  return model && contextTokensOf(model);
}

function named({ name }: Graph): JsonObject {
  const model = tagged(name);
  const digest = createHash("sha256").update(name).digest("hex");
  return { name: model, model, size: 0, digest, details: details() };
}

function tagged(name: string): string {
  return name.includes(":") ? name : name + TAG;
}

function details(): JsonObject {
  return {
    parent_model: "",
    format: "graph",
    family: FAMILY,
    families: [FAMILY],
    parameter_size: "",
    quantization_level: "",
  };
}

function dateOf(unixMs: number): string {
  return new Date(unixMs).toISOString();
}
