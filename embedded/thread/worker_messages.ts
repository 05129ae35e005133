import type { GeneratorCounts, GeneratorFacts, SequenceRequest } from "../scheduler/generator.ts";
import type { SchedulerEvent } from "../scheduler/scheduler.ts";

/** What the thread is started with. */
export interface DecoderOptions {
  /** As it was configured. */
  readonly model: string;
  /** The `.onnx` file. */
  readonly path: string;
  readonly threads: number;
  /** Memory for keys and values: of the sequences that run and of those that are remembered. */
  readonly cacheBytes: number;
  /** The model's own limit. */
  readonly maxContextTokens: number;
  /** Sequences that are computed side by side. */
  readonly maxRunning: number;
}

export type ToDecoder =
  | { readonly kind: "generate"; readonly key: number; readonly request: SequenceRequest }
  | { readonly kind: "abort"; readonly key: number }
  | { readonly kind: "close" };

export type FromDecoder =
  | { readonly kind: "ready"; readonly facts: GeneratorFacts; readonly counts: GeneratorCounts }
  /** The model cannot be used. */
  | { readonly kind: "failed"; readonly reason: string; readonly code: string }
  | {
    readonly kind: "news";
    readonly key: number;
    readonly events: readonly SchedulerEvent[];
    readonly counts: GeneratorCounts;
  }
  | { readonly kind: "closed" };
