import type { ModelConfig } from "../../cfgs/schema/config.ts";
import { leastInFlight } from "./policies/least_in_flight.ts";
import type { Policy } from "./policies/policy.ts";
import { roundRobin } from "./policies/round_robin.ts";
import { StickyKeys } from "./sticky.ts";
import type { Worker } from "./worker.ts";

const POLICIES: Record<ModelConfig["policy"], Policy> = {
  round_robin: roundRobin,
  least_in_flight: leastInFlight,
};
const STICKY_KEYS = 65_536;

/** Selects among workers that can take each other's place, and remembers what it chose. */
export class Selector {
  readonly #policy: Policy;
  readonly #sticky = new StickyKeys(STICKY_KEYS);
  #lastOrdinal: number;

  /** `lastOrdinal`: where the rotation starts; several routers before the same workers should not start alike. */
  constructor(policy: ModelConfig["policy"], lastOrdinal: number) {
    this.#policy = POLICIES[policy];
    this.#lastOrdinal = lastOrdinal;
  }

  /**
   * One of the candidates, which are the usable workers that have room. An equal key gets an equal worker as long as
   * that one is usable; when it is only full for the moment, it stays the key's home: its prefix cache is there.
   */
  choose(usable: readonly Worker[], candidates: readonly Worker[], stickyKey: string | undefined): Worker {
    const homeId = stickyKey === undefined ? undefined : this.#sticky.get(stickyKey);
    const home = homeId === undefined ? undefined : usable.find((worker) => worker.id === homeId);
    if (home !== undefined && candidates.includes(home)) return home;
    const chosen = this.#policy(candidates, this.#lastOrdinal);
    this.#lastOrdinal = chosen.ordinal;
    if (stickyKey !== undefined && home === undefined) this.#sticky.set(stickyKey, chosen.id);
    return chosen;
  }
}

/**
 * Workers that their breakers admit; all of them where no breaker does: a breaker steers work to other workers, and
 * with nowhere to steer to, refusing every request would only make things worse.
 */
export function admitted(inService: readonly Worker[]): readonly Worker[] {
  const closed = inService.filter((worker) => worker.breaker.admits);
  return closed.length > 0 ? closed : inService;
}
