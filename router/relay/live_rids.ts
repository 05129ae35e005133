import { Bag } from "../../base/bag.ts";

/** The ids that one of a client's stands for. */
type KnownRid = readonly [rid: string, rids: readonly string[]];

/** A request that an engine works on, as `/abort_request` finds it. */
interface LiveRequest {
  readonly model: string;
  readonly owner: string | undefined;
  readonly own: readonly KnownRid[];
}

/** An id by which SGLang knows a request, and the model whose servers may have it. */
export interface LiveRid {
  readonly model: string;
  readonly rid: string;
}

/** The requests under way, by the ids that their clients know. Aborts by id are rare: all are looked through for one. */
export class LiveRids {
  readonly #live = new Bag<LiveRequest>();

  /** Notes an attempt; the returned function forgets it, and does nothing when called again. */
  add(request: Pick<LiveRequest, "model" | "owner">, own: readonly KnownRid[]): () => void {
    const { model, owner } = request;
    const stay = this.#live.add({ model, owner, own });
    return () => void this.#live.remove(stay);
  }

  /** The ids of the requests that a client knows by exactly this one, of the owners that are asked for. */
  find(rid: string, owned: (owner: string | undefined) => boolean): LiveRid[] {
    return this.#live.members(({ owner }) => owned(owner)).flatMap(({ model, own }) =>
      own.filter(([known]) => known === rid).flatMap(([, rids]) => rids.map((one) => ({ model, rid: one })))
    );
  }

  get size(): number {
    return this.#live.size;
  }
}
