import { type Clock, deadlineSignal } from "../../../base/clock.ts";
import { Bag, type Stay } from "../../../base/bag.ts";
import { CanopyError } from "../../../base/errors.ts";

/** Counts the requests being served, and ends the service in order: refuse new ones, let the others finish, cut. */
export class Drain {
  readonly #clock: Clock;
  #timeoutMs: number;
  readonly #cut = new AbortController();
  /** Those who are told when it is to be cut, one for each request that is being served. */
  readonly #served = new Bag<Cuttable>();
  #draining = false;
  #idle: (() => void) | undefined;
  /** Requests that came since the last `settled`. */
  #epoch: Epoch = { inFlight: 0 };
  /** All of them, oldest first, as long as they have requests or are the newest. */
  #epochs: Epoch[] = [this.#epoch];
  #done: Promise<void> | undefined;

  constructor(options: { clock: Clock; timeoutMs: number }) {
    this.#clock = options.clock;
    this.#timeoutMs = options.timeoutMs;
  }

  /** True from the start of the drain on: not ready any more. */
  get draining(): boolean {
    return this.#draining;
  }

  /** Requests being served: queued, running or still being sent. */
  get inFlight(): number {
    return this.#served.size;
  }

  /** Aborts when the time to finish is over; its reason is a 503 `draining`. */
  get cut(): AbortSignal {
    return this.#cut.signal;
  }

  /**
   * Counts a request in, until `leave`. It is aborted, with the reason, when it is to be cut; a listener of `cut` for
   * each request would be looked for among all of them at its end. Throws `draining` (503).
   */
  enter(served: Cuttable): DrainStay {
    if (this.#draining) throw drainingError();
    const epoch = this.#epoch;
    epoch.inFlight++;
    return { stay: this.#served.add(served), epoch };
  }

  /** Counts a request out. Calling it again does nothing. */
  leave({ stay, epoch }: DrainStay): void {
    if (!this.#served.remove(stay)) return;
    epoch.inFlight--;
    this.#forgetEpochs();
    if (this.#served.size === 0) this.#idle?.();
  }

  /** Changes the time that a drain which starts later gives. */
  setTimeoutMs(timeoutMs: number): void {
    this.#timeoutMs = timeoutMs;
  }

  /** Resolves when all requests that are in flight now have ended. */
  settled(): Promise<void> {
    return new Promise((resolve) => {
      this.#epoch.onEnd = resolve;
      this.#epoch = { inFlight: 0 };
      this.#epochs.push(this.#epoch);
      this.#forgetEpochs();
    });
  }

  /** Starts the drain (SIGTERM); resolves when all requests have ended, cut ones included. */
  drain(): Promise<void> {
    return this.#done ??= this.#run();
  }

  /** Drains without grace: what is being served is cut at once. */
  stop(): Promise<void> {
    const done = this.drain();
    this.#cutAll(drainingError());
    return done;
  }

  #forgetEpochs(): void {
    while (this.#epochs.length > 1 && this.#epochs[0]!.inFlight === 0) this.#epochs.shift()!.onEnd?.();
  }

  async #run(): Promise<void> {
    this.#draining = true;
    if (this.#served.size === 0) return;
    const idle = new Promise<void>((resolve) => this.#idle = resolve);
    const deadline = deadlineSignal(this.#clock, this.#timeoutMs, drainingError());
    deadline.signal.addEventListener("abort", () => this.#cutAll(deadline.signal.reason), { once: true });
    await idle;
    deadline.release();
  }

  #cutAll(reason: unknown): void {
    this.#cut.abort(reason);
    for (const served of this.#served.members()) served.abort(this.#cut.signal.reason);
  }
}

/** A request, as far as a drain is concerned. */
export interface Cuttable {
  abort(reason: unknown): void;
}

/** A request's time among those that are served. */
export interface DrainStay {
  readonly stay: Stay<Cuttable>;
  readonly epoch: Epoch;
}

/** The requests that came between two calls of `settled`. */
interface Epoch {
  inFlight: number;
  /** Called when they, and all that came before them, have ended. */
  onEnd?: () => void;
}

function drainingError(): CanopyError {
  return new CanopyError("The router is shutting down: send the request again, to another instance", {
    code: "draining",
    status: 503,
    retryAfterSeconds: 1,
  });
}
