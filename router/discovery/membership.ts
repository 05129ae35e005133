import { CanopyError, messageOf } from "../../base/errors.ts";
import { type Logger, logger } from "../../base/log.ts";
import type { ServedModel } from "../served/served_model.ts";
import type { WorkerAccess } from "../worker/worker_access.ts";

/** A server that was found, and what it is for. */
export interface Member {
  /** Key of `models`; undefined where the server says which model it has. */
  readonly model: string | undefined;
  readonly worker: WorkerAccess;
  /** It is about to end: it finishes what it has and gets nothing new. */
  readonly leaving: boolean;
}

interface Joined {
  readonly member: Member;
  readonly id: string;
}

/** Keeps the workers that were found in the pools; workers of the configuration are left alone. */
export class DiscoveredWorkers {
  readonly #models: ReadonlyMap<string, ServedModel>;
  readonly #log: Logger = logger("discovery");
  readonly #joined = new Map<string, Joined>();
  /** Members that were refused, so that it is said once only. */
  readonly #refused = new Set<string>();

  constructor(models: ReadonlyMap<string, ServedModel>) {
    this.#models = models;
  }

  /** Makes these the members: new ones join, others leave. */
  set(members: readonly Member[]): void {
    const wanted = new Map(members.map((member) => [keyOf(member), member]));
    for (const [key, { member, id }] of this.#joined) {
      const next = wanted.get(key);
      if (next !== undefined && JSON.stringify(next.worker) === JSON.stringify(member.worker)) continue;
      this.#joined.delete(key);
      this.#modelOf(member)?.membership.removeWorker(id);
      this.#log.info("{url} of model {model} has left", { url: member.worker.url, model: member.model });
    }
    for (const key of this.#refused) if (!wanted.has(key)) this.#refused.delete(key);
    for (const [key, member] of wanted) {
      const joined = this.#joined.get(key) ?? this.#join(key, member);
      if (joined !== undefined && joined.member.leaving !== member.leaving) {
        this.#setLeaving(key, joined, member);
      }
    }
  }

  #join(key: string, member: Member): Joined | undefined {
    // One that leaves already would only be let go of again.
    if (member.leaving || this.#refused.has(key)) return undefined;
    const { url } = member.worker;
    try {
      const model = this.#modelOf(member);
      if (model === undefined) {
        const names = [...this.#models.keys()].join(", ");
        throw new CanopyError(`there is no model ${member.model} (${names})`, {
          code: "model_not_found",
          status: 404,
        });
      }
      const id = model.membership.addWorker(member.worker);
      const joined = { member, id };
      this.#joined.set(key, joined);
      this.#log.info("{url} serves model {model} as {id}", { url, model: member.model, id });
      return joined;
    } catch (error) {
      this.#refused.add(key);
      this.#log.warning("{url} was found and is not used: {error}", { url, error: messageOf(error) });
      return undefined;
    }
  }

  #setLeaving(key: string, { id }: Joined, member: Member): void {
    this.#modelOf(member)?.membership.setDraining(id, member.leaving);
    this.#joined.set(key, { member, id });
  }

  #modelOf({ model = "" }: Member): ServedModel | undefined {
    return this.#models.get(model);
  }
}

function keyOf({ model, worker }: Member): string {
  return `${model} ${worker.role ?? ""} ${worker.url}`;
}
