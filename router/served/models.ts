import type { Clock } from "../../base/clock.ts";
import { messageOf } from "../../base/errors.ts";
import { logger } from "../../base/log.ts";
import type { Random } from "../../base/random.ts";
import type { Transport } from "../../base/transport.ts";
import type { Config, ModelConfig } from "../../cfgs/schema/config.ts";
import type { ChatMessage } from "../../ml/tokenizers/chat_message.ts";
import type { ModelTokenizer } from "../../ml/tokenizers/model_tokenizer.ts";
import type { EngineCapabilities } from "../engines/engine.ts";
import { findWrongModel as askModel } from "../engines/find_wrong_model.ts";
import { defaultCapabilities, probe } from "../engines/probe.ts";
import { configuredAccesses, createPool } from "../pool/create_pool.ts";
import type { ModelCheck } from "../pool/health.ts";
import { serverIdOf, type WorkerStatus } from "../pool/worker.ts";
import type { ManagedPool } from "../pool/pool.ts";
import type { PoolShare, WorkerReport } from "../pool/pool_share.ts";
import { askTokens } from "./ask_tokens.ts";
import { findTokenizer, noTokenizerText, type TokenizerNames, wantsTokenizer } from "./find_tokenizer.ts";
import { commonCapabilities, LiveEngine } from "./live_engine.ts";
import type { Membership, ServedModel } from "./served_model.ts";
import { configuredUrls, workerHeaders } from "../worker/worker_access.ts";

/** Options of `createModels`. */
export interface ModelsOptions {
  readonly config: Config;
  readonly clock: Clock;
  readonly random: Random;
  readonly transport: Transport;
  /** Loads a tokenizer by its name; absent: no tokenizer is looked for. */
  readonly loadTokenizer?: ((source: string) => Promise<ModelTokenizer>) | undefined;
  /** The part of each model's pool in a router of several threads; absent where one does it all. */
  readonly shareOf?: ((model: string) => PoolShare) | undefined;
}

/** Somebody who is told what was found. */
interface Told {
  info(message: string, fields: Record<string, unknown>): void;
  warning(message: string, fields: Record<string, unknown>): void;
}

const NOBODY: Told = { info() {}, warning() {} };

/** Time until a tokenizer that could not be had is looked for again. */
const TOKENIZER_RETRY_MS = 300_000;

/** One model with the care for its workers: their health, and what they can do. */
export class ModelService implements ServedModel {
  readonly name: string;
  readonly engine: LiveEngine;
  readonly pool: ManagedPool;
  readonly #options: ModelsOptions;
  readonly #share: PoolShare | undefined;
  readonly #log: Told;
  /** What is said of the tokenizer. */
  readonly #tokenizerLog: Told;
  readonly membership: Membership;
  #config: ModelConfig;
  readonly #end = new AbortController();
  #life: AbortSignal | undefined;
  /** By worker id, for workers that were healthy when last looked at. */
  readonly #known = new Map<string, EngineCapabilities>();
  /** Workers that are being asked what they can do. */
  readonly #asking = new Map<string, Promise<void>>();
  #tokenizer: ModelTokenizer | undefined;
  #tokenizerProblem: string | undefined;
  #tokenizerProblemText: string | undefined;
  /** A worker tokenises when it is asked. */
  #workersTell = false;
  /** The search for a tokenizer that is under way. */
  #finding: Promise<void> | undefined;
  #findAgainAtMs = -Infinity;

  constructor(name: string, config: ModelConfig, options: ModelsOptions) {
    const { clock, transport } = options;
    const random = options.random.stream(`models/${name}`);
    const share = options.shareOf?.(name);
    this.name = name;
    this.#share = share;
    // All threads ask, the first one of each kind says what it has heard: the one that leads makes no tokens.
    const { thread = 0 } = share ?? {};
    const log = logger("models");
    this.#log = thread === 0 ? log : NOBODY;
    this.#tokenizerLog = thread <= 1 ? log : NOBODY;
    this.#config = config;
    this.#options = options;
    const findWrongModel: ModelCheck = (access, signal) => {
      const { url } = access;
      const { config } = this;
      return askModel({ config, transport, clock, url, headers: workerHeaders(config, access), signal });
    };
    this.pool = createPool({
      model: name,
      config,
      clock,
      random,
      transport,
      log: logger("pool"),
      findWrongModel,
      share,
    });
    this.membership = {
      addWorker: (worker) => {
        const id = this.pool.addWorker(worker);
        this.#probeSoon();
        return id;
      },
      removeWorker: (id) => this.pool.removeWorker(id),
      setDraining: (id, draining) => this.pool.setDraining(id, draining),
      setDown: (id, reason) => {
        // What comes back may be another version.
        for (const worker of this.pool.workers()) {
          if (worker.id === id || serverIdOf(worker) === id) this.#known.delete(worker.id);
        }
        const found = this.pool.setDown(id, reason);
        if (reason === undefined) this.#probeSoon();
        return found;
      },
    };
    this.engine = new LiveEngine({
      config,
      pool: this.pool,
      transport,
      clock,
      random,
      capabilities: defaultCapabilities(config),
    });
  }

