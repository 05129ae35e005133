import { Stopper, type StopSignal } from "../../../base/stop_signal.ts";
import type { Clock } from "../../../base/clock.ts";
import { CanopyError } from "../../../base/errors.ts";
import { logger } from "../../../base/log.ts";
import type { Drain, DrainStay } from "./drain.ts";
import { clientGone } from "./errors.ts";
import type { KeyPass } from "./key_limits.ts";
import type { Metrics, Outcome } from "../metrics/metrics.ts";
import { goneSignal } from "../server/client_request.ts";
import { answerTo, type PulledBody, type ReadyAnswer, type TakePiece } from "../server/ready_response.ts";

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
  readonly #client: StopSignal;
  readonly #request: Request;
  readonly #requestId: string;
  readonly #services: RequestScopeServices;
  readonly #startedMs: number;
  readonly #stay: DrainStay;
  readonly #onGone = () => this.abort(clientGone());
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
    this.#client = goneSignal(request);
    this.#client.addEventListener("abort", this.#onGone);
    if (this.#client.aborted) this.#onGone();
  }

  /** What ends the work for the request. */
  get stop(): StopSignal {
    return this.#stopper;
  }

  /** The same for those who need the runtime's own kind, which costs more. */
  get signal(): AbortSignal {
    return this.#stopper.signal;
  }

  /** An answer of the kind that this request's server writes. */
  answer(answer: ReadyAnswer): Response {
    return answerTo(this.#request, answer);
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
    this.end("cancelled");
  }

  /** The answer is complete. Calling it again does nothing. */
  end(outcome: Outcome): void {
    if (this.#outcome !== undefined) return;
    this.#outcome = outcome;
    this.#client.removeEventListener("abort", this.#onGone);
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

/** Pieces of a body that somebody makes. */
export interface BodyPieces {
  next(): Promise<IteratorResult<Uint8Array, unknown>>;
  return(): Promise<unknown>;
  /** As `next().then(take, fail)`, for pieces that can do so with fewer promises. */
  pass?(take: TakePiece, fail: (error: unknown) => void): Promise<void>;
}

/**
 * A body that is made while it is taken, one piece at a time: a slow client slows `pieces` and nothing is stored. When
 * the client leaves, the scope is aborted and `pieces` is closed.
 */
export class ScopedBody implements PulledBody {
  readonly #pieces: BodyPieces;
  readonly #scope: RequestScope;
  readonly #outcome: Outcome;
  /** What each piece is handed to: made once, as there are many. */
  #taken: { readonly take: TakePiece; readonly fail: (error: unknown) => void } | undefined;

  constructor(pieces: BodyPieces, scope: RequestScope, outcome: Outcome = "ok") {
    this.#pieces = pieces;
    this.#scope = scope;
    this.#outcome = outcome;
  }

  pass(take: TakePiece, fail: (error: unknown) => void): Promise<void> {
    const pieces = this.#pieces;
    const to = this.#taken ??= this.#takenBy(take, fail);
    return pieces.pass?.(to.take, to.fail) ?? pieces.next().then(to.take, to.fail);
  }

  #takenBy(take: TakePiece, fail: (error: unknown) => void) {
    return {
      take: (piece: IteratorResult<Uint8Array, unknown>) => {
        take(piece);
        if (piece.done === true) this.#scope.end(this.#outcome);
      },
      fail: (error: unknown) => {
        // Before the connection is given up: to the scope that is a client who leaves.
        this.#scope.end("stream_error");
        fail(error);
      },
    };
  }

  leave(): void {
    this.#left().catch(() => {});
  }

  asStream(): ReadableStream<Uint8Array> {
    let controller: ReadableStreamDefaultController<Uint8Array>;
    const take: TakePiece = (piece) =>
      piece.done === true ? controller.close() : controller.enqueue(piece.value);
    const fail = (error: unknown) => controller.error(error);
    return new ReadableStream<Uint8Array>(
      {
        start: (own) => void (controller = own),
        pull: () => this.pass(take, fail),
        cancel: () => this.#left(),
      },
      { highWaterMark: 0 },
    );
  }

  async #left(): Promise<void> {
    this.#scope.abort(clientGone());
    await this.#pieces.return();
  }
}
