import type { Clock } from "../../base/clock.ts";
import type { ModelTokenizer } from "../../router/engines/tokenizer.ts";
import type { IncomingResponse, OutgoingRequest } from "../../router/transport/transport.ts";

/** What a simulated server pretends to be. */
export interface SimulatorOptions {
  readonly engine: "vllm" | "sglang";
  /** Emulated version, such as `0.32.0` (vllm), `0.5.18` or `0.5.23` (sglang). */
  readonly version?: string;
  /** Names it answers to; the first is listed first. */
  readonly models: readonly string[];
  /** Cost model: H200 calibration of that size, or `instant` (no time passes). */
  readonly cost: "4b" | "8b" | "32b" | "instant";
  /** Divides every simulated duration; 1 is H200 time. */
  readonly speedup?: number;
  readonly clock: Clock;
  /** Seeds ids, random faults and the choice among scripted answers; the hashed tokens do not depend on it. */
  readonly seed: string;
  /** Longest prompt plus answer; 32,768 by default. */
  readonly contextTokens?: number;
  /** Tokens that fit into the KV cache; by default what an H200 leaves beside the weights. */
  readonly kvTokens?: number;
  /** Tokens per cache block (vllm: 16) or page (sglang: 1). */
  readonly blockSize?: number;
  /** Sequences that are worked on at the same time (vllm: 1,024; sglang: 2,048). */
  readonly maxRunning?: number;
  /** Token budget of one step (vllm `max_num_batched_tokens`, sglang `chunked_prefill_size`); 8,192 by default. */
  readonly maxBatchedTokens?: number;
  /** Requests that may wait before others get 503; unlimited by default. */
  readonly maxQueued?: number;
  /** The tokenizer of the model that it pretends to serve; a small built-in one by default. */
  readonly tokenizer?: ModelTokenizer;
  /** `hashed`: tokens are a hash of the prompt. `scripted`: known questions get worked solutions. */
  readonly answers?: "hashed" | "scripted";
  /** Faults that strike at random, each generation request on its own. */
  readonly faultRate?: { readonly probability: number; readonly faults: readonly Omit<Fault, "count">[] };
}

/** A fault to inject into the next matching request. */
export interface Fault {
  readonly kind: "refuse" | "status_500" | "status_503" | "reset" | "hang" | "truncate" | "slow";
  /** Generation requests it applies to before it is used up; Infinity for all requests on every path. */
  count: number;
  /** For `truncate`: events sent before the cut. For `slow`: factor on all durations. */
  readonly value?: number;
}

/** A simulated engine. The same object answers over real ports and in memory. */
export interface Simulator {
  /**
   * Serves one request, under the contract of `Transport.send`: the signal aborting, or the body's iteration
   * being ended, is the client closing its socket. Rejects with `TransportError` for `refuse` and `reset` faults.
   */
  handle(request: OutgoingRequest, signal: AbortSignal): Promise<IncomingResponse>;
  /** Sequences that decode or wait; 0 when idle. */
  readonly running: number;
  readonly stats: {
    readonly requests: number;
    readonly promptTokens: number;
    readonly generationTokens: number;
    readonly cachedTokens: number;
    readonly aborted: number;
  };
  inject(fault: Fault): void;
  /** Stops the engine at once, as a power cut would: nothing is answered any more. */
  close(): void;
}