  get config(): ModelConfig {
    return this.#config;
  }

  /**
   * Goes on by other settings, for which `isSameService` holds: calls that begin from now on go by them. Throws as
   * `createPool` does, before anything has changed.
   */
  reconfigure(config: ModelConfig): void {
    const { dp_aware } = this.#config;
    this.pool.reconfigure(config);
    this.#config = config;
    this.engine.update({ config });
    if (dp_aware !== config.dp_aware) this.#known.clear();
    if (dp_aware && !config.dp_aware) {
      for (const { url } of this.pool.accesses()) {
        this.pool.spread(url, 1);
      }
    }
    this.#probeSoon();
  }

  /** Takes over the workers that another service of this model got while it ran. */
  inherit(other: ModelService): void {
    if (this.#share?.leads === false) return;
    const configured = configuredUrls(other.config);
    for (const access of other.pool.accesses()) {
      if (configured.includes(access.url) || configuredUrls(this.config).includes(access.url)) continue;
      try {
        this.membership.addWorker(access);
      } catch (error) {
        this.#log.warning("{model}: {url} is not used any more: {error}", {
          model: this.name,
          url: access.url,
          error: messageOf(error),
        });
      }
    }
  }

  /** Watches the workers no longer: nobody uses the model any more. */
  stop(): void {
    this.#end.abort(new Error(`Model ${this.name} is not served any more`));
    // Their places in the shared memory are free for others.
    if (this.#share?.leads === true) {
      for (const worker of this.pool.workers()) this.pool.removeWorker(serverIdOf(worker));
    }
  }

  get tokenizer(): ModelTokenizer | undefined {
    return this.#tokenizer;
  }

  get tokenizerProblem(): string | undefined {
    return this.#tokenizerProblem;
  }

  get askTokens(): ServedModel["askTokens"] {
    return this.#workersTell && this.#tokenizer === undefined ? this.#askTokens : undefined;
  }

  /**
   * Watches the workers until the signal aborts; resolves when each was asked once what it can do, and the tokenizer
   * was looked for. Nothing need wait for that: what is served before goes to the engines as text.
   */
  async start(life: AbortSignal): Promise<void> {
    const signal = AbortSignal.any([life, this.#end.signal]);
    this.#life = signal;
    this.pool.start(signal);
    // One that the configuration names can be had without the workers.
    const configured = typeof this.config.tokenizer === "string" ? this.#findTokenizer(signal) : undefined;
    await this.#probeAll(signal);
    void this.#keepProbing(signal);
    await (configured ?? this.#finding);
  }

  /** Takes over who is there and how they are, from the thread that checks them. */
  follow(members: readonly WorkerReport[]): void {
    this.pool.follow(members);
    this.#probeSoon();
  }

  /** Before the next turn of `#keepProbing`. */
  #probeSoon(): void {
    const life = this.#life;
    if (life !== undefined && !life.aborted) this.#probeAll(life).catch(() => {});
  }

  async #keepProbing(signal: AbortSignal): Promise<void> {
    try {
      while (!signal.aborted) {
        await this.#options.clock.sleep(this.config.health.interval_ms, signal);
        await this.#probeAll(signal);
        if (this.#known.size > 0) void this.#findTokenizer(signal);
      }
    } catch (error) {
      if (!signal.aborted) throw error;
    }
  }

  /** Asks the workers that have not been asked since they last came up. */
  async #probeAll(signal: AbortSignal): Promise<void> {
    const workers = this.pool.workers();
    const present = new Set(workers.map((worker) => worker.id));
    for (const id of this.#known.keys()) if (!present.has(id)) this.#known.delete(id);
    for (const worker of workers) {
      if (worker.health !== "unhealthy") continue;
      this.#known.delete(worker.id);
      this.#asking.delete(serverIdOf(worker));
    }
    const unknown = workers.filter((worker) => worker.health !== "unhealthy" && !this.#known.has(worker.id));
    if (unknown.length === 0) return;
    // The ranks of a server answer with one voice.
    const servers = [...Map.groupBy(unknown, ({ url }) => url).values()];
    await Promise.all(servers.map((ranks) => this.#ask(ranks, signal)));
    const [first, ...others] = this.#known.values();
    if (first === undefined) return;
    this.engine.update({ capabilities: commonCapabilities([first, ...others]) });
    // A worker that has come since may name one that can be had.
    this.#findAgainAtMs = -Infinity;
    void this.#findTokenizer(signal);
  }

  /** Looks for the tokenizer, unless it is known, looked for, or was looked for lately. */
  #findTokenizer(signal: AbortSignal): Promise<void> {
    const { clock, loadTokenizer: load } = this.#options;
    if (this.#finding !== undefined) return this.#finding;
    const isTime = clock.now() >= this.#findAgainAtMs;
    if (load === undefined || this.#tokenizer !== undefined || !isTime || !wantsTokenizer(this.config)) {
      return Promise.resolve();
    }
    this.#findAgainAtMs = clock.now() + TOKENIZER_RETRY_MS;
    this.#finding = this.#findWith(load, signal).catch((error: unknown) => {
      if (!signal.aborted) throw error;
    }).finally(() => this.#finding = undefined);
    return this.#finding;
  }

  async #findWith(load: NonNullable<ModelsOptions["loadTokenizer"]>, signal: AbortSignal): Promise<void> {
    const { clock, transport } = this.#options;
    const workers = this.#tellers();
    const found = await findTokenizer({ config: this.config, workers, load, clock, transport, signal });
    if ("refusal" in found) {
      const { refusal, tells } = found;
      const problem = noTokenizerText(this.name, refusal, tells);
      if (problem !== this.#tokenizerProblemText) this.#tokenizerLog.warning("{problem}", { problem });
      this.#tokenizerProblemText = problem;
      this.#tokenizerProblem = refusal;
      this.#workersTell = tells !== undefined;
      return;
    }
    this.#tokenizerProblem = undefined;
    this.#workersTell = false;
    this.#tokenizer = found.tokenizer;
    this.engine.update({ tokenizer: found.tokenizer });
    this.#tokenizerLog.info("{model}: tokenizer of {source}", { model: this.name, source: found.source });
  }

  /** Workers that were asked what they can do, with the names that they give their tokenizer. */
  #tellers(): TokenizerNames[] {
    const statuses = new Map(this.pool.workers().map((worker) => [worker.id, worker]));
    return [...this.#known].flatMap(([id, { tokenizerNames }]) => {
      const url = statuses.get(id)?.url;
      const headers = this.pool.headers?.(id) ?? {};
      return url === undefined ? [] : [{ url, headers, names: tokenizerNames ?? [] }];
    });
  }

  readonly #askTokens = async (messages: readonly ChatMessage[]): Promise<readonly number[]> => {
    const { clock, transport } = this.#options;
    const signal = this.#life!;
    for (const worker of this.#tellers()) {
      const ids = await askTokens(messages, { config: this.config, worker, clock, transport, signal });
      if (ids !== undefined) return ids;
    }
    throw new Error(`No worker of ${this.name} tells the tokens of a conversation`);
  };

  /** Asks a server, once however many want to know at a time. */
  #ask(ranks: readonly WorkerStatus[], signal: AbortSignal): Promise<void> {
    const [server = ""] = ranks.map(serverIdOf);
    const asking = this.#asking.get(server);
    if (asking !== undefined) return asking;
    const asked = this.#probeOne(ranks, signal).finally(() => {
      if (this.#asking.get(server) === asked) this.#asking.delete(server);
    });
    this.#asking.set(server, asked);
    return asked;
  }

  async #probeOne(workers: readonly WorkerStatus[], signal: AbortSignal): Promise<void> {
    const { clock, transport } = this.#options;
    const [{ id, url } = { id: "", url: "" }] = workers;
    const headers = this.pool.headers?.(id) ?? {};
    try {
      const capabilities = await probe({ config: this.config, transport, clock, url, headers, signal });
      for (const worker of workers) this.#known.set(worker.id, capabilities);
      if (this.config.dp_aware) this.#spread(url, capabilities);
      this.#log.info("{model}: {url} speaks {engine}{version}", {
        model: this.name,
        url,
        engine: this.config.engine,
        version: capabilities.version === undefined ? "" : ` ${capabilities.version}`,
      });
    } catch (error) {
      if (signal.aborted) return;
      this.#log.warning("{model}: {error}", { model: this.name, error: messageOf(error) });
    }
  }

  /** Makes the ranks that a server says it has places of their own. */
  #spread(url: string, capabilities: EngineCapabilities): void {
    const { ranks } = capabilities;
    if (ranks === undefined) {
      this.#log.warning(
        "{model}: {url} does not say how many data-parallel ranks it has, so it is one place and chooses by itself",
        { model: this.name, url },
      );
    }
    const ids = this.pool.spread(url, ranks ?? 1);
    for (const id of ids) this.#known.set(id, capabilities);
    if (ids.length > 1) this.#log.info("{url}: {ranks} data-parallel ranks", { url, ranks: ids.length });
  }
}

