import type { Clock } from "../../base/clock.ts";
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
  readonly seed: string;
  readonly contextTokens?: number;
  readonly kvTokens?: number;
  readonly blockSize?: number;
  readonly maxRunning?: number;
}

/** A fault to inject into the next matching request. */
export interface Fault {
  readonly kind: "refuse" | "status_500" | "status_503" | "reset" | "hang" | "truncate" | "slow";
  /** Requests it applies to before it is used up; Infinity for all. */
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
}
