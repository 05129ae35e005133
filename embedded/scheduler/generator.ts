import type { NumbersCheck } from "../../ml/onnx/check_numbers.ts";
import type { Arithmetic } from "../../ml/onnx/products.ts";
import type { OnnxFallback } from "../../ml/onnx/runtime.ts";

/** Parameters of drawing a token from logits: vLLM's names, meanings and order of application. */
export interface SamplingParameters {
  /** 0: the likeliest token. */
  readonly temperature: number;
  readonly topP: number;
  /** 0: all tokens. */
  readonly topK: number;
  readonly minP: number;
  readonly repetitionPenalty: number;
  readonly presencePenalty: number;
  readonly frequencyPenalty: number;
  /** Added to the logits, by token id. */
  readonly logitBias: ReadonlyMap<number, number>;
  /** With it the same request gives the same tokens. */
  readonly seed: string;
}

/** A sequence to be generated. */
export interface SequenceRequest {
  readonly promptIds: readonly number[];
  /** 0: the prompt is only computed and kept (a warm). */
  readonly maxTokens: number;
  readonly minTokens: number;
  readonly sampling: SamplingParameters;
  /** Ids that end the sequence; the last token is then reported, too. Empty to ignore the model's own. */
  readonly stopIds: ReadonlySet<number>;
  /** Lower goes first; absent: 0. While one below 0 is there, those of higher ones pause, in all models of the process. */
  readonly priority?: number | undefined;
  /** Tokens for which it has that priority; from then on it is 0. Absent: all. */
  readonly priorityTokens?: number | undefined;
  /** Alternatives to report with each token; undefined: no log-probabilities. */
  readonly logprobs: number | undefined;
}

/** One token as it was drawn; log-probabilities are of the raw logits, as vLLM's are by default. */
export interface DrawnToken {
  readonly id: number;
  readonly logprob: number | undefined;
  /** The likeliest, best first. */
  readonly top: readonly (readonly [id: number, logprob: number])[];
}

/** Events of a sequence, in this order. */
export type SequenceEvent =
  /** The prompt has been computed; `cachedTokens` of it were in the cache. */
  | { readonly type: "prompt"; readonly cachedTokens: number }
  | { readonly type: "token"; readonly token: DrawnToken }
  | { readonly type: "end"; readonly reason: "stop" | "length" };

/** Fixed facts of a generator. */
export interface GeneratorFacts {
  readonly model: string;
  readonly file: string;
  readonly vocabSize: number;
  readonly maxContextTokens: number;
  readonly threads: number;
  /** Ways around what ONNX Runtime cannot do with the model as it should. */
  readonly fallbacks: readonly OnnxFallback[];
  readonly arithmetic: Arithmetic;
  /** Undefined where there was nothing to compare its numbers with. */
  readonly check?: NumbersCheck | undefined;
}

/** Numbers of a generator since it started, and now. */
export interface GeneratorCounts {
  readonly running: number;
  readonly waiting: number;
  /** Tokens that the cache holds, and the most it may hold. */
  readonly cachedTokens: number;
  readonly cacheCapacityTokens: number;
  readonly promptTokens: number;
  readonly promptTokensCached: number;
  readonly generatedTokens: number;
}

/** A decoder with a KV cache. Sequences share it token by token; a prompt's prefix that was seen before is not computed again. */
export interface Generator {
  readonly facts: GeneratorFacts;
  counts(): GeneratorCounts;
  /** Ends within one step of the signal's abort, with its reason. Throws `CanopyError` when the model fails. */
  generate(request: SequenceRequest, signal: AbortSignal): AsyncIterable<SequenceEvent>;
  close(): Promise<void>;
}
