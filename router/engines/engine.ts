import type { Int64 } from "../../base/int64.ts";
import type { JsonObject } from "../../base/json.ts";
import type { ChatMessage } from "../../ml/tokenizers/chat_message.ts";
import type { Placement } from "../worker/placement.ts";

/** A prompt, as an engine is asked to continue it. */
export type Prompt =
  | {
    readonly kind: "tokens";
    readonly ids: readonly number[];
    /** All its tokens, where `ids` are only those at its ends: at least twice as many as its model's context holds. */
    readonly tokens?: number | undefined;
  }
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "chat"; readonly messages: readonly ChatMessage[] };

/** Abilities of one protocol family, version and server; probed when a worker is first seen. */
export interface EngineCapabilities {
  /** Reported by the server, such as `0.5.18`; undefined when it does not say. */
  readonly version: string | undefined;
  /** Accepts prompts as token ids. */
  readonly tokenIds: boolean;
  /** Returns the ids of generated tokens. */
  readonly returnsTokenIds: boolean;
  /** Returns log-probabilities of the chosen tokens. */
  readonly logprobs: boolean;
  /** False: its server dies when it is asked for other likely tokens; absent: it gives them. */
  readonly topLogprobs?: false;
  /** Reports cached prompt tokens in usage. */
  readonly cachedTokens: boolean;
  /** Way in which a prefix is prefilled without generating. */
  readonly warm: "none" | "max_new_tokens_0" | "max_tokens_1" | "fake_bootstrap" | "pair_1";
  /** Way to stop a running decode: closing the stream, or an explicit abort that must come first. */
  readonly abort: "close" | "abort_then_close";
  /** Longest prompt plus answer, in tokens; undefined when the server does not say. */
  readonly contextTokens: number | undefined;
  /** Most stop strings accepted; undefined when unlimited. */
  readonly maxStopStrings: number | undefined;
  /** Tokens of one block of the prefix cache: only whole blocks are ever found again; undefined when not known. */
  readonly blockTokens?: number;
  /** Reads prompts in small pieces beside its streams: no step of theirs waits for a whole one; absent: it may. */
  readonly smallPieces?: true;
  /** The server orders its queue by `priority`, lower first; absent: the field would be ignored, or refused. */
  readonly priority?: "lower_first";
  /** There `priority` may hold for a request's first `priority_tokens` only, and is 0 from then on; absent: it may not. */
  readonly priorityTokens?: true;
  /** File and arithmetic of a model in this process, for traces; absent: the server does not say. */
  readonly computes?: JsonObject;
  /** Nothing computes: the server says that it is a simulation; absent: it does not say so. */
  readonly simulated?: true;
  /** SGLang's `/generate`: whether stream events hold only what is new (true) or all so far (false); undefined: unknown. */
  readonly incrementalStream?: boolean;
  /** Its data-parallel ranks; absent: it does not say. */
  readonly ranks?: number;
  /** Folders on the server's host, or Hub ids, that it says its tokenizer is from, best first; absent: it does not say. */
  readonly tokenizerNames?: readonly string[] | undefined;
}

/** Sampling parameters in OpenAI's names. Absent means the engine's default. */
export interface Sampling {
  readonly max_tokens?: number;
  readonly temperature?: number;
  readonly top_p?: number;
  readonly top_k?: number;
  readonly min_p?: number;
  readonly frequency_penalty?: number;
  readonly presence_penalty?: number;
  readonly repetition_penalty?: number;
  readonly seed?: Int64;
  readonly stop?: readonly string[];
  /** Everything else that goes into the engine's body as it is (`ignore_eos`, `logit_bias`, `tools`, …). */
  readonly extra?: JsonObject;
}

/** The `priority` that a request states for servers that order their queue by it; undefined when it states none. */
export function statedPriority({ extra }: Sampling): number | undefined {
  return typeof extra?.priority === "number" ? extra.priority : undefined;
}

/** One generation: always a single sequence. */
export interface GenerateRequest {
  /** Unique per attempt; sent as the engine's own request id so that it can be aborted. */
  readonly id: string;
  readonly prompt: Prompt;
  readonly sampling: Sampling;
  /** Log-probabilities of the chosen token, and of this many alternatives; undefined for none. */
  readonly logprobs?: number | undefined;
  /** Headers to pass on (`traceparent`, `x-request-id`); lower case. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
}

/** Log-probability of one generated token. */
export interface TokenLogprob {
  readonly token: string;
  readonly logprob: number;
  readonly tokenId?: number;
  readonly top?: readonly { readonly token: string; readonly logprob: number; readonly tokenId?: number }[];
}

/** Tokens as the engine counted them. */
export interface EngineUsage {
  readonly promptTokens: number;
  readonly completionTokens: number;
  /** Of the prompt's tokens, those found in the prefix cache; undefined when not reported. */
  readonly cachedTokens: number | undefined;
  /** Of the completion's tokens, those of a reasoning phase; undefined when not reported. */
  readonly reasoningTokens?: number | undefined;
  /** False when the engine sent no usage: `completionTokens` is then its number of deltas, `promptTokens` 0. */
  readonly reported?: boolean;
}

/** Reason for which a generation ended well. */
export type FinishReason = "stop" | "length" | "tool_calls" | "content_filter";

/** An event of a generation. A failure is thrown, never an event. */
export type GenerateEvent =
  | {
    readonly type: "delta";
    /** New answer text; may be empty while tokens arrive (held-back bytes, stop look-behind). */
    readonly text: string;
    /** New reasoning text, where the engine separates it. */
    readonly reasoning?: string;
    /** Ids of the new tokens, where the engine returns them; may run ahead of the text. */
    readonly tokenIds?: readonly number[];
    readonly logprobs?: readonly TokenLogprob[];
    /** OpenAI `delta.tool_calls` entries as the engine sent them. */
    readonly toolCalls?: readonly JsonObject[];
    /** Tokens so far, this delta's included, where the engine says so while it streams. */
    readonly usage?: EngineUsage;
  }
  | {
    readonly type: "end";
    readonly finishReason: FinishReason;
    /** The stop string or token id that ended it, where reported. */
    readonly stopReason?: string | number | undefined;
    readonly usage: EngineUsage;
    /** Of a pair: why its decode half read the prompt by itself; absent when the prefill half did. */
    readonly decodedAlone?: string;
  };

/** The result of a warm. */
export interface WarmResult {
  /** Tokens that are cached now, as far as whole blocks go; 0 when the prefix is shorter than a block. */
  readonly promptTokens: number;
  /** Of these, the ones that were there before. */
  readonly cachedTokens: number | undefined;
}

/** One protocol family in front of the workers of one model. Stateless: state is in the pool. */
export interface Engine {
  readonly capabilities: EngineCapabilities;
  /**
   * Prefills a prefix so that a later prompt that starts with it is cheap. Throws `EngineError`.
   * `like`: the sampling of the request to come; what decides in which cache its prefix is (`cache_salt`, …), or how
   * its conversation is written down, is taken from it.
   */
  warm(prefix: Prompt, at: Placement, signal: AbortSignal, like?: Sampling): Promise<WarmResult>;
  /**
   * Generates; the last event is `end`. Does not release the place, but for a half of a pair that is done before the other.
   * When the signal aborts or the iteration is ended early, the engine's decode is stopped: the iterator's
   * `return` (or its rejection) settles only after the engine was told, in the order its version needs.
   * Throws `EngineError`, or the signal's reason.
   */
  generate(request: GenerateRequest, at: Placement, signal: AbortSignal): AsyncIterable<GenerateEvent>;
}
