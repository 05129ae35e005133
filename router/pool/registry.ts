import type { Clock } from "../../base/clock.ts";
import { CanopyError } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import type { Transport } from "../../base/transport.ts";
import type { ModelConfig } from "../../cfgs/schema/config.ts";
import type { ModelCheck } from "./health.ts";
import type { PoolShare, WorkerReport } from "./pool_share.ts";
import { Worker, type WorkerShareOptions } from "./worker.ts";
import type { WorkerAccess } from "../worker/worker_access.ts";

/** Options of a `WorkerRegistry`. */
export interface WorkerRegistryOptions {
  /** The model's public name. */
  readonly model: string;
  readonly config: ModelConfig;
  readonly clock: Clock;
  readonly transport: Transport;
  readonly log: Logger;
  readonly findWrongModel?: ModelCheck | undefined;
  readonly share?: PoolShare | undefined;
  /** Called after a worker has joined, left, or changed its state: there may be more or less room than before. */
  readonly onChange: () => void;
}

/** The refusal of a worker that is there already: 409 `worker_exists`. */
export function workerExists(model: string, url: string): CanopyError {
  return new CanopyError(`Cannot add worker ${url}: model ${model} has it already`, {
    code: "worker_exists",
    status: 409,
    param: "url",
  });
}

/** The servers of one model: who joins, who leaves, and the watch over their health. */
export class WorkerRegistry {
  readonly #options: WorkerRegistryOptions;
  #config: ModelConfig;
  readonly #watches = new Map<string, AbortController>();
  /** In the order of their ordinals. */
  #workers: Worker[] = [];
  /** Workers that have left while requests were placed there. */
  #leaving: Worker[] = [];
  #joined = 0;
  #signal: AbortSignal | undefined;

  constructor(options: WorkerRegistryOptions) {
    this.#options = options;
    this.#config = options.config;
  }