/** True when a model can go on with its workers under the other settings; otherwise it is served anew. */
function isSameService(one: ModelConfig, other: ModelConfig): boolean {
  const kindOf = ({ engine, model, tokenizer, chat_template_arguments, onnx }: ModelConfig) =>
    JSON.stringify([engine, model, tokenizer ?? null, chat_template_arguments, onnx ?? null]);
  return kindOf(one) === kindOf(other);
}

/** A change of the models that can be made. */
export interface ModelsChange {
  /** Makes it at once; gives the services that get no new requests any more, to be stopped when nobody uses them. */
  commit(): ModelService[];
}

/** Told of models as they come and go. */
export interface ModelsListener {
  /** A model, or another service in the place of one. */
  added(model: ServedModel): void;
  removed(name: string): void;
}

/** The models that are served now: those of the configuration, and those that were learned from workers since. */
export class Models {
  readonly #options: ModelsOptions;
  readonly #models: Map<string, ModelService>;
  readonly #listeners: ModelsListener[] = [];
  #configured: Config["models"];
  #life: AbortSignal | undefined;

  /** Use `createModels`. */
  constructor(options: ModelsOptions, models: Map<string, ModelService>) {
    this.#options = options;
    this.#models = models;
    this.#configured = options.config.models;
  }

  /** By name; changes as models are added, replaced and removed. */
  get all(): ReadonlyMap<string, ModelService> {
    return this.#models;
  }

