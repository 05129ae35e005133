import { CanopyError } from "../../../base/errors.ts";
import type { GraphSettings } from "../graphs.ts";
import type { ExitRule } from "./exit_rules.ts";

/** A graph that a search tries. */
export interface TopologyCandidate {
  /** Such as `9-3-1 4b/8b/32b agree:3`. */
  readonly name: string;
  /** From the first layer to the root. */
  readonly layers: readonly TopologyLayer[];
  readonly exit: ExitRule;
}

/** A layer of a candidate: clusters of models' names, one for each agent of the next layer. */
export interface TopologyLayer {
  readonly clusters: readonly (readonly string[])[];
}

/** The dimensions of a search. */
export interface TopologyGrid {
  /** Layers, the root's included. */
  readonly depths: readonly number[];
  /** Agents of the first layer. */
  readonly widths: readonly number[];
  /** From the smallest to the largest. */
  readonly models: readonly string[];
  readonly exits: readonly ExitRule[];
}

/** Most candidates of one search. */
const MAX_CANDIDATES = 500;
/** Agents that one of the next layer reads, roughly: the paper's. */
const CLUSTER_SIZE = 3;
/** Models in turn, as in the paper's tree. */
const MIXED = "mixed";

/**
 * All graphs of a grid. A layer has a third of the agents of the one before it, the last one has the root; its models
 * are one, or all in turn, and never smaller ones than before. What would be the same graph twice, or a lone agent that
 * rewrites another one's answer, is left out. Throws 400 `bad_grid` for none and for too many.
 */
export function topologyCandidates({ depths, widths, models, exits }: TopologyGrid): TopologyCandidate[] {
  const shapes = new Map(
    depths.flatMap((depth) => depth === 1 ? [[1]] : widths.map((width) => shapeOf(depth, width)))
      .flatMap((shape) => shape === undefined ? [] : [[shape.join("-"), shape]]),
  );
  const candidates = [...shapes].flatMap(([name, shape]) =>
    mappingsOf(shape.length, models).flatMap((mapping) =>
      exits.filter(({ least }) => least === 0 || agentsBeforeRoot(shape) >= least).map((exit) => ({
        name: `${name} ${mapping.join("/")} ${exit.name}`,
        layers: layersOf(shape, mapping, models),
        exit,
      }))
    )
  );
  if (candidates.length > 0 && candidates.length <= MAX_CANDIDATES) return candidates;
  const dimensions = `depths (${depths.join(", ")}), widths (${widths.join(", ")}), models (${
    models.join(", ")
  }) and exits (${exits.map(({ name }) => name).join(", ")})`;
  throw new CanopyError(
    candidates.length === 0
      ? `Cannot search: no graph has these ${dimensions}`
      : `Cannot search: ${candidates.length} candidates, at most ${MAX_CANDIDATES} are tried: leave out some of the ` +
        dimensions,
    { code: "bad_grid", status: 400 },
  );
}

function agentsBeforeRoot(shape: readonly number[]): number {
  return shape.slice(0, -1).reduce((sum, agents) => sum + agents, 0);
}

/** Agents by layer; undefined where a layer between the first one and the root has fewer than two. */
function shapeOf(depth: number, width: number): number[] | undefined {
  const shape = [width];
  while (shape.length < depth - 1) shape.push(Math.round(shape.at(-1)! / CLUSTER_SIZE));
  return shape.some((agents) => agents < 2) ? undefined : [...shape, 1];
}

/** Names of the layers' models, from the first to the root. */
function mappingsOf(depth: number, models: readonly string[]): string[][] {
  // Of all models in turn the largest is one: what stands above it is the largest alone.
  const ranked = models.length < 2 ? models : [...models.slice(0, -1), MIXED, ...models.slice(-1)];
  let mappings = ranked.flatMap((name, rank) => name === MIXED ? [] : [{ names: [name], rank }]);
  for (let layer = 1; layer < depth; layer++) {
    mappings = mappings.flatMap(({ names, rank }) =>
      ranked.slice(0, rank + 1).map((name, lower) => ({ names: [name, ...names], rank: lower }))
    );
  }
  return mappings.map(({ names }) => names);
}

function layersOf(
  shape: readonly number[],
  mapping: readonly string[],
  models: readonly string[],
): TopologyLayer[] {
  return shape.map((agents, layer) => {
    const name = mapping[layer]!;
    const members = Array.from(
      { length: agents },
      (_, at) => name === MIXED ? models[at % models.length]! : name,
    );
    const readers = shape[layer + 1] ?? 1;
    const from = (reader: number) => Math.round(reader * agents / readers);
    return { clusters: Array.from({ length: readers }, (_, at) => members.slice(from(at), from(at + 1))) };
  });
}

/** The models of a candidate, each once. */
export function topologyModels({ layers }: Pick<TopologyCandidate, "layers">): string[] {
  return [...new Set(layers.flatMap(({ clusters }) => clusters.flat()))];
}

/** The candidate as a configuration has it. */
export function candidateGraph({ layers, exit }: TopologyCandidate): GraphSettings {
  return {
    layers: layers.map(({ clusters }) => {
      const written = clusters.map((models) => ({ agents: models.map((model) => ({ model })) }));
      const [first] = written;
      const equal = written.every((cluster) => JSON.stringify(cluster) === JSON.stringify(first));
      if (!equal) return { clusters: written };
      return written.length === 1 ? { ...first } : { clusters: written.length, ...first };
    }),
    slots: "completion",
    early_exit: exit.settings(topologyModels({ layers })),
  };
}
