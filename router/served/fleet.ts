import type { Clock } from "../../base/clock.ts";
import { CanopyError, messageOf } from "../../base/errors.ts";
import { type Logger, logger } from "../../base/log.ts";
import type { Transport } from "../../base/transport.ts";
import type { FleetConfig, ModelConfig } from "../../cfgs/schema/config.ts";
import { identifyServer, type ServerIdentity } from "../engines/identify.ts";
import { type WorkerAccess, workerAddress, workerHeaders } from "../worker/worker_access.ts";
import type { Models } from "./models.ts";
import type { ServedModel } from "./served_model.ts";

/** Time between two questions to a server that has not named its model. */
const ASK_AGAIN_MS = 1_000;
/** The same for one that has refused our key, or cannot be used: somebody has to change something first. */
const ASK_REFUSED_MS = 10_000;
/** Model of servers that will not say which one they have. */
const UNNAMED = "default";

/** A server that has not joined a model yet. */
export interface PendingWorker {
  readonly access: WorkerAccess;
  /** The model that it is for, by the word of whoever named it. */
  readonly model: string | undefined;
  /** The reason, once it was asked. */
  readonly problem: string | undefined;
  /** True when it refused our key. */
  readonly refused: boolean;
}

/** A server as part of a model. */
export interface JoinedWorker {
  readonly model: ServedModel;
  readonly id: string;
}

/** Options of a `Fleet`. */
export interface FleetOptions {
  readonly config: FleetConfig;
  readonly clock: Clock;
  readonly transport: Transport;
  readonly models: Models;
}

interface Pending extends PendingWorker {
  problem: string | undefined;
  refused: boolean;
  readonly life: AbortController;
}

/**
 * Servers that say themselves which model they have: each is asked until it answers, then joins the workers of that
 * model, which begins to be served with its first one.
 */
export class Fleet {
  #config: FleetConfig;
  readonly #options: FleetOptions;
  readonly #log: Logger = logger("fleet");
  readonly #pending = new Map<string, Pending>();
  readonly #keyed = new Set<string>();
  #life: AbortSignal | undefined;

  constructor(options: FleetOptions) {
    this.#config = options.config;
    this.#options = options;
  }

  get config(): FleetConfig {
    return this.#config;
  }

