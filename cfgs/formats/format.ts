import type { ConfigPath } from "../schema/config_path.ts";
import type { ConfigFinding } from "../schema/explain.ts";
import { findNode, type SourceNode } from "../source/source.ts";

/** The formats that Canopy reads. */
export type ConfigFormat = "canopy" | "moa-vllm" | "tree";

/** A config of another format, rewritten as an unchecked Canopy config. */
export interface Converted {
  readonly value: unknown;
  /** Path in the source of a value of the Canopy config; undefined for what the format fixes or leaves to defaults. */
  sourceOf(path: ConfigPath): ConfigPath | undefined;
  /** Paths are those of the source. */
  readonly findings: readonly ConfigFinding[];
}

/** Tells the format by the top-level keys: MoA-vllm has the stages `proposer` and `aggregator`. */
export function detectFormat(root: SourceNode): ConfigFormat {
  if (root.kind !== "map" || root.entries.has("models") || root.entries.has("graphs")) return "canopy";
  if (!root.entries.has("proposer") && !root.entries.has("aggregator")) return "canopy";
  for (const stage of ["proposer", "aggregator"]) {
    for (const layer of valuesOf(findNode(root, [stage])?.node)) {
      for (const member of valuesOf(layer)) if (isCluster(member)) return "tree";
    }
  }
  return "moa-vllm";
}

/** True for a level of named agents: an agent itself has texts and numbers, not objects. */
export function isCluster(node: SourceNode): boolean {
  const members = valuesOf(node);
  return members.length > 0 && members.every((member) => member.kind === "map");
}

function valuesOf(node: SourceNode | undefined): SourceNode[] {
  return node?.kind === "map" ? [...node.entries.values()].map((entry) => entry.node) : [];
}
