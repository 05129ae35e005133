import type { Clock } from "../../base/clock.ts";
import type { IncomingResponse, OutgoingRequest } from "../../base/transport.ts";
import type { ModelTokenizer } from "../../ml/tokenizers/model_tokenizer.ts";
import type { CostParameters, CostSize } from "../engine/cost.ts";
import type { Fault, FaultRate } from "../engine/faults.ts";
import type { PdFabric } from "../pd/fabric.ts";
import type { ScriptedAnswers } from "../text/scripted.ts";

/** Options of a simulated server: what it pretends to be. */
export interface SimulatorOptions {
  readonly engine: "vllm" | "sglang";
  /** Emulated version, such as `0.32.0` (vllm), `0.5.18` or `0.5.23` (sglang). */
  readonly version?: string | undefined;
  /** Names it answers to; the first is listed first. */
  readonly models: readonly string[];
  /** Cost model: H200 calibration of that size, `instant` (no time passes), or parameters such as a cost file has. */
  readonly cost: CostSize | "instant" | CostParameters;
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
  readonly maxBatchedTokens?: number | undefined;
  /** SGLang's `--incremental-streaming-output`: events of `/generate` hold only what is new; from 0.5.10 on. */
  readonly incrementalStream?: boolean;
  /** Both engines' `--stream-interval`: tokens of a piece of a stream, of which the first one has one; 1 by default. */
  readonly streamInterval?: number | undefined;
  /** Requests that may wait before others get 503; unlimited by default. */
  readonly maxQueued?: number;
  /** The tokenizer of the model that it pretends to serve; a small built-in one by default. */
  readonly tokenizer?: ModelTokenizer;
  /** The folder or Hub id that it says its tokenizer is from; by default the model's name. */
  readonly tokenizerPath?: string | undefined;
  /** `hashed`: tokens are a hash of the prompt. `scripted`: known questions get worked solutions; or other ones. */
  readonly answers?: "hashed" | "scripted" | ScriptedAnswers | undefined;
  /** SGLang's `--dp-size`: ranks with a cache each, which a request may choose; 1 by default. */
  readonly dpSize?: number | undefined;
  /** One half of a prefill/decode pair; without it the server does both. */
  readonly pd?: PdOptions | undefined;
  readonly faultRate?: FaultRate | undefined;
}

/** One half of a pair. Durations are those of real servers in ms: `speedup` divides them too. */
export interface PdOptions {
  readonly role: "prefill" | "decode";
  /** Meeting place of servers; the same object for all halves that may work together. */
  readonly fabric: PdFabric;
  /** Address of the registry of a SGLang prefill server (port 8998), or of a vLLM server's side channel (5600). */
  readonly bootstrapHost?: string;
  readonly bootstrapPort?: number;
  /** Prefill: the port of its API, as the registry tells it; 30,000 by default. */
  readonly httpPort?: number;
  /** Longest wait of prefill for its decode half; 300,000 by default. */
  readonly bootstrapTimeoutMs?: number;
  /** Longest wait of decode for the KV; 300,000 by default. */
  readonly waitingTimeoutMs?: number;
  /** Decode: tokens kept free per sequence when memory is taken for a prompt; 512 by default. */
  readonly reservedDecodeTokens?: number;
  /** Decode: keeps a prefix tree of its own, so that only what it lacks travels; false by default, as in SGLang. */
  readonly decodeRadixCache?: boolean;
  /** vLLM: what happens to a request whose KV cannot be fetched; it fails by default. */
  readonly loadFailurePolicy?: "fail" | "recompute";
}

/**
 * A simulated engine. The same object answers over real ports and in memory. A prefill server answers for its bootstrap
 * registry, too: to requests whose URL has that port.
 */
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
  /** Takes all injected faults back. */
  clearFaults(): void;
  /** Makes the engine hang, while its front end goes on; call what it returns to wake it. */
  freeze(): () => void;
  /** Ends the process at once, as SIGKILL does: open connections are reset, new ones refused. */
  crash(): void;
  /** Stops the engine at once, as a power cut would: nothing is answered any more. */
  close(): void;
}
