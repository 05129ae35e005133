import type { Clock } from "../../base/clock.ts";
import { CanopyError } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import type { Random } from "../../base/random.ts";
import type { Transport } from "../../base/transport.ts";
import type { ModelConfig, WorkerConfig } from "../../cfgs/schema/config.ts";
import { Gate } from "./gate.ts";
import type { ModelCheck } from "./health.ts";
import { PairPlacer } from "./pair_placer.ts";
import type { Placer } from "./placer.ts";
import type { ManagedPool } from "./pool.ts";
import type { PoolShare, WorkerReport } from "./pool_share.ts";
import { workerExists, WorkerRegistry } from "./registry.ts";
import type { WorkerStatus } from "./worker.ts";
import { WorkerPlacer } from "./worker_placer.ts";
import { plainUrl, type WorkerAccess, workerAddress } from "../worker/worker_access.ts";

/** Options of `createPool`. */
export interface PoolOptions {
  /** The model's public name. */
  readonly model: string;
  readonly config: ModelConfig;
  readonly clock: Clock;
  readonly random: Random;
  readonly transport: Transport;
  readonly log: Logger;
  /** A worker that it finds wrong is out of service until it is right. */
  readonly findWrongModel?: ModelCheck | undefined;
  /** Absent where one thread does it all. */
  readonly share?: PoolShare | undefined;
}

/**
 * Makes the pool of a model's workers. Of pairs, any prefill server works with any decode server; a URL that stands
 * in several pairs is one server. Throws 500 `unsupported_worker` for pairs of an engine that has none, or the
 * reverse, and for a prefill server with two bootstrap ports.
 */
export function createPool(options: PoolOptions): ManagedPool {
  const pool = new ModelPool(options);
  // Elsewhere than where it leads, the workers are those that it is told.
  if (options.share?.leads === false) return pool;
  for (const access of configuredAccesses(options)) pool.addWorker(access);
  return pool;
}

/** The workers of a configuration. Throws as `createPool` does. */
export function configuredAccesses(options: Pick<PoolOptions, "model" | "config">): WorkerAccess[] {
  const { config, model } = options;
  const seen = new Map<string, WorkerAccess>();
  const all: WorkerAccess[] = [];
  for (const access of config.workers.flatMap((worker) => accessesOf(options, worker))) {
    const known = seen.get(access.url);
    if (known !== undefined && access.role === undefined) throw workerExists(model, access.url);
    if (known === undefined) all.push(access);
    else if (JSON.stringify(known) !== JSON.stringify(access)) {
      throw unsupported(
        model,
        `Cannot use ${access.url} for model ${model}: two of its pairs describe this server differently; ` +
          "give it the same role and the same bootstrap port everywhere",
      );
    }
    seen.set(access.url, access);
  }
  return all;
}

function accessesOf(
  { model, config }: Pick<PoolOptions, "model" | "config">,
  worker: WorkerConfig,
): WorkerAccess[] {
  const isPair = typeof worker === "object" && "prefill" in worker;
  if (isPair !== servesInPairs(config)) {
    const what = isPair
      ? `the pair ${plainUrl(worker.prefill)} and ${plainUrl(worker.decode)}`
      : `the single server ${plainUrl(typeof worker === "string" ? worker : worker.url)}`;
    throw unsupported(
      model,
      `Cannot use ${what} for model ${model}: engine ${config.engine} needs ` +
        (isPair ? "single servers" : "pairs of a prefill and a decode server"),
    );
  }
  if (typeof worker === "string") return [workerAddress(worker)];
  if ("url" in worker) {
    return [{ ...workerAddress(worker.url), apiKey: worker.api_key }];
  }
  const { prefill, decode, bootstrap_host, bootstrap_port } = worker;
  return [
    {
      ...workerAddress(prefill),
      role: "prefill",
      bootstrapHost: bootstrap_host,
      bootstrapPort: bootstrap_port,
    },
    { ...workerAddress(decode), role: "decode" },
  ];
}

/** Those that the others do not have just so. */
function differences(all: readonly WorkerAccess[], others: readonly WorkerAccess[]): WorkerAccess[] {
  const known = new Set(others.map((access) => JSON.stringify(access)));
  return all.filter((access) => !known.has(JSON.stringify(access)));
}

function servesInPairs({ engine }: ModelConfig): boolean {
  return engine.endsWith("-pd");
}

function unsupported(model: string, message: string): CanopyError {
  return new CanopyError(message, {
    code: "unsupported_worker",
    status: 500,
    param: `models.${model}.workers`,
  });
}

/** The workers of one model behind their gate. */
class ModelPool implements ManagedPool {
  readonly model: string;
  readonly gate: Gate;
  readonly #registry: WorkerRegistry;
  readonly #placer: Placer;
  readonly #share: PoolShare | undefined;
  #config: ModelConfig;

  constructor(options: PoolOptions) {
    const { model, config, clock, random } = options;
    this.model = model;
    this.#config = config;
    this.#share = options.share;
    const registry = new WorkerRegistry({ ...options, onChange: () => this.gate.wake() });
    const placerOptions = { model, config, clock, random, registry, share: options.share };
    const placer = servesInPairs(config) ? new PairPlacer(placerOptions) : new WorkerPlacer(placerOptions);
    this.gate = new Gate({
      model,
      clock,
      place: (hint) => placer.place(hint),
      opensAtMs: () => registry.opensAtMs,
      queue: options.share?.queue,
    });
    this.#registry = registry;
    this.#placer = placer;
  }

  get ready(): boolean {
    return this.#placer.ready;
  }

  workers(): readonly WorkerStatus[] {
    return this.#registry.workers.map((worker) => worker.status);
  }

  headers(workerId: string): Readonly<Record<string, string>> {
    return this.#registry.headersOf(workerId);
  }

  start(signal: AbortSignal): void {
    this.#registry.start(signal);
  }

  addWorker(access: WorkerAccess, checkedFirst = false): string {
    this.#placer.checkRole(access);
    return this.#registry.add(access, checkedFirst);
  }

  accesses(): readonly WorkerAccess[] {
    const servers = new Map(
      this.#registry.workers.map(({ url, access: { rank: _, ...access } }) => [url, access]),
    );
    return [...servers.values()];
  }

  spread(url: string, size: number): readonly string[] {
    return this.#registry.spread(url, size);
  }

  reconfigure(config: ModelConfig): void {
    const { model } = this;
    const before = configuredAccesses({ model, config: this.#config });
    const after = configuredAccesses({ model, config });
    this.#config = config;
    this.#placer.reconfigure(config);
    const told = this.#share?.leads === false;
    this.#registry.reconfigure(config, {
      left: told ? [] : differences(before, after),
      come: told ? [] : differences(after, before),
    });
  }

  removeWorker(id: string): boolean {
    return this.#registry.remove(id);
  }

  setDraining(id: string, draining: boolean): boolean {
    return this.#registry.setDraining(id, draining);
  }

  setDown(id: string, reason: string | undefined): boolean {
    return this.#registry.setDown(id, reason);
  }

  follow(members: readonly WorkerReport[]): void {
    this.#registry.follow(members);
  }

  poke(id: string): void {
    this.#registry.find(id)?.poke();
  }
}
