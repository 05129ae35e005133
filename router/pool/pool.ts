import type { Clock } from "../../base/clock.ts";
import { CanopyError } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import type { Random } from "../../base/random.ts";
import type { Transport } from "../../base/transport.ts";
import type { ModelConfig, WorkerConfig } from "../../cfgs/schema/config.ts";
import { PairPool } from "./pair_pool.ts";
import type { ManagedPool, WorkerStatus } from "./pool_types.ts";
import { fullError, unusableError } from "./refusals.ts";
import { WorkerRegistry } from "./registry.ts";
import { admitted, Selector } from "./selector.ts";
import type { Placement, PlacementHint } from "../worker/placement.ts";
import type { WorkerAccess } from "../worker/worker_access.ts";

/** What `createPool` needs. */
export interface PoolOptions {
  /** The model's public name. */
  readonly model: string;
  readonly config: ModelConfig;
  readonly clock: Clock;
  readonly random: Random;
  readonly transport: Transport;
  readonly log: Logger;
}

/**
 * Makes the pool of a model's workers. Of pairs, any prefill server works with any decode server; a URL that stands
 * in several pairs is one server. Throws 500 `unsupported_worker` for pairs of an engine that has none, or the
 * reverse, and for a prefill server with two bootstrap ports.
 */
export function createPool(options: PoolOptions): ManagedPool {
  const { config, model } = options;
  const pool = config.engine.endsWith("-pd") ? new PairPool(options) : new WorkerPool(options);
  const seen = new Map<string, WorkerAccess>();
  for (const access of config.workers.flatMap((worker) => accessesOf(options, worker))) {
    const known = seen.get(access.url);
    if (known === undefined || access.role === undefined) pool.addWorker(access);
    else if (JSON.stringify(known) !== JSON.stringify(access)) {
      throw unsupported(
        model,
        `Cannot use ${access.url} for model ${model}: two of its pairs describe this server differently; ` +
          "give it the same role and the same bootstrap port everywhere",
      );
    }
    seen.set(access.url, access);
  }
  return pool;
}

function accessesOf({ model, config }: PoolOptions, worker: WorkerConfig): WorkerAccess[] {
  const isPair = typeof worker === "object" && "prefill" in worker;
  if (isPair !== config.engine.endsWith("-pd")) {
    const what = isPair
      ? `the pair ${worker.prefill} and ${worker.decode}`
      : `the single server ${typeof worker === "string" ? worker : worker.url}`;
    throw unsupported(
      model,
      `Cannot use ${what} for model ${model}: engine ${config.engine} needs ` +
        (isPair ? "single servers" : "pairs of a prefill and a decode server"),
    );
  }
  if (typeof worker === "string") return [{ url: worker }];
  if ("url" in worker) {
    return [{ url: worker.url, ...(worker.api_key === undefined ? {} : { apiKey: worker.api_key }) }];
  }
  const { prefill, decode, bootstrap_host, bootstrap_port } = worker;
  return [
    {
      url: prefill,
      role: "prefill",
      ...(bootstrap_host === undefined ? {} : { bootstrapHost: bootstrap_host }),
      ...(bootstrap_port === undefined ? {} : { bootstrapPort: bootstrap_port }),
    },
    { url: decode, role: "decode" },
  ];
}

function unsupported(model: string, message: string): CanopyError {
  return new CanopyError(message, {
    code: "unsupported_worker",
    status: 500,
    param: `models.${model}.workers`,
  });
}

/** Whole servers: each request goes to one of them. */
class WorkerPool implements ManagedPool {
  readonly model: string;
  readonly #options: PoolOptions;
  readonly #roster: WorkerRegistry;
  readonly #chooser: Selector;

  constructor(options: PoolOptions) {
    const { config, random } = options;
    this.model = options.model;
    this.#options = options;
    this.#roster = new WorkerRegistry(options);
    this.#chooser = new Selector(config.policy, random.int(Math.max(1, config.workers.length)) - 1);
  }

  get ready(): boolean {
    return this.#roster.workers.some((worker) => worker.inService);
  }

  workers(): readonly WorkerStatus[] {
    return this.#roster.workers.map((worker) => worker.status);
  }

  headers(workerId: string): Readonly<Record<string, string>> {
    return this.#roster.find(workerId)?.headers ?? {};
  }

  place(hint: PlacementHint): Placement {
    const { workers } = this.#roster;
    const usable = admitted(workers.filter((worker) => worker.inService && !hint.exclude?.has(worker.id)));
    const limit = this.#options.config.max_in_flight;
    const candidates = usable.filter((worker) => worker.inFlight < limit);
    if (candidates.length === 0) {
      if (usable.length > 0) {
        throw fullError(this.model, `every usable worker has ${limit} requests in flight`);
      }
      throw unusableError(this.model, "worker", workers, (hint.exclude?.size ?? 0) > 0);
    }
    const worker = this.#chooser.choose(usable, candidates, hint.stickyKey);
    const hold = worker.take();
    return { workerId: worker.id, url: worker.url, release: (outcome) => hold.release(outcome) };
  }

  start(signal: AbortSignal): void {
    this.#roster.start(signal);
  }

  addWorker(access: WorkerAccess): string {
    if (access.role !== undefined) {
      throw new CanopyError(
        `Cannot add ${access.url} as ${access.role} server: model ${this.model} has whole servers`,
        { code: "unsupported_worker", status: 400, param: "worker_type" },
      );
    }
    return this.#roster.add(access);
  }

  removeWorker(id: string): boolean {
    return this.#roster.remove(id);
  }

  setDraining(id: string, draining: boolean): boolean {
    return this.#roster.setDraining(id, draining);
  }

  setDown(id: string, reason: string | undefined): boolean {
    return this.#roster.setDown(id, reason);
  }
}
