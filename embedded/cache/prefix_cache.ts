import type { KeyValues } from "./key_values.ts";

/** The part of a sequence that is known. */
export interface PrefixMatch {
  /** Its first tokens that are known. */
  readonly tokens: number;
  /** Starts with them; undefined when there are none. It may hold more, and go on otherwise than what was asked. */
  readonly source: KeyValues | undefined;
}

interface Node {
  /** The tokens between the parent and here. */
  ids: readonly number[];
  parent: Node | undefined;
  /** By their first token. Either none or more than one, but for the root. */
  readonly children: Map<number, Node>;
  /** Of leaves: keys and values from the sequence's start to here, and maybe of tokens that were appended since. */
  keyValues: KeyValues | undefined;
  /** Order of uses. */
  usedAt: number;
}

/**
 * Remembers sequences by their tokens: a radix tree with pages of one token, so that every known prefix is found in
 * full. A leaf holds its whole sequence: what goes on from its end needs no copy, and a sequence that grows takes its
 * leaf along. What branches off shares the tokens, not the memory. The memory's bound is the pool's: taking from
 * that evicts here, the leaf first that was used longest ago.
 */
export class PrefixCache {
  readonly #root: Node = { ids: [], parent: undefined, children: new Map(), keyValues: undefined, usedAt: 0 };
  readonly #leaves = new Set<Node>();
  #tokens = 0;
  #uses = 0;

  /** Different tokens that are known. */
  get tokens(): number {
    return this.#tokens;
  }

  /** The longest known prefix of `ids`. */
  match(ids: readonly number[]): PrefixMatch {
    const { node, tokens } = this.#walk(ids);
    if (tokens === 0) return { tokens: 0, source: undefined };
    let leaf = node;
    // Any leaf below starts with it; the one that is used most recently is kept longest.
    while (leaf.keyValues === undefined) {
      leaf = [...leaf.children.values()].reduce((a, b) => a.usedAt >= b.usedAt ? a : b);
    }
    this.#touch(leaf);
    return { tokens, source: leaf.keyValues };
  }

  /** Remembers `ids`; `keyValues` starts with them, and is retained. */
  insert(ids: readonly number[], keyValues: KeyValues): void {
    const { node, tokens, inNode } = this.#walk(ids);
    if (tokens === ids.length) return;
    const rest = ids.slice(tokens);
    this.#tokens += rest.length;
    if (node.keyValues !== undefined && inNode === node.ids.length) {
      // The sequence has grown.
      const shorter = node.keyValues;
      node.keyValues = keyValues.retain();
      shorter.release();
      node.ids = [...node.ids, ...rest];
      return this.#touch(node);
    }
    const parent = inNode === node.ids.length ? node : this.#split(node, inNode);
    const leaf: Node = {
      ids: rest,
      parent,
      children: new Map(),
      keyValues: keyValues.retain(),
      usedAt: 0,
    };
    parent.children.set(rest[0]!, leaf);
    this.#leaves.add(leaf);
    this.#touch(leaf);
  }

  /** Forgets the sequence that was used longest ago and that has no other holder; false when there is none. */
  evict(): boolean {
    let oldest: Node | undefined;
    for (const leaf of this.#leaves) {
      if (leaf.keyValues!.shared) continue;
      if (oldest === undefined || leaf.usedAt < oldest.usedAt) oldest = leaf;
    }
    if (oldest === undefined) return false;
    const parent = oldest.parent!;
    parent.children.delete(oldest.ids[0]!);
    this.#leaves.delete(oldest);
    this.#tokens -= oldest.ids.length;
    oldest.keyValues!.release();
    if (parent.children.size === 1 && parent !== this.#root) this.#join(parent);
    return true;
  }

  /** The deepest node that `ids` lead into, how many of them do, and how many of those are the node's own. */
  #walk(ids: readonly number[]): { node: Node; tokens: number; inNode: number } {
    let node = this.#root;
    let tokens = 0;
    let inNode = 0;
    while (inNode === node.ids.length) {
      const next = node.children.get(ids[tokens] ?? -1);
      if (next === undefined) break;
      node = next;
      inNode = 0;
      while (inNode < node.ids.length && node.ids[inNode] === ids[tokens]) {
        inNode++;
        tokens++;
      }
    }
    return { node, tokens, inNode };
  }

  #touch(leaf: Node): void {
    const now = ++this.#uses;
    for (let node: Node | undefined = leaf; node !== undefined; node = node.parent) node.usedAt = now;
  }

  /** A new node between a node and its parent. */
  #split(node: Node, at: number): Node {
    const parent = node.parent!;
    const middle: Node = {
      ids: node.ids.slice(0, at),
      parent,
      children: new Map(),
      keyValues: undefined,
      usedAt: node.usedAt,
    };
    parent.children.set(middle.ids[0]!, middle);
    node.ids = node.ids.slice(at);
    node.parent = middle;
    middle.children.set(node.ids[0]!, node);
    return middle;
  }

  /** Makes one of a node and its only child. */
  #join(node: Node): void {
    const [child] = node.children.values();
    const parent = node.parent!;
    child!.ids = [...node.ids, ...child!.ids];
    child!.parent = parent;
    parent.children.set(child!.ids[0]!, child!);
  }
}
