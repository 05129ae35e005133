import { messageOf } from "../../base/errors.ts";
import { type Logger, logger } from "../../base/log.ts";
import type { Fleet } from "../served/fleet.ts";
import type { ServedModel } from "../served/served_model.ts";
import type { Member } from "./membership.ts";

/** Keeps servers that were found in a fleet, where each says itself which model it has. */
export class FleetMembers {
  readonly #fleet: Fleet;
  readonly #models: ReadonlyMap<string, ServedModel>;
  readonly #log: Logger = logger("discovery");
  /** By URL. */
  readonly #members = new Map<string, Member>();

  constructor(fleet: Fleet, models: ReadonlyMap<string, ServedModel>) {
    this.#fleet = fleet;
    this.#models = models;
  }

  /** Makes these the members: new ones join, others leave. */
  set(members: readonly Member[]): void {
    const wanted = new Map(members.map((member) => [member.worker.url, member]));
    for (const [url, { worker }] of this.#members) {
      const next = wanted.get(url);
      if (next !== undefined && JSON.stringify(next.worker) === JSON.stringify(worker)) continue;
      this.#members.delete(url);
      this.#remove(url);
    }
    for (const [url, member] of wanted) {
      const before = this.#members.get(url);
      // One that leaves already would only be let go of again.
      if (before === undefined && member.leaving) continue;
      this.#members.set(url, member);
      if (before === undefined) {
        this.#fleet.add(member.worker).catch((error) => {
          // It is here by another way, and not ours to remove.
          this.#members.delete(url);
          this.#log.warning("{url} was found and is not used: {error}", { url, error: messageOf(error) });
        });
      } else if (before.leaving !== member.leaving) this.#setLeaving(url, member.leaving);
    }
  }

  #remove(url: string): void {
    if (this.#fleet.remove(url)) return;
    for (const { name, membership, id } of this.#joined(url)) {
      membership.removeWorker(id);
      this.#log.info("{url} of model {model} has left", { url, model: name });
    }
  }

  #setLeaving(url: string, leaving: boolean): void {
    for (const { membership, id } of this.#joined(url)) membership.setDraining(id, leaving);
  }

  #joined(url: string) {
    return [...this.#models.values()].flatMap(({ name, membership, pool }) =>
      pool.workers().filter((worker) => worker.url === url).map(({ id }) => ({ name, membership, id }))
    );
  }
}
