import type { Json } from "../../base/json.ts";
import type { ConfigPath } from "../schema/config_path.ts";

/** A value of a config file with its place in the text (offsets count UTF-16 units). */
export type SourceNode =
  | { readonly kind: "scalar"; readonly offset: number; readonly value: null | boolean | number | string }
  | { readonly kind: "list"; readonly offset: number; readonly items: readonly SourceNode[] }
  | { readonly kind: "map"; readonly offset: number; readonly entries: SourceEntries };

/** Keys in the order of the file, which JavaScript objects do not keep for keys such as `"2"`. */
export type SourceEntries = ReadonlyMap<string, { readonly offset: number; readonly node: SourceNode }>;

/** Complaint of a parser about a text that is not well-formed. */
export interface SyntaxProblem {
  readonly offset: number;
  readonly message: string;
}

/** The outcome of reading a text; `root` is undefined when there are problems. */
export interface SourceText {
  readonly root: SourceNode | undefined;
  readonly problems: readonly SyntaxProblem[];
}

/** Most values in one file, aliases of YAML written out. */
export const MAX_SOURCE_NODES = 200_000;
/** Most levels of nesting. */
export const MAX_SOURCE_DEPTH = 200;
/** Most characters of a config file. */
export const MAX_SOURCE_LENGTH = 16 * 1024 * 1024;

/** The plain value of a node. */
export function toJson(node: SourceNode): Json {
  if (node.kind === "scalar") return node.value;
  if (node.kind === "list") return node.items.map(toJson);
  return Object.fromEntries([...node.entries].map(([key, entry]) => [key, toJson(entry.node)]));
}

/** The node at a path, and where its key starts; undefined when there is none. */
export function findNode(
  root: SourceNode,
  path: ConfigPath,
): { readonly node: SourceNode; readonly keyOffset: number } | undefined {
  let node = root;
  let keyOffset = root.offset;
  for (const part of path) {
    if (node.kind === "map") {
      const entry = node.entries.get(String(part));
      if (entry === undefined) return undefined;
      node = entry.node;
      keyOffset = entry.offset;
    } else if (node.kind === "list" && typeof part === "number") {
      const item = node.items[part];
      if (item === undefined) return undefined;
      node = item;
      keyOffset = item.offset;
    } else return undefined;
  }
  return { node, keyOffset };
}

/** Turns offsets into lines and columns, both from 1. */
export function lineFinder(text: string): (offset: number) => { line: number; column: number } {
  const starts = [0];
  for (let at = text.indexOf("\n"); at >= 0; at = text.indexOf("\n", at + 1)) starts.push(at + 1);
  return (offset) => {
    let low = 0;
    let high = starts.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (starts[middle]! <= offset) low = middle;
      else high = middle - 1;
    }
    return { line: low + 1, column: offset - starts[low]! + 1 };
  };
}
