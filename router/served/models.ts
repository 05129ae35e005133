import type { Clock } from "../../base/clock.ts";
import { messageOf } from "../../base/errors.ts";
import { type Logger, logger } from "../../base/log.ts";
import type { Random } from "../../base/random.ts";
import type { Transport } from "../../base/transport.ts";
import type { Config, ModelConfig } from "../../cfgs/schema/config.ts";
import type { ChatMessage } from "../../ml/tokenizers/chat_message.ts";
import type { ModelTokenizer } from "../../ml/tokenizers/model_tokenizer.ts";
import type { EngineCapabilities } from "../engines/engine.ts";
import { findWrongModel as askModel } from "../engines/find_wrong_model.ts";
import { defaultCapabilities, probe } from "../engines/probe.ts";
import { createPool } from "../pool/create_pool.ts";
import type { ModelCheck } from "../pool/health.ts";
import type { ManagedPool } from "../pool/pool.ts";
import { askTokens } from "./ask_tokens.ts";
import { findTokenizer, noTokenizerText, type TokenizerNames, wantsTokenizer } from "./find_tokenizer.ts";
import { commonCapabilities, LiveEngine } from "./live_engine.ts";
import type { Membership, ServedModel } from "./served_model.ts";
import { workerHeaders } from "../worker/worker_access.ts";

/** Options of `createModels`. */
export interface ModelsOptions {
  readonly config: Config;
  readonly clock: Clock;
  readonly random: Random;
  readonly transport: Transport;
  /** Loads a tokenizer by its name; absent: no tokenizer is looked for. */
  readonly loadTokenizer?: ((source: string) => Promise<ModelTokenizer>) | undefined;
}

/** Time until a tokenizer that could not be had is looked for again. */
const TOKENIZER_RETRY_MS = 300_000;

/** One model with the care for its workers: their health, and what they can do. */
export class ModelService implements ServedModel {
  readonly name: string;
  readonly config: ModelConfig;
  readonly engine: LiveEngine;
  readonly pool: ManagedPool;
  readonly #options: ModelsOptions;
  readonly #log: Logger = logger("models");
  readonly membership: Membership;
  #life: AbortSignal | undefined;
  /** By worker id, for workers that were healthy when last looked at. */
  readonly #known = new Map<string, EngineCapabilities>();
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
    this.name = name;
    this.config = config;
    this.#options = options;
    const findWrongModel: ModelCheck = (access, signal) => {
      const { url } = access;
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
        this.#known.delete(id);
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
  async start(signal: AbortSignal): Promise<void> {
    this.#life = signal;
    this.pool.start(signal);
    // One that the configuration names can be had without the workers.
    const configured = typeof this.config.tokenizer === "string" ? this.#findTokenizer(signal) : undefined;
    await this.#probeAll(signal);
    void this.#keepProbing(signal);
    await (configured ?? this.#finding);
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
    for (const worker of workers) if (worker.health === "unhealthy") this.#known.delete(worker.id);
    const unknown = workers.filter((worker) => worker.health !== "unhealthy" && !this.#known.has(worker.id));
    if (unknown.length === 0) return;
    await Promise.all(unknown.map((worker) => this.#probeOne(worker.id, worker.url, signal)));
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
      if (problem !== this.#tokenizerProblemText) this.#log.warning("{problem}", { problem });
      this.#tokenizerProblemText = problem;
      this.#tokenizerProblem = refusal;
      this.#workersTell = tells !== undefined;
      return;
    }
    this.#tokenizerProblem = undefined;
    this.#workersTell = false;
    this.#tokenizer = found.tokenizer;
    this.engine.update({ tokenizer: found.tokenizer });
    this.#log.info("{model}: tokenizer of {source}", { model: this.name, source: found.source });
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

  async #probeOne(id: string, url: string, signal: AbortSignal): Promise<void> {
    const { clock, transport } = this.#options;
    const headers = this.pool.headers?.(id) ?? {};
    try {
      const capabilities = await probe({ config: this.config, transport, clock, url, headers, signal });
      this.#known.set(id, capabilities);
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
}

/** The models that are served now: those of the configuration, and those that were learned from workers since. */
export class Models {
  readonly #options: ModelsOptions;
  readonly #models: Map<string, ModelService>;
  readonly #onAdded: ((model: ServedModel) => void)[] = [];
  #life: AbortSignal | undefined;

  /** Use `createModels`. */
  constructor(options: ModelsOptions, models: Map<string, ModelService>) {
    this.#options = options;
    this.#models = models;
  }

  /** By name; changes as models are added. */
  get all(): ReadonlyMap<string, ModelService> {
    return this.#models;
  }

  /** True when a model has a worker at this URL. */
  has(url: string): boolean {
    return [...this.#models.values()].some(({ pool }) => pool.workers().some((worker) => worker.url === url));
  }

  /** Serves one more model, without workers at first. */
  add(name: string, config: ModelConfig): ModelService {
    const model = new ModelService(name, config, this.#options);
    this.#models.set(name, model);
    if (this.#life !== undefined) void model.start(this.#life);
    for (const tell of this.#onAdded) tell(model);
    return model;
  }

  onAdded(listener: (model: ServedModel) => void): void {
    this.#onAdded.push(listener);
  }

  /** Watches all workers until the signal aborts; resolves when each was asked once what it can do. */
  async start(signal: AbortSignal): Promise<void> {
    this.#life = signal;
    await Promise.all([...this.#models.values()].map((model) => model.start(signal)));
  }
}

/** Makes the models of a configuration. */
export function createModels(options: ModelsOptions): Models {
  const models = Object.entries(options.config.models).map(
    ([name, config]) => [name, new ModelService(name, config, options)] as const,
  );
  return new Models(options, new Map(models));
}
