import { z } from "zod";
import { type Converted, isCluster } from "./format.ts";
import { samplingSchema } from "../schema/sampling.ts";
import { type ConfigPath, formatPath } from "../schema/config_path.ts";
import { type ConfigFinding, explain, wrongValue } from "../schema/explain.ts";
import { findNode, type SourceNode, toJson } from "../source/source.ts";

/** Port of the first model when `model2port.json` is absent. */
export const DEFAULT_BASE_PORT = 8010;

/** Fields of an agent that MoA-vllm's Python code reads; it ignores all others. */
const agentSchema = z.looseObject({
  model: z.string().min(1),
  prompt: z.string(),
  temperature: samplingSchema.shape.temperature,
  top_p: samplingSchema.shape.top_p,
  max_tokens: samplingSchema.shape.max_tokens,
  max_output_tokens: samplingSchema.shape.max_tokens,
});

/** MoA-vllm's own defaults; the penalty is a constant of its code. */
const SAMPLING_DEFAULTS = { temperature: 0.7, top_p: 0.9, max_tokens: 1024, repetition_penalty: 1.1 };

const RESPONSES = { item: "[answer]", separator: "" };

/** Options of `convertMoaVllm`. */
export interface MoaVllmOptions {
  /** `cluster`: each layer has a level of named clusters (the tree format). */
  readonly levels: "layer" | "cluster";
  /** The content of `model2port.json`: model to port. */
  readonly ports: ReadonlyMap<string, number> | undefined;
  readonly basePort: number;
}

interface State {
  readonly options: MoaVllmOptions;
  readonly findings: ConfigFinding[];
  /** Text to the name under which it stands in `prompts`. */
  readonly prompts: Map<string, string>;
  /** Models in the order of their first agents. */
  readonly models: Set<string>;
  readonly sources: Map<string, ConfigPath>;
}

/**
 * Rewrites MoA-vllm's `configs.json` as a Canopy config with the graph `moa`: proposer layers, then aggregator
 * layers, in the order of the file, each agent reading all answers of the layer before.
 */
export function convertMoaVllm(root: SourceNode, options: MoaVllmOptions): Converted {
  const state: State = { options, findings: [], prompts: new Map(), models: new Set(), sources: new Map() };
  const layers: { clusters: { agents: unknown[] }[] }[] = [];
  for (const stage of ["proposer", "aggregator"]) {
    const found = findNode(root, [stage])?.node;
    if (found?.kind !== "map") {
      state.findings.push(wrongValue([stage], found && toJson(found), "an object with the stage's layers"));
      continue;
    }
    if (stage === "aggregator" && found.entries.size === 0) {
      state.findings.push(wrongValue([stage], {}, "at least one layer: the last one writes the answer"));
    }
    for (const [name, { node }] of found.entries) {
      const path = [stage, name];
      const clusters = convertLayer({ node, path }, layers.length, state);
      if (clusters === undefined) continue;
      layers.push({ clusters });
    }
  }
  checkTopLevel(root, state);
  return {
    value: assemble(layers, state),
    findings: state.findings,
    sourceOf: (path) => {
      for (let length = path.length; length > 0; length--) {
        const source = state.sources.get(JSON.stringify(path.slice(0, length)));
        if (source !== undefined) return [...source, ...path.slice(length)];
      }
      return undefined;
    },
  };
}

/** A part of MoA-vllm's file with its path there, which begins with its stage. */
interface Part {
  readonly node: SourceNode;
  readonly path: ConfigPath;
}

function convertLayer(part: Part, index: number, state: State): { agents: unknown[] }[] | undefined {
  const { node, path } = part;
  if (node.kind !== "map" || node.entries.size === 0) {
    state.findings.push(wrongValue(path, toJson(node), "an object with the layer's agents"));
    return undefined;
  }
  const target = ["graphs", "moa", "layers", index];
  state.sources.set(JSON.stringify(target), path);
  const clustered = state.options.levels === "cluster" &&
    [...node.entries.values()].every((entry) => isCluster(entry.node));
  const clusters = clustered
    ? [...node.entries].map(([name, entry]) => ({ path: [...path, name], node: entry.node }))
    : [part];
  return clusters.map((cluster, at) => {
    const clusterTarget = [...target, "clusters", at];
    state.sources.set(JSON.stringify(clusterTarget), cluster.path);
    const members = cluster.node.kind === "map" ? [...cluster.node.entries] : [];
    return {
      agents: members.map(([name, entry], n) =>
        convertAgent(
          { path: [...cluster.path, name], node: entry.node },
          [...clusterTarget, "agents", n],
          state,
        )
      ),
    };
  });
}

