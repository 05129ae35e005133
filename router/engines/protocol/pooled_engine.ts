import type { EngineCapabilities } from "../engine.ts";
import type { EngineOptions } from "./engine_options.ts";

/** What all protocol families have in common: abilities that were probed, and workers in a pool. */
export abstract class PooledEngine {
  protected readonly options: EngineOptions;

  constructor(options: EngineOptions) {
    this.options = options;
  }

  get capabilities(): EngineCapabilities {
    return this.options.capabilities;
  }
}
