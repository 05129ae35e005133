/** A run of tokens below its parent; every path from a root is a cached prefix. */
export interface CacheNode {
  parent: CacheNode | undefined;
  key: number;
  tokens: number[];
  children: Map<number, CacheNode> | undefined;
  /** Sequences that hold this node or one below it. */
  holders: number;
  /** Place in the list of nodes that nobody holds; oldest first. */
  previous: CacheNode | undefined;
  next: CacheNode | undefined;
  listed: boolean;
}

/**
 * A radix tree of cached prefixes in pages of `pageSize` tokens: SGLang's tree with page size 1, vLLM's block cache
 * with 16. Unheld nodes are evicted in the order of their release, the deepest first, as both engines do.
 */
export class RadixCache {
  readonly pageSize: number;
  #roots = new Map<string, CacheNode>();
  #oldest: CacheNode | undefined;
  #newest: CacheNode | undefined;
  #tokens = 0;
  #heldTokens = 0;

  constructor(pageSize: number) {
    this.pageSize = pageSize;
  }

  /** Tokens in the tree. */
  get tokens(): number {
    return this.#tokens;
  }

  /** Tokens that `evict` could free. */
  get evictableTokens(): number {
    return this.#tokens - this.#heldTokens;
  }

  /**
   * The longest cached prefix of `ids`, at most `limit` tokens, floored to whole pages.
   * The node is held: call `release` on it, or on the node that `extend` gives in its place.
   */
  hold(ids: readonly number[], limit: number, salt: string): { node: CacheNode; length: number } {
    let node = this.#root(salt);
    let length = 0;
    const most = this.#floor(Math.min(limit, ids.length));
    while (length < most) {
      const child = this.#child(node, ids, length);
      if (child === undefined) break;
      const common = this.#common(child, ids, length, most);
      if (common === 0) break;
      length += common;
      node = common < child.tokens.length ? this.#split(child, common) : child;
    }
    for (let at: CacheNode | undefined = node; at !== undefined; at = at.parent) this.#take(at);
    return { node, length };
  }

  /**
   * Adds `ids[from..to)` below a held node, where `from` is the length of its path; both are whole pages.
   * The hold moves to the returned node.
   */
  extend(held: CacheNode, ids: readonly number[], from: number, to: number): CacheNode {
    let node = held;
    let at = from;
    while (at < to) {
      const child = this.#child(node, ids, at);
      if (child === undefined) {
        const alone = node.holders === 1 && node.parent !== undefined &&
          (node.children === undefined || node.children.size === 0);
        if (alone) {
          for (let i = at; i < to; i++) node.tokens.push(ids[i]!);
        } else node = this.#add(node, ids.slice(at, to), ids, at);
        this.#tokens += to - at;
        this.#heldTokens += to - at;
        return node;
      }
      const common = this.#common(child, ids, at, to);
      at += common;
      node = common < child.tokens.length ? this.#split(child, common) : child;
      this.#take(node);
    }
    return node;
  }

  /** Gives a hold back; the prefix stays cached until it is evicted. */
  release(node: CacheNode): void {
    for (let at: CacheNode | undefined = node; at !== undefined; at = at.parent) {
      at.holders--;
      if (at.holders === 0 && at.parent !== undefined) {
        this.#heldTokens -= at.tokens.length;
        this.#append(at);
      } else this.#forgetIfEmpty(at);
    }
  }

  /** Frees at least `tokens` if so many are evictable; returns how many were freed. */
  evict(tokens: number): number {
    let freed = 0;
    while (freed < tokens && this.#oldest !== undefined) {
      const leaf = this.#oldest;
      const drop = Math.min(leaf.tokens.length, this.#ceil(tokens - freed));
      if (drop === leaf.tokens.length) this.#remove(leaf);
      else leaf.tokens.length -= drop;
      this.#tokens -= drop;
      freed += drop;
    }
    return freed;
  }

  /** Drops everything that nobody holds. */
  clear(): void {
    this.evict(this.evictableTokens);
  }

  #root(salt: string): CacheNode {
    let root = this.#roots.get(salt);
    if (root === undefined) {
      root = newNode(undefined, 0, []);
      this.#roots.set(salt, root);
    }
    return root;
  }