  /** Those that were learned from workers. */
  get learned(): ModelService[] {
    return [...this.#models.values()].filter(({ name }) => !Object.hasOwn(this.#configured, name));
  }

  /** True when a model has a worker at this URL. */
  has(url: string): boolean {
    return [...this.#models.values()].some(({ pool }) => pool.workers().some((worker) => worker.url === url));
  }

  /** Serves one more model, without workers at first. */
  add(name: string, config: ModelConfig): ModelService {
    const model = new ModelService(name, config, this.#options);
    this.#put(model);
    return model;
  }

  listen(listener: ModelsListener): void {
    this.#listeners.push(listener);
  }

  /**
   * Looks whether these can be the configured models from now on. A model goes on with its workers' states under other
   * settings; with another engine, model or tokenizer it is served anew. Throws as `createPool` does.
   */
  prepare(configured: Config["models"]): ModelsChange {
    const made: ModelService[] = [];
    const kept: (() => void)[] = [];
    for (const [name, config] of Object.entries(configured)) {
      const known = this.#models.get(name);
      if (known === undefined || !isSameService(known.config, config)) {
        made.push(new ModelService(name, config, this.#options));
      } else if (JSON.stringify(known.config) !== JSON.stringify(config)) {
        configuredAccesses({ model: name, config });
        kept.push(() => known.reconfigure(config));
      }
    }
    const gone = Object.keys(this.#configured).filter((name) => !Object.hasOwn(configured, name));
    return {
      commit: () => {
        this.#configured = configured;
        for (const reconfigure of kept) reconfigure();
        const removed = gone.flatMap((name) => this.#remove(name) ?? []);
        return [...removed, ...made.flatMap((model) => this.#put(model) ?? [])];
      },
    };
  }

  /** Watches all workers until the signal aborts; resolves when each was asked once what it can do. */
  async start(signal: AbortSignal): Promise<void> {
    this.#life = signal;
    await Promise.all([...this.#models.values()].map((model) => model.start(signal)));
  }

  /** Gives the service whose place it takes. */
  #put(model: ModelService): ModelService | undefined {
    const before = this.#models.get(model.name);
    this.#models.set(model.name, model);
    if (before !== undefined) model.inherit(before);
    if (this.#life !== undefined) void model.start(this.#life);
    for (const { added } of this.#listeners) added(model);
    return before;
  }

  #remove(name: string): ModelService | undefined {
    const model = this.#models.get(name);
    this.#models.delete(name);
    for (const { removed } of this.#listeners) removed(name);
    return model;
  }
}

/** Makes the models of a configuration. */
export function createModels(options: ModelsOptions): Models {
  const models = Object.entries(options.config.models).map(
    ([name, config]) => [name, new ModelService(name, config, options)] as const,
  );
  return new Models(options, new Map(models));
}
