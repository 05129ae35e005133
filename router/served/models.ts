import type { Clock } from "../../base/clock.ts";
import { messageOf } from "../../base/errors.ts";
import { type Logger, logger } from "../../base/log.ts";
import type { Random } from "../../base/random.ts";
import type { Transport } from "../../base/transport.ts";
import type { Config, ModelConfig } from "../../cfgs/schema/config.ts";
import type { ModelTokenizer } from "../../ml/tokenizers/model_tokenizer.ts";
import type { EngineCapabilities } from "../engines/engine.ts";
import { defaultCapabilities, probe } from "../engines/probe.ts";
import { createPool } from "../pool/create_pool.ts";
import type { ManagedPool } from "../pool/pool.ts";
import { commonCapabilities, LiveEngine } from "./live_engine.ts";
import type { Membership, ServedModel } from "./served_model.ts";

/** Options of `createModels`. */
export interface ModelsOptions {
  readonly config: Config;
  readonly clock: Clock;
  readonly random: Random;
  readonly transport: Transport;
  /** Loads the tokenizer of a model that names one. */
  readonly loadTokenizer: (source: string) => Promise<ModelTokenizer>;
}

/** One model with the care for its workers: their health, and what they can do. */
export class ModelService implements ServedModel {
  readonly name: string;
  readonly config: ModelConfig;
  readonly engine: LiveEngine;
  readonly pool: ManagedPool;
  readonly tokenizer: ModelTokenizer | undefined;
  readonly #options: ModelsOptions;
  readonly #log: Logger = logger("models");
  readonly membership: Membership;
  #life: AbortSignal | undefined;
  /** By worker id, for workers that were healthy when last looked at. */
  readonly #known = new Map<string, EngineCapabilities>();

  constructor(
    name: string,
    config: ModelConfig,
    tokenizer: ModelTokenizer | undefined,
    options: ModelsOptions,
  ) {
    const { clock, transport } = options;
    const random = options.random.stream(`models/${name}`);
    this.name = name;
    this.config = config;
    this.tokenizer = tokenizer;
    this.#options = options;
    this.pool = createPool({ model: name, config, clock, random, transport, log: logger("pool") });
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
      tokenizer,
    });
  }

  /** Watches the workers until the signal aborts; resolves when each was asked once what it can do. */
  async start(signal: AbortSignal): Promise<void> {
    this.#life = signal;
    this.pool.start(signal);
    await this.#probeAll(signal);
    void this.#keepProbing(signal);
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
    if (first !== undefined) this.engine.update(commonCapabilities([first, ...others]));
  }

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

/** Makes the models of a configuration. Throws when a tokenizer cannot be loaded. */
export async function createModels(options: ModelsOptions): Promise<Map<string, ModelService>> {
  const models = new Map<string, ModelService>();
  for (const [name, config] of Object.entries(options.config.models)) {
    const tokenizer = typeof config.tokenizer === "string"
      ? await options.loadTokenizer(config.tokenizer)
      : undefined;
    models.set(name, new ModelService(name, config, tokenizer, options));
  }
  return models;
}