function convertAgent({ node, path }: Part, target: ConfigPath, state: State): unknown {
  const value = toJson(node);
  const problems = explain(agentSchema, value, path);
  state.findings.push(...problems);
  const parsed = agentSchema.safeParse(value);
  if (!parsed.success) return undefined;
  const { model, prompt, temperature, top_p, max_tokens, max_output_tokens, ...unknown } = parsed.data;
  for (const key of Object.keys(unknown)) {
    warn(state, [...path, key], "is ignored: MoA-vllm does not use it");
  }
  if (max_output_tokens !== undefined) {
    warn(state, [...path, "max_output_tokens"], "is MoA-vllm's older spelling of max_tokens");
  }
  state.models.add(model);
  const source = (keys: ConfigPath, key: string) => {
    state.sources.set(JSON.stringify([...target, ...keys]), [...path, key]);
  };
  state.sources.set(JSON.stringify(target), path);
  if (temperature !== undefined) source(["sampling", "temperature"], "temperature");
  if (top_p !== undefined) source(["sampling", "top_p"], "top_p");
  if (max_tokens !== undefined) source(["sampling", "max_tokens"], "max_tokens");
  else if (max_output_tokens !== undefined) source(["sampling", "max_tokens"], "max_output_tokens");
  const promptPath = [...path, "prompt"];
  return {
    model,
    prompt: promptName(currentSpelling(prompt, promptPath, state), promptPath, state),
    sampling: {
      temperature: temperature ?? SAMPLING_DEFAULTS.temperature,
      top_p: top_p ?? SAMPLING_DEFAULTS.top_p,
      max_tokens: max_tokens ?? max_output_tokens ?? SAMPLING_DEFAULTS.max_tokens,
      repetition_penalty: SAMPLING_DEFAULTS.repetition_penalty,
    },
  };
}

/** Early versions wrote `{input_prompts}` and `{responses}`; only a prompt without the new marks is one of those. */
function currentSpelling(prompt: string, path: ConfigPath, state: State): string {
  if (prompt.includes("[input_prompts]") || prompt.includes("[responses]")) return prompt;
  const renewed = prompt.replaceAll("{input_prompts}", "[input_prompts]").replaceAll(
    "{responses}",
    "[responses]",
  );
  if (renewed !== prompt) {
    warn(
      state,
      path,
      "uses MoA-vllm's older marks {input_prompts} and {responses}: they are read as [input_prompts] and [responses]",
    );
  }
  return renewed;
}

/** Equal texts share one entry of `prompts`, named after the stage that has it first. */
function promptName(text: string, path: ConfigPath, state: State): string {
  const known = state.prompts.get(text);
  if (known !== undefined) return known;
  const stage = String(path[0]);
  const count = [...state.prompts.values()].filter((name) => name.startsWith(stage)).length;
  const name = count === 0 ? stage : `${stage}-${count + 1}`;
  state.prompts.set(text, name);
  state.sources.set(JSON.stringify(["prompts", name, "text"]), path);
  return name;
}

function checkTopLevel(root: SourceNode, state: State): void {
  if (root.kind !== "map") return;
  for (const key of root.entries.keys()) {
    if (key === "show_intermediate_results") {
      warn(state, [key], "is ignored: ask with `canopy chat --show` to see what each agent said");
    } else if (key !== "proposer" && key !== "aggregator") {
      warn(state, [key], "is ignored: MoA-vllm does not use it");
    }
  }
}

function warn(state: State, path: ConfigPath, what: string): void {
  const message = `${formatPath(path)} ${what}`;
  state.findings.push({ severity: "warning", path, atKey: true, value: undefined, message });
}

function assemble(layers: readonly { clusters: { agents: unknown[] }[] }[], state: State): unknown {
  const { ports, basePort } = state.options;
  const models: [string, unknown][] = [];
  for (const [index, model] of [...state.models].entries()) {
    const port = ports === undefined ? basePort + index : ports.get(model);
    if (port === undefined) {
      const path = [model];
      const message = `model2port.json has no port for the model ${JSON.stringify(model)}: add one, ` +
        `or give --base-port`;
      state.findings.push({ severity: "error", path, atKey: true, value: undefined, message });
      continue;
    }
    const workers = [`http://localhost:${port}`];
    models.push([model, { model, engine: "vllm", workers, api_key: "EMPTY", tokenizer: false }]);
  }
  const prompts = [...state.prompts].map(([text, name]) => [name, { text, responses: RESPONSES }]);
  const graph = {
    compat: "moa-vllm",
    strip_reasoning: false,
    layers: layers.map(({ clusters }) =>
      clusters.length === 1 ? { agents: clusters[0]?.agents } : { clusters }
    ),
  };
  for (const [index, { clusters }] of layers.entries()) {
    if (clusters.length !== 1) continue;
    // The only cluster of a layer is written without its level, so its sources move up, too.
    const from = JSON.stringify(["graphs", "moa", "layers", index, "clusters", 0]).slice(0, -1);
    const to = JSON.stringify(["graphs", "moa", "layers", index]).slice(0, -1);
    for (const [key, source] of [...state.sources]) {
      if (key.startsWith(`${from},`)) state.sources.set(to + key.slice(from.length), source);
    }
  }
  return { models: Object.fromEntries(models), prompts: Object.fromEntries(prompts), graphs: { moa: graph } };
}
