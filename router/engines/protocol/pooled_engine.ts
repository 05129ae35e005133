import type { EngineCapabilities } from "../engine.ts";
import type { EngineOptions } from "./engine_options.ts";

/** An engine with probed abilities and workers in a pool: the base of all protocol families. */
export abstract class PooledEngine {
  protected readonly options: EngineOptions;

  constructor(options: EngineOptions) {
    this.options = options;
  }

  get capabilities(): EngineCapabilities {
    return this.options.capabilities;
  }
}
