import { type Document, isAlias, isMap, isScalar, isSeq, parseDocument } from "yaml";
import { messageOf } from "../../base/errors.ts";
import {
  MAX_SOURCE_DEPTH,
  MAX_SOURCE_NODES,
  type SourceNode,
  type SourceText,
  type SyntaxProblem,
} from "./source.ts";

interface State {
  readonly document: Document;
  readonly problems: SyntaxProblem[];
  nodes: number;
}

/** Reads YAML 1.2: anchors, aliases and merge keys (`<<`) included. */
export function parseYaml(text: string): SourceText {
  let document: Document;
  try {
    document = parseDocument(text, { merge: true, prettyErrors: false });
  } catch (error) {
    return {
      root: undefined,
      problems: [{ offset: 0, message: `this is not valid YAML: ${plain(messageOf(error))}` }],
    };
  }
  const first = document.errors[0];
  if (first !== undefined) {
    const message = `this is not valid YAML: ${plain(first.message)}`;
    return { root: undefined, problems: [{ offset: first.pos[0], message }] };
  }
  if (document.contents === null) {
    return { root: undefined, problems: [{ offset: 0, message: "the file is empty" }] };
  }
  const state: State = { document, problems: [], nodes: 0 };
  const root = convert(document.contents, 0, 0, state);
  return { root: state.problems.length === 0 ? root : undefined, problems: state.problems };
}

function convert(node: unknown, parentOffset: number, depth: number, state: State): SourceNode {
  const offset = offsetOf(node) ?? parentOffset;
  const refuse = (message: string): SourceNode => {
    state.problems.push({ offset, message });
    return { kind: "scalar", offset, value: null };
  };
  if (++state.nodes > MAX_SOURCE_NODES) {
    return state.nodes === MAX_SOURCE_NODES + 1
      ? refuse(`the file has more than ${MAX_SOURCE_NODES} values`)
      : { kind: "scalar", offset, value: null };
  }
  if (depth > MAX_SOURCE_DEPTH) return refuse(`values are nested deeper than ${MAX_SOURCE_DEPTH} levels`);
  if (node === null || node === undefined) return { kind: "scalar", offset, value: null };
  if (isAlias(node)) {
    const target = node.resolve(state.document);
    if (target === undefined) return refuse(`the alias *${node.source} names no anchor`);
    return convert(target, offset, depth + 1, state);
  }
  if (isSeq(node)) {
    return { kind: "list", offset, items: node.items.map((item) => convert(item, offset, depth + 1, state)) };
  }
  if (isMap(node)) return convertMap(node.items, offset, depth, state);
  const value: unknown = isScalar(node) ? node.value : undefined;
  if (value === null || typeof value === "boolean" || typeof value === "string") {
    return { kind: "scalar", offset, value };
  }
  if (typeof value === "number" && Number.isFinite(value)) return { kind: "scalar", offset, value };
  return refuse("this value has no counterpart in JSON");
}

function convertMap(
  items: readonly { key: unknown; value: unknown }[],
  offset: number,
  depth: number,
  state: State,
): SourceNode {
  const entries = new Map<string, { offset: number; node: SourceNode }>();
  const merged = new Map<string, { offset: number; node: SourceNode }>();
  for (const pair of items) {
    const keyOffset = offsetOf(pair.key) ?? offset;
    const key: unknown = isScalar(pair.key) ? pair.key.value : pair.key;
    if (typeof key !== "string" && typeof key !== "number" && typeof key !== "boolean") {
      // yaml marks a merge key with a symbol.
      if (typeof key !== "symbol" || key.description !== "<<") {
        state.problems.push({ offset: keyOffset, message: "a key must be a text" });
        continue;
      }
    }
    const name = typeof key === "symbol" ? "<<" : String(key);
    if (name === "__proto__") {
      state.problems.push({ offset: keyOffset, message: `"__proto__" cannot be used as a key` });
    }
    const node = convert(pair.value, keyOffset, depth + 1, state);
    if (name !== "<<") {
      entries.set(name, { offset: keyOffset, node });
      continue;
    }
    for (const source of node.kind === "list" ? node.items : [node]) {
      if (source.kind !== "map") {
        state.problems.push({ offset: keyOffset, message: "a merge key << needs a map" });
        continue;
      }
      for (const [inner, entry] of source.entries) if (!merged.has(inner)) merged.set(inner, entry);
    }
  }
  for (const [name, entry] of merged) if (!entries.has(name)) entries.set(name, entry);
  return { kind: "map", offset, entries };
}

function offsetOf(node: unknown): number | undefined {
  if (typeof node !== "object" || node === null || !("range" in node)) return undefined;
  const { range } = node;
  return Array.isArray(range) && typeof range[0] === "number" ? range[0] : undefined;
}

function plain(message: string): string {
  return message.startsWith("Maximum call stack")
    ? "values are nested too deeply"
    : message.replace(/\s+/g, " ").trim();
}
