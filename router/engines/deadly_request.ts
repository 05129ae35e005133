import type { ModelConfig } from "../../cfgs/schema/config.ts";

/** What decides whether a request is deadly. */

export interface DeadlyRequest {
  readonly engine: ModelConfig["engine"];
  /** As the server reports it; undefined when unknown: then every version's weakness counts. */
  readonly version: string | undefined;
  /** Ids are 0 … vocabSize − 1; undefined when unknown: then only negative ids are refused. */
  readonly vocabSize: number | undefined;
  /** Such as `/generate` or `/v1/completions`. */
  readonly path: string;
  readonly body: unknown;
}
