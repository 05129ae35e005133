/** A request that an engine works on, as `/abort_request` finds it. */
interface LiveRequest {
  readonly model: string;
  readonly owner: string | undefined;
  /** The ids that one of the client's stands for. */
  readonly rids: readonly string[];
}

/** An id by which SGLang knows a request, and the model whose servers may have it. */
export interface LiveRid {
  readonly model: string;
  readonly rid: string;
}

/** The requests under way, by the ids that their clients know. */
export class LiveRids {
  readonly #byRid = new Map<string, Set<LiveRequest>>();

  /** Notes an attempt; the returned function forgets it, and does nothing when called again. */
  add(
    request: Pick<LiveRequest, "model" | "owner">,
    own: readonly (readonly [rid: string, rids: readonly string[]])[],
  ): () => void {
    const added = own.map(([rid, rids]) => {
      const live: LiveRequest = { ...request, rids };
      const known = this.#byRid.get(rid);
      if (known === undefined) this.#byRid.set(rid, new Set([live]));
      else known.add(live);
      return { rid, live };
    });
    return () => {
      for (const { rid, live } of added) {
        const known = this.#byRid.get(rid);
        known?.delete(live);
        if (known?.size === 0) this.#byRid.delete(rid);
      }
    };
  }

  /** The ids of the requests that a client knows by exactly this one, of the owners that are asked for. */
  find(rid: string, owned: (owner: string | undefined) => boolean): LiveRid[] {
    const found = [...this.#byRid.get(rid) ?? []].filter(({ owner }) => owned(owner));
    return found.flatMap(({ model, rids }) => rids.map((one) => ({ model, rid: one })));
  }

  get size(): number {
    return this.#byRid.size;
  }
}
