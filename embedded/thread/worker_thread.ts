import type { GeneratorCounts, GeneratorFacts, SequenceRequest } from "../scheduler/generator.ts";
import type { SchedulerEvent } from "../scheduler/scheduler.ts";
import type { CheckNumbersOptions } from "../../ml/onnx/check_numbers.ts";
import { startThread, type Thread, type ThreadEvents, type ThreadFile } from "../../ml/onnx/thread.ts";

/** Options of the thread. */
export interface DecoderOptions {
  /** Its name in the configuration. */
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
  /** False: with the priority of all other programs; true by default. */
  readonly background?: boolean | undefined;
  /** Its folder, and texts to compare its numbers by; without them they are not checked. */
  readonly check?: Pick<CheckNumbersOptions, "folder" | "texts"> | undefined;
}

export type ToDecoder =
  | { readonly kind: "generate"; readonly key: number; readonly request: SequenceRequest }
  | { readonly kind: "abort"; readonly key: number }
  /** The most urgent priority of other models; undefined: none is urgent. */
  | { readonly kind: "yield"; readonly to: number | undefined }
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

/** Starts a thread with a decoder. */
export type StartDecoder = (options: DecoderOptions, events: ThreadEvents<FromDecoder>) => Thread<ToDecoder>;

const file: ThreadFile = {
  url: new URL("./worker.ts", import.meta.url),
  bundled: "./embedded/thread/worker.ts",
};

/** Starts `worker.ts`. */
export const startDecoderThread: StartDecoder = (options, events) => startThread(file, options, events);
