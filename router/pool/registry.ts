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

/** What a worker joins with, beside its address. */
interface Joining {
  readonly ordinal: number;
  readonly slot: number | undefined;
  readonly checkedFirst: boolean;
  /** Id of its server; absent: a new one. */
  readonly server?: string | undefined;
}

/** The servers of one model: who joins, who leaves, and the watch over their health. */
export class WorkerRegistry {
  readonly #options: WorkerRegistryOptions;
  #config: ModelConfig;
  readonly #watches = new Map<string, AbortController>();
  /** In the order of their ordinals. */
  #workers: Worker[] = [];
  /** Those of each role; made anew when somebody joins or leaves. */
  readonly #byRole = new Map<WorkerAccess["role"], readonly Worker[]>();
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
    this.#take(({ url }) => urls.has(url));
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

  /** The workers of a role: they are looked at for each request. */
  ofRole(role: WorkerAccess["role"]): readonly Worker[] {
    let workers = this.#byRole.get(role);
    if (workers === undefined) {
      workers = this.#workers.filter(({ access }) => access.role === role);
      this.#byRole.set(role, workers);
    }
    return workers;
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
      (here.get(member.ordinal) ?? this.#join(member.access, member)).follow(member);
      here.delete(member.ordinal);
    }
    this.#take((worker) => here.has(worker.ordinal));
    this.#options.onChange();
  }

  /**
   * Makes each of the `size` data-parallel ranks of the server at a URL a worker of its own; of one rank the server
   * itself is. Gives the ids; none when there is no such server. Only the thread that checks the workers does it.
   */
  spread(url: string, size: number): readonly string[] {
    const before = this.#workers.filter((worker) => worker.url === url);
    const [first] = before;
    if (first === undefined) return [];
    const follows = this.#options.share?.leads === false;
    if (follows || (first.access.rank?.of ?? 1) === size) return before.map(({ id }) => id);
    const { access: { rank: _, ...access }, server, draining } = first;
    this.#take((worker) => worker.url === url);
    const made = Array.from(
      { length: size },
      (_, index) =>
        this.#put({ ...access, rank: size === 1 ? undefined : { index, of: size } }, false, server),
    );
    for (const worker of made) worker.draining = draining;
    this.#changed();
    return made.map(({ id }) => id);
  }

  /** `server`: id of one that is known already. */
  #put(access: WorkerAccess, checkedFirst: boolean, server?: string): Worker {
    const slot = this.#options.share?.takeSlot();
    return this.#join(access, { ordinal: this.#joined++, slot, checkedFirst, server });
  }

  #join(access: WorkerAccess, { ordinal, slot, checkedFirst, server: known }: Joining): Worker {
    const { model, clock, transport, findWrongModel } = this.#options;
    const letter = access.role === "prefill" ? "p" : access.role === "decode" ? "d" : "w";
    const server = known ?? `${model}.${letter}${ordinal + 1}`;
    const id = access.rank === undefined ? server : `${server}@${access.rank.index}`;
    const worker = new Worker({
      id,
      server,
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
    this.#byRole.clear();
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

  /**
   * Forgets a worker, with all ranks of its server; requests in flight there end undisturbed. False when there is none
   * of that id.
   */
  remove(id: string): boolean {
    const server = this.#matching(id)[0]?.server;
    if (server === undefined) return false;
    this.#take((worker) => worker.server === server);
    this.#changed();
    return true;
  }

  #take(isTaken: (worker: Worker) => boolean): void {
    const { share } = this.#options;
    const taken = this.#workers.filter(isTaken);
    this.#workers = this.#workers.filter((worker) => !taken.includes(worker));
    this.#byRole.clear();
    this.#leaving = [...this.#leaving, ...taken].filter(({ inFlight }) => inFlight > 0);
    for (const { id, slot } of taken) {
      this.#watches.get(id)?.abort();
      if (share?.leads === true) share.leaveSlot(slot);
    }
  }

  /** Starts or ends draining: a draining worker gets no new work. False when there is none of that id. */
  setDraining(id: string, draining: boolean): boolean {
    const workers = this.#matching(id);
    if (workers.length === 0) return false;
    for (const worker of workers) worker.draining = draining;
    this.#changed();
    return true;
  }

  /**
   * Says that a worker's process has ended, and why, or (without a reason) that a new one serves in its place.
   * False when there is none of that id.
   */
  setDown(id: string, reason: string | undefined): boolean {
    const workers = this.#matching(id);
    for (const worker of workers) worker.setDown(reason);
    return workers.length > 0;
  }

  find(id: string): Worker | undefined {
    return this.#workers.find((worker) => worker.id === id);
  }

  /** The worker of that id; by the id of a server, all its ranks. */
  #matching(id: string): readonly Worker[] {
    return this.#workers.filter((worker) => worker.id === id || worker.server === id);
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
      if (this.#watches.get(worker.id) === controller) this.#watches.delete(worker.id);
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
