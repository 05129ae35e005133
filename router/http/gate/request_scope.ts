import { Stopper, type StopSignal } from "../../../base/stop_signal.ts";
import type { Clock } from "../../../base/clock.ts";
import { CanopyError } from "../../../base/errors.ts";
import { logger } from "../../../base/log.ts";
import type { Drain, DrainStay } from "./drain.ts";
import { clientGone } from "./errors.ts";
import type { KeyPass } from "./key_limits.ts";
import type { Metrics, Outcome } from "../metrics/metrics.ts";

const log = logger("http");

/** Parts of the router that a scope reports to. */
export interface RequestScopeServices {
  readonly clock: Clock;
  readonly drain: Drain;
  readonly metrics: Metrics;
}

/**
 * The time in which the router works for one request: from its arrival until the last byte of the answer was taken,
 * or until its signal aborted. The signal aborts when the client leaves, when the drain cuts, or by `abort`.
 */
export class RequestScope {
  /** For the metrics: a configured name once it is known. */
  model = "unknown";
  /** The client, as `Keys.ownerOf` names it. */
  owner: string | undefined;
  /** Where limits count for the client's key: it pays for what the request uses. */
  pass: KeyPass | undefined;
  readonly #stopper = new Stopper();
  #controller: AbortController | undefined;
  readonly #client: AbortSignal;
  readonly #request: Request;
  readonly #requestId: string;
  readonly #services: RequestScopeServices;
  readonly #startedMs: number;
  readonly #stay: DrainStay;
  readonly #atEnd: ((outcome: Outcome) => void)[] = [];
  /** Undefined while it lasts. */
  #outcome: Outcome | undefined;

  /** Throws `draining` (503). */
  constructor(request: Request, requestId: string, services: RequestScopeServices) {
    this.#request = request;
    this.#requestId = requestId;
    this.#services = services;
    this.#startedMs = services.clock.now();
    this.#stay = services.drain.enter(this);
    this.#client = request.signal;
    this.#client.addEventListener("abort", this);
    if (this.#client.aborted) this.handleEvent();
  }

  /** The client has gone. */
  handleEvent(): void {
    this.abort(clientGone());
  }

  /** What ends the work for the request. */
  get stop(): StopSignal {
    return this.#stopper;
  }

  /** The same for those who need the runtime's own kind, which costs more. */
  get signal(): AbortSignal {
    const controller = this.#controller ??= new AbortController();
    if (this.#stopper.aborted) controller.abort(this.#stopper.reason);
    return controller.signal;
  }

  /** Calls `callback` when the scope ends; at once if it has. */
  onEnd(callback: (outcome: Outcome) => void): void {
    if (this.#outcome !== undefined) callback(this.#outcome);
    else this.#atEnd.push(callback);
  }

  /** Stops everything that works for the request, and ends it. */
  abort(reason: unknown): void {
    if (this.#outcome !== undefined) return;
    this.#stopper.abort(reason);
    this.#controller?.abort(reason);
    this.end("cancelled");
  }

  /** The answer is complete. Calling it again does nothing. */
  end(outcome: Outcome): void {
    if (this.#outcome !== undefined) return;
    this.#outcome = outcome;
    this.#client.removeEventListener("abort", this);
    this.#services.drain.leave(this.#stay);
    this.#tell(outcome);
    for (const callback of this.#atEnd) callback(outcome);
  }

  #tell(outcome: Outcome): void {
    const { metrics, clock } = this.#services;
    metrics.requestEnded(this.model, outcome);
    if (!log.isEnabledFor("info")) return;
    log.info("{method} {url} for {model}: {outcome} after {durationMs} ms ({requestId})", {
      method: this.#request.method,
      url: this.#request.url,
      model: this.model,
      outcome,
      durationMs: Math.round(clock.now() - this.#startedMs),
      requestId: this.#requestId,
    });
  }
}

/** The outcome that an answer's status stands for. */
export function outcomeOf(status: number): Outcome {
  if (status < 400) return "ok";
  return status < 500 ? "client_error" : "server_error";
}

/** The outcome of a request whose answer is an error. */
export function outcomeOfError(error: unknown): Outcome {
  return outcomeOf(CanopyError.is(error) ? error.status : 500);
}

type Take = (piece: IteratorResult<Uint8Array, unknown>) => void;

/**
 * A body that is made while it is read, one piece per read: a slow client slows `pieces` and nothing is stored.
 * When the client stops reading, the scope is aborted and `pieces` is closed.
 */
export function pulledBody(
  pieces: {
    next(): Promise<IteratorResult<Uint8Array, unknown>>;
    return(): Promise<unknown>;
    /** As `next().then(take, fail)`, for pieces that can do so with fewer promises. */
    pass?(take: Take, fail: (error: unknown) => void): Promise<void>;
  },
  scope: RequestScope,
  outcome: Outcome = "ok",
): ReadableStream<Uint8Array> {
  let controller: ReadableStreamDefaultController<Uint8Array>;
  const take: Take = (result) => {
    if (result.done !== true) return controller.enqueue(result.value);
    controller.close();
    scope.end(outcome);
  };
  const fail = (error: unknown) => {
    controller.error(error);
    scope.end("stream_error");
  };
  return new ReadableStream<Uint8Array>(
    {
      start: (own) => void (controller = own),
      // One promise for each chunk, and no closure: this is the only stream between a worker and its client.
      pull: () => pieces.pass?.(take, fail) ?? pieces.next().then(take, fail),
      async cancel() {
        scope.abort(clientGone());
        await pieces.return();
      },
    },
    { highWaterMark: 0 },
  );
}