  /**
   * Goes on by other settings. What is at one of the URLs of `left` and `come` leaves, and `come` joins; nobody sees
   * what is between. The others stay.
   */
  reconfigure(
    config: ModelConfig,
    { left, come }: { readonly left: readonly WorkerAccess[]; readonly come: readonly WorkerAccess[] },
  ): void {
    this.#config = config;
    const urls = new Set([...left, ...come].map(({ url }) => url));
    for (const { id, url } of this.#workers) if (urls.has(url)) this.#take(id);
    for (const worker of this.#workers) {
      worker.reconfigure(config);
      if (!this.#watches.has(worker.id)) this.#watch(worker);
    }
    for (const access of come) this.#put(access, true);
    this.#changed();
  }

  /** The workers as other threads are told of them. */
  get members(): readonly WorkerReport[] {
    return this.#workers.map((worker) => worker.member);
  }

  get workers(): readonly Worker[] {
    return this.#workers;
  }

  /** Earliest time, in clock ms, at which the open breaker of a worker in service will let a probe through. */
  get opensAtMs(): number | undefined {
    const times = this.#workers.flatMap(({ inService, breaker }) => inService ? breaker.opensAtMs ?? [] : []);
    return times.length === 0 ? undefined : Math.min(...times);
  }

  /** Checks the workers' health until the signal aborts. Call it once. */
  start(signal: AbortSignal): void {
    this.#signal = signal;
    for (const worker of this.#workers) this.#watch(worker);
  }

  /**
   * Adds a worker and returns its id; with `checkedFirst` the others are preferred until its first check. Throws 409
   * `worker_exists` for a URL that is there already.
   */
  add(access: WorkerAccess, checkedFirst = false): string {
    if (this.#workers.some((worker) => worker.url === access.url)) {
      throw workerExists(this.#options.model, access.url);
    }
    const { id } = this.#put(access, checkedFirst);
    this.#changed();
    return id;
  }

  /** Takes over who is there and how they are, from the thread that checks them. */
  follow(members: readonly WorkerReport[]): void {
    const here = new Map(this.#workers.map((worker) => [worker.ordinal, worker]));
    for (const member of members) {
      const { access, ordinal, slot, checkedFirst } = member;
      (here.get(ordinal) ?? this.#join(access, { ordinal, slot, checkedFirst })).follow(member);
      here.delete(ordinal);
    }
    for (const { id } of here.values()) this.#take(id);
    this.#options.onChange();
  }

  #put(access: WorkerAccess, checkedFirst: boolean): Worker {
    const slot = this.#options.share?.takeSlot();
    return this.#join(access, { ordinal: this.#joined++, slot, checkedFirst });
  }

  #join(
    access: WorkerAccess,
    { ordinal, slot, checkedFirst }: { ordinal: number; slot: number | undefined; checkedFirst: boolean },
  ): Worker {
    const { model, clock, transport, findWrongModel } = this.#options;
    const letter = access.role === "prefill" ? "p" : access.role === "decode" ? "d" : "w";
    const id = `${model}.${letter}${ordinal + 1}`;
    const worker = new Worker({
      id,
      ordinal,
      access,
      config: this.#config,
      checkedFirst,
      clock,
      transport,
      findWrongModel,
      shared: this.#sharedOf(id, slot),
      onChange: (changed) => {
        this.#logChange(changed);
        this.#changed();
      },
    });
    this.#workers.push(worker);
    this.#watch(worker);
    return worker;
  }

  #sharedOf(id: string, slot: number | undefined): WorkerShareOptions | undefined {
    const { share } = this.#options;
    if (share === undefined || slot === undefined) return undefined;
    return { slot, cells: share.worker(slot), poke: share.leads ? undefined : () => share.poke(id) };
  }

  #changed(): void {
    const { share, onChange } = this.#options;
    if (share?.leads === true) share.changed(this.members);
    onChange();
  }

  /** Forgets a worker; requests in flight there end undisturbed. False when there is none of that id. */
  remove(id: string): boolean {
    const found = this.#take(id);
    if (found) this.#changed();
    return found;
  }

  #take(id: string): boolean {
    const worker = this.find(id);
    if (worker === undefined) return false;
    this.#workers = this.#workers.filter((other) => other !== worker);
    this.#leaving = [...this.#leaving, worker].filter(({ status }) => status.inFlight > 0);
    this.#watches.get(id)?.abort();
    if (this.#options.share?.leads === true) this.#options.share.leaveSlot(worker.slot);
    return true;
  }

  /** Starts or ends draining: a draining worker gets no new work. False when there is none of that id. */
  setDraining(id: string, draining: boolean): boolean {
    const worker = this.find(id);
    if (worker === undefined) return false;
    worker.draining = draining;
    this.#changed();
    return true;
  }

  /**
   * Says that a worker's process has ended, and why, or (without a reason) that a new one serves in its place.
   * False when there is none of that id.
   */
  setDown(id: string, reason: string | undefined): boolean {
    const worker = this.find(id);
    worker?.setDown(reason);
    return worker !== undefined;
  }

  find(id: string): Worker | undefined {
    return this.#workers.find((worker) => worker.id === id);
  }

  /** The headers of a worker, also of one that has left: what is placed there is still opened there. */
  headersOf(id: string): Readonly<Record<string, string>> {
    return (this.find(id) ?? this.#leaving.find((worker) => worker.id === id))?.headers ?? {};
  }

  #watch(worker: Worker): void {
    const signal = this.#signal;
    if (signal === undefined || signal.aborted || this.#options.share?.leads === false) return;
    const controller = new AbortController();
    const onAbort = () => controller.abort();
    signal.addEventListener("abort", onAbort, { once: true });
    this.#watches.set(worker.id, controller);
    worker.watch(controller.signal).finally(() => {
      signal.removeEventListener("abort", onAbort);
      this.#watches.delete(worker.id);
    });
  }

  #logChange(worker: Worker): void {
    const { id, url, health, lastError } = worker.status;
    const fields = { model: this.#options.model, worker: id, url, health, error: lastError };
    if (this.#options.share?.leads === false) return;
    if (health === "unhealthy") {
      this.#options.log.warning("Worker {worker} of model {model} is out of service: {error}", fields);
    } else if (health !== "unknown") {
      this.#options.log.info("Worker {worker} of model {model} is {health}", fields);
    }
  }
}
