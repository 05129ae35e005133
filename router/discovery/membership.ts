import { CanopyError, messageOf } from "../../base/errors.ts";
import { type Logger, logger } from "../../base/log.ts";
import { serverIdOf } from "../pool/worker.ts";
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
  readonly model: ServedModel;
  readonly id: string;
}

/** Keeps the workers that were found in the pools; workers of the configuration are left alone. */
export class DiscoveredWorkers {
  readonly #models: ReadonlyMap<string, ServedModel>;
  readonly #log: Logger = logger("discovery");
  readonly #joined = new Map<string, Joined>();
  /** Members that were refused, so that it is said once only, and the models that were served then. */
  readonly #refused = new Map<string, string>();

  constructor(models: ReadonlyMap<string, ServedModel>) {
    this.#models = models;
  }

  /** Makes these the members: new ones join, others leave. */
  set(members: readonly Member[]): void {
    const wanted = new Map(members.map((member) => [keyOf(member), member]));
    this.#followModels();
    for (const [key, { member, model, id }] of this.#joined) {
      const next = wanted.get(key);
      if (next !== undefined && JSON.stringify(next.worker) === JSON.stringify(member.worker)) continue;
      this.#joined.delete(key);
      model.membership.removeWorker(id);
      this.#log.info("{url} of model {model} has left", { url: member.worker.url, model: member.model });
    }
    for (const key of this.#refused.keys()) if (!wanted.has(key)) this.#refused.delete(key);
    for (const [key, member] of wanted) {
      const joined = this.#joined.get(key) ?? this.#join(key, member);
      if (joined !== undefined && joined.member.leaving !== member.leaving) {
        this.#setLeaving(key, joined, member);
      }
    }
  }

  /** Models may have come, gone and been replaced since; one that was replaced has handed on its workers. */
  #followModels(): void {
    for (const [key, { member, model }] of this.#joined) {
      const now = this.#modelOf(member);
      if (now === model) continue;
      const worker = now?.pool.workers().find(({ url }) => url === member.worker.url);
      if (now === undefined || worker === undefined) this.#joined.delete(key);
      else this.#joined.set(key, { member, model: now, id: serverIdOf(worker) });
    }
  }

  #join(key: string, member: Member): Joined | undefined {
    // One that leaves already would only be let go of again.
    const names = [...this.#models.keys()].join(", ");
    if (member.leaving || this.#refused.get(key) === names) return undefined;
    const { url } = member.worker;
    try {
      const model = this.#modelOf(member);
      if (model === undefined) {
        throw new CanopyError(`there is no model ${member.model} (${names})`, {
          code: "model_not_found",
          status: 404,
        });
      }
      const id = model.membership.addWorker(member.worker);
      const joined = { member, model, id };
      this.#joined.set(key, joined);
      this.#log.info("{url} serves model {model} as {id}", { url, model: member.model, id });
      return joined;
    } catch (error) {
      this.#refused.set(key, names);
      this.#log.warning("{url} was found and is not used: {error}", { url, error: messageOf(error) });
      return undefined;
    }
  }

  #setLeaving(key: string, { model, id }: Joined, member: Member): void {
    model.membership.setDraining(id, member.leaving);
    this.#joined.set(key, { member, model, id });
  }

  #modelOf({ model = "" }: Member): ServedModel | undefined {
    return this.#models.get(model);
  }
}

function keyOf({ model, worker }: Member): string {
  return `${model} ${worker.role ?? ""} ${worker.url}`;
}