  #child(node: CacheNode, ids: readonly number[], at: number): CacheNode | undefined {
    if (node.children === undefined) return undefined;
    let key = this.#key(ids, at);
    while (true) {
      const child = node.children.get(key);
      if (child === undefined || this.pageSize === 1 || this.#samePage(child, ids, at)) return child;
      key++;
    }
  }

  #add(parent: CacheNode, tokens: number[], ids: readonly number[], at: number): CacheNode {
    parent.children ??= new Map();
    let key = this.#key(ids, at);
    while (parent.children.has(key)) key++;
    const node = newNode(parent, key, tokens);
    node.holders = 1;
    parent.children.set(key, node);
    return node;
  }

  /** Cuts a node after `length` tokens; the given object stays the lower part. Returns the upper part. */
  #split(lower: CacheNode, length: number): CacheNode {
    const upper = newNode(lower.parent, lower.key, lower.tokens.slice(0, length));
    upper.holders = lower.holders;
    lower.parent!.children!.set(upper.key, upper);
    lower.tokens = lower.tokens.slice(length);
    lower.parent = upper;
    lower.key = this.#key(lower.tokens, 0);
    upper.children = new Map([[lower.key, lower]]);
    if (lower.listed) this.#insertAfter(upper, lower);
    return upper;
  }

  #remove(leaf: CacheNode): void {
    this.#unlist(leaf);
    const parent = leaf.parent!;
    parent.children!.delete(leaf.key);
    this.#forgetIfEmpty(parent);
  }

  #forgetIfEmpty(node: CacheNode): void {
    if (node.parent !== undefined || node.holders > 0 || (node.children?.size ?? 0) > 0) return;
    for (const [salt, root] of this.#roots) if (root === node) this.#roots.delete(salt);
  }

  #take(node: CacheNode): void {
    node.holders++;
    if (node.holders > 1 || node.parent === undefined) return;
    this.#heldTokens += node.tokens.length;
    if (node.listed) this.#unlist(node);
  }

  #common(child: CacheNode, ids: readonly number[], at: number, end: number): number {
    const most = Math.min(child.tokens.length, end - at);
    let same = 0;
    while (same < most && child.tokens[same] === ids[at + same]) same++;
    return this.#floor(same);
  }

  #samePage(child: CacheNode, ids: readonly number[], at: number): boolean {
    for (let i = 0; i < this.pageSize; i++) if (child.tokens[i] !== ids[at + i]) return false;
    return true;
  }

  #key(ids: readonly number[], at: number): number {
    if (this.pageSize === 1) return ids[at]!;
    let hash = 0x811c9dc5;
    for (let i = at; i < at + this.pageSize; i++) hash = Math.imul(hash ^ (ids[i] ?? 0), 0x01000193);
    return hash;
  }

  #floor(tokens: number): number {
    return tokens - tokens % this.pageSize;
  }

  #ceil(tokens: number): number {
    return Math.ceil(tokens / this.pageSize) * this.pageSize;
  }

  #append(node: CacheNode): void {
    node.listed = true;
    node.previous = this.#newest;
    node.next = undefined;
    if (this.#newest === undefined) this.#oldest = node;
    else this.#newest.next = node;
    this.#newest = node;
  }

  #insertAfter(node: CacheNode, before: CacheNode): void {
    node.listed = true;
    node.previous = before;
    node.next = before.next;
    if (before.next === undefined) this.#newest = node;
    else before.next.previous = node;
    before.next = node;
  }

  #unlist(node: CacheNode): void {
    if (node.previous === undefined) this.#oldest = node.next;
    else node.previous.next = node.next;
    if (node.next === undefined) this.#newest = node.previous;
    else node.next.previous = node.previous;
    node.previous = undefined;
    node.next = undefined;
    node.listed = false;
  }
}

function newNode(parent: CacheNode | undefined, key: number, tokens: number[]): CacheNode {
  return {
    parent,
    key,
    tokens,
    children: undefined,
    holders: 0,
    previous: undefined,
    next: undefined,
    listed: false,
  };
}