  /**
   * Goes on by other settings, those of the learned models as well. Named servers that differ from those before leave
   * and join; those that came otherwise stay.
   */
  reconfigure(config: FleetConfig): void {
    const before = new Map(this.#config.workers.map(accessOf).map((access) => [access.url, access]));
    const after = new Map(config.workers.map(accessOf).map((access) => [access.url, access]));
    this.#config = config;
    for (const model of this.#options.models.learned) {
      model.reconfigure(configOf(config, model.config.model, model.config.engine));
    }
    const isNew = (access: WorkerAccess) => JSON.stringify(before.get(access.url)) !== JSON.stringify(access);
    for (const url of before.keys()) {
      const access = after.get(url);
      if (access === undefined || isNew(access)) this.#leave(url);
    }
    for (const access of after.values()) {
      // One that belonged to a model which is not served any more is asked anew.
      if (!isNew(access) && (this.#pending.has(access.url) || this.#options.models.has(access.url))) continue;
      this.add(access).catch((error) => this.#log.warning("{error}", { error: messageOf(error) }));
    }
  }

  #leave(url: string): void {
    if (this.remove(url)) return;
    for (const { pool, membership } of this.#options.models.all.values()) {
      for (const worker of pool.workers()) if (worker.url === url) membership.removeWorker(worker.id);
    }
  }

  /** The servers that have not joined a model yet. */
  get pending(): readonly PendingWorker[] {
    return [...this.#pending.values()];
  }

  /** URLs of servers that want a key and were sent none: they get those of clients. */
  get keyed(): readonly string[] {
    return [...this.#keyed];
  }

  /** Asks the configured servers until the signal aborts; resolves when each was asked once. */
  async start(signal: AbortSignal): Promise<void> {
    this.#life = signal;
    await Promise.all(this.config.workers.map((worker) => this.add(accessOf(worker))));
  }

  /**
   * Asks a server for its model, and again until it answers; gives its place if it joins at once. Throws 409
   * `worker_exists` for a URL that is there already.
   */
  async add(access: WorkerAccess, model?: string): Promise<JoinedWorker | undefined> {
    const { url } = access;
    if (this.#pending.has(url) || this.#options.models.has(url)) {
      throw new CanopyError(`Cannot add worker ${url}: it is here already`, {
        code: "worker_exists",
        status: 409,
        param: "url",
      });
    }
    const life = new AbortController();
    const worker: Pending = { access, model, problem: undefined, refused: false, life };
    this.#pending.set(url, worker);
    this.#life?.addEventListener("abort", () => life.abort(), { once: true, signal: life.signal });
    const joined = await this.#ask(worker);
    if (joined === undefined) void this.#follow(worker);
    return joined;
  }

  /** Forgets a server that has not joined yet; false when there is none of that URL. */
  remove(url: string): boolean {
    const worker = this.#pending.get(url);
    worker?.life.abort();
    return this.#pending.delete(url);
  }

  async #follow(worker: Pending): Promise<void> {
    const { signal } = worker.life;
    try {
      while (!signal.aborted) {
        await this.#options.clock.sleep(worker.refused ? ASK_REFUSED_MS : ASK_AGAIN_MS, signal);
        if (await this.#ask(worker) !== undefined) return;
      }
    } catch (error) {
      if (!signal.aborted) throw error;
    }
  }

  /** Never rejects while the server is wanted. */
  async #ask(worker: Pending): Promise<JoinedWorker | undefined> {
    const { access, life: { signal } } = worker;
    const { clock, transport } = this.#options;
    const config = this.#config;
    try {
      const headers = workerHeaders(configOf(config, UNNAMED, "openai"), access);
      const server = {
        transport,
        clock,
        url: access.url,
        headers,
        timeoutMs: config.model.health.timeout_ms,
      };
      const identity = await identifyServer(server, signal);
      signal.throwIfAborted();
      worker.refused = identity.refusal !== undefined;
      if (worker.refused && headers.authorization !== undefined) {
        throw new CanopyError(
          `${access.url} refused our key (status ${identity.refusal}): give the router the key of its workers`,
          { code: "worker_unauthorized", status: 502 },
        );
      }
      const joined = this.#join(worker, identity);
      // Nobody asks it any more.
      worker.life.abort();
      return joined;
    } catch (error) {
      if (signal.aborted) return undefined;
      const problem = messageOf(error);
      if (problem !== worker.problem) {
        this.#log[worker.refused ? "error" : "warning"]("{problem}", { problem });
      }
      worker.problem = problem;
      return undefined;
    }
  }

  #join({ access, model: wanted }: Pending, { model, engine, refusal }: ServerIdentity): JoinedWorker {
    const { models } = this.#options;
    const config = this.#config;
    const family = config.engine === "auto" ? engine : config.engine;
    const name = wanted ?? model ?? UNNAMED;
    const kind = engineFor(access, family);
    const known = models.all.get(name);
    if (known !== undefined && known.config.engine !== kind) {
      throw new CanopyError(
        `${access.url} speaks ${kind}, and the other workers of model ${name} ${known.config.engine}: start them alike`,
        { code: "unsupported_worker", status: 400 },
      );
    }
    const served = known ?? models.add(name, configOf(config, name, kind));
    const id = served.membership.addWorker(access);
    this.#pending.delete(access.url);
    this.#log.info("{url} serves model {name} as {id}", { url: access.url, name, id });
    if (refusal !== undefined) {
      this.#keyed.add(access.url);
      this.#log.warning(
        "{url} answered {status} to GET /v1/models: it wants a key, and gets those of clients. The router has none for it",
        { url: access.url, status: refusal },
      );
    }
    return { model: served, id };
  }
}

function engineFor({ url, role }: WorkerAccess, family: ServerIdentity["engine"]): ModelConfig["engine"] {
  if (role === undefined) return family;
  if (family !== "openai") return `${family}-pd`;
  throw new CanopyError(
    `${url} cannot be a ${role} server: it is neither SGLang nor vLLM`,
    { code: "unsupported_worker", status: 400 },
  );
}

function configOf(config: FleetConfig, model: string, engine: ModelConfig["engine"]): ModelConfig {
  return { ...config.model, model, engine, workers: [], tokenizer: false };
}

function accessOf(worker: FleetConfig["workers"][number]): WorkerAccess {
  if (typeof worker === "string") return workerAddress(worker);
  return {
    ...workerAddress(worker.url),
    apiKey: worker.api_key,
    role: worker.role,
    bootstrapPort: worker.bootstrap_port,
    bootstrapHost: worker.bootstrap_host,
  };
}
