import type { Clock } from "../../../base/clock.ts";
import { CanopyError } from "../../../base/errors.ts";
import type {
  Engine,
  EngineCapabilities,
  EngineUsage,
  GenerateEvent,
  GenerateRequest,
  WarmResult,
} from "../../../router/engines/engine.ts";
import { Gate } from "../../../router/pool/gate.ts";
import type { PlaceHint } from "../../../router/pool/lease.ts";
import type { Claim } from "../../../router/pool/placer.ts";
import type { Pool } from "../../../router/pool/pool.ts";
import { EngineError } from "../../../router/worker/engine_error.ts";
import type { Placement, PlacementOutcome } from "../../../router/worker/placement.ts";

/** How a fake engine answers one request. */
export interface Script {
  /** Pieces of the answer, each one token. */
  readonly pieces: readonly string[];
  /** Virtual time before the first piece. */
  readonly startMs?: number;
  /** Virtual time before each further piece. */
  readonly stepMs?: number;
  /** Thrown instead of the piece of this index (that of the end: `pieces.length`). */
  readonly failAt?: { readonly piece: number; readonly error: unknown };
  /** Waits for ever instead of sending the piece of this index. */
  readonly hangAt?: number;
  readonly promptTokens?: number;
  /** Log-probability of each piece, given where the request asks for them; by default -0.1. */
  readonly logprob?: number;
  /** Alternatives of each piece, given where the request asks for some. */
  readonly top?: readonly { readonly token: string; readonly logprob: number }[];
  readonly finishReason?: "stop" | "length";
  /** Tokens that each piece counts for in the running usage; undefined: no running usage. */
  readonly tokensPerPiece?: number;
}

export interface FakeCall {
  readonly request: GenerateRequest;
  readonly workerId: string;
  readonly startedAtMs: number;
  outcome: PlacementOutcome | undefined;
  endedAtMs: number | undefined;
}

/** An engine that follows scripts under a virtual clock and keeps account of everything asked of it. */
export class FakeEngine implements Engine {
  readonly capabilities: EngineCapabilities;
  /** The workers that it is before. */
  readonly pool: Pool;
  readonly calls: FakeCall[] = [];
  /** Iterators that have begun and not returned yet. */
  active = 0;
  maxActive = 0;
  /** Pieces handed out, all calls together. */
  sent = 0;
  /** Placements that were not given back. */
  placed = 0;
  readonly #load = new Map<string, number>();
  readonly #clock: Clock;
  readonly #script: (request: GenerateRequest, workerId: string) => Script;
  readonly #workers: readonly string[];
  readonly #capacity: number;
  readonly #abortMs: number;

  constructor(clock: Clock, script: (request: GenerateRequest, workerId: string) => Script, options: {
    readonly workers?: readonly string[];
    readonly capacity?: number;
    /** Virtual time that telling the engine to stop takes. */
    readonly abortMs?: number;
    readonly capabilities?: Partial<EngineCapabilities>;
  } = {}) {
    this.#clock = clock;
    this.#script = script;
    this.#workers = options.workers ?? ["w1", "w2"];
    this.#capacity = options.capacity ?? Infinity;
    this.#abortMs = options.abortMs ?? 0;
    const gate = new Gate({ model: "m", clock, place: (hint) => this.#place(hint) });
    this.pool = { model: "m", gate, workers: () => [], ready: true };
    this.capabilities = {
      version: undefined,
      tokenIds: false,
      returnsTokenIds: false,
      logprobs: false,
      cachedTokens: false,
      warm: "none",
      abort: "close",
      contextTokens: undefined,
      maxStopStrings: undefined,
      ...options.capabilities,
    };
  }

  #place(hint: PlaceHint): Claim {
    const allowed = this.#workers.filter((worker) => !hint.exclude?.has(worker));
    if (allowed.length === 0) throw new CanopyError("No worker left", { code: "no_worker", status: 503 });
    const load = (worker: string) => this.#load.get(worker) ?? 0;
    const worker = allowed.find((candidate) => load(candidate) < this.#capacity);
    if (worker === undefined) {
      throw new CanopyError("All full", { code: "no_worker", status: 503, retryAfterSeconds: 1 });
    }
    this.#load.set(worker, load(worker) + 1);
    this.placed++;
    let released = false;
    return {
      workerId: worker,
      url: `http://${worker}`,
      release: () => {
        if (released) throw new Error("released twice");
        released = true;
        this.placed--;
        this.#load.set(worker, load(worker) - 1);
        return true;
      },
      promptRead: () => {},
    };
  }

  warm(): Promise<WarmResult> {
    return Promise.reject(new Error("not faked"));
  }

  async *generate(
    request: GenerateRequest,
    at: Placement,
    signal: AbortSignal,
  ): AsyncGenerator<GenerateEvent, void, undefined> {
    const script = this.#script(request, at.workerId);
    const call: FakeCall = {
      request,
      workerId: at.workerId,
      startedAtMs: this.#clock.now(),
      outcome: undefined,
      endedAtMs: undefined,
    };
    this.calls.push(call);
    const release = at.release.bind(at);
    at.release = (outcome) => {
      call.outcome = outcome;
      release(outcome);
    };
    this.active++;
    this.maxActive = Math.max(this.maxActive, this.active);
    let over = false;
    try {
      for (let index = 0; index <= script.pieces.length; index++) {
        if (script.hangAt === index) await this.#clock.sleep(1e12, signal);
        const waitMs = index === 0 ? script.startMs ?? 0 : script.stepMs ?? 0;
        if (waitMs > 0) await this.#clock.sleep(waitMs, signal);
        if (script.failAt?.piece === index) {
          over = true;
          throw script.failAt.error;
        }
        const piece = script.pieces[index];
        if (piece === undefined) break;
        signal.throwIfAborted();
        this.sent++;
        yield {
          type: "delta",
          text: piece,
          ...logprobsOf(script, piece, request.logprobs),
          ...runningUsage(script, index + 1),
        };
      }
      over = true;
      yield {
        type: "end",
        finishReason: script.finishReason ?? "stop",
        usage: {
          promptTokens: script.promptTokens ?? 10,
          completionTokens: script.pieces.length,
          cachedTokens: undefined,
        },
      };
    } finally {
      if (!over && this.#abortMs > 0) await this.#clock.sleep(this.#abortMs);
      this.active--;
      call.endedAtMs = this.#clock.now();
    }
  }
}

function logprobsOf(script: Script, token: string, wanted: number | undefined) {
  if (wanted === undefined) return {};
  const { logprob = -0.1, top } = script;
  return { logprobs: [{ token, logprob, ...(wanted > 0 && top !== undefined ? { top } : {}) }] };
}

function runningUsage(script: Script, pieces: number): { usage?: EngineUsage } {
  if (script.tokensPerPiece === undefined) return {};
  return {
    usage: {
      promptTokens: script.promptTokens ?? 10,
      completionTokens: pieces * script.tokensPerPiece,
      cachedTokens: 4,
    },
  };
}

/** An error that allows another worker to be tried. */
export function brokenWorker(worker: string, message = "connection reset"): EngineError {
  return new EngineError(message, {
    code: "worker_connection_lost",
    status: 502,
    workerUrl: `http://${worker}`,
    retryable: true,
  });
}
