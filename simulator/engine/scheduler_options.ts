import type { Clock } from "../../base/clock.ts";
import type { CostModel } from "./cost.ts";
import type { EngineSequence } from "./sequence.ts";

/** How one engine family fills its steps. */
export interface EngineSchedulerOptions {
  readonly clock: Clock;
  readonly cost: CostModel;
  /** vLLM mixes prefill chunks into decode steps; SGLang runs prefills alone, before decodes. */
  readonly policy: "mixed" | "prefill_first";
  readonly pageSize: number;
  readonly kvTokens: number;
  readonly maxRunning: number;
  readonly maxBatchedTokens: number;
  /** Called once for every sequence, when it has left the engine. */
  readonly onEnd: (sequence: EngineSequence) => void;
  /** Called when memory has become free. */
  readonly onFree: () => void;
}

/** A lag behind the clock above this is forgotten instead of made up for. */
export const MAX_LAG_MS = 1000;
