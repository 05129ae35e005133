import { type Clock, deadlineSignal } from "../../base/clock.ts";
import { messageOf } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import type { IncomingResponse, OutgoingRequest, Transport } from "../../base/transport.ts";
import { Watchdog } from "../../base/watchdog.ts";
import { EngineError } from "../worker/engine_error.ts";
import type { Placement } from "../worker/placement.ts";
import { workerUrl } from "../worker/worker_access.ts";

/** Longest wait for a worker to confirm an abort before its connection is closed all the same. */
const ABORT_WAIT_MS = 2_000;
/** How long an aborted request without an answer may take to get one, before it is aborted again and closed. */
const ABORT_EFFECT_MS = 300;
/** Abort requests of one batch that are sent at a time. */
const ABORTS_AT_ONCE = 16;

/** One attempt of a request on one worker. */
export interface UpstreamCallOptions {
  readonly clock: Clock;
  readonly transport: Transport;
  readonly log: Logger;
  readonly placement: Pick<Placement, "workerId" | "url">;
  readonly request: OutgoingRequest;
  /** The worker's own headers, for the abort request. */
  readonly workerHeaders: Readonly<Record<string, string>>;
  /** Ids to abort before the connection is closed; empty where closing is enough. */
  readonly rids: readonly string[];
  readonly firstTokenTimeoutMs: number;
  readonly idleTimeoutMs: number;
}

/** An attempt to have a request answered, as the relay sees it. */
export interface RelayCall {
  /** The answer's head. Throws before `open` has resolved. */
  readonly response: IncomingResponse;
  /** The first chunk of the body; undefined when the body is empty. */
  readonly first: Uint8Array | undefined;
  readonly url: string;
  /** How errors name the worker. */
  readonly worker: string;
  /** Of a pair, the half whose answer or failure this is; undefined for a whole server. */
  readonly half: "prefill" | "decode" | undefined;
  /**
   * Sends the request; resolves when the head and the first chunk are there, so that a worker that dies before it
   * can still be replaced. Rejects with a `TransportError`, a 504 `EngineError`, or the reason given to `stop`.
   */
  open(): Promise<void>;
  /** The next chunk after the first; undefined at the end. Rejects as `open` does. One call at a time. */
  read(): Promise<Uint8Array | undefined>;
  /** Ends the work on the worker, then the connection. Reads reject with `reason`. */
  stop(reason: unknown): Promise<void>;
  /** Closes the connection of an answer that is over or useless, without an abort. */
  close(): void;
}

/** What became of a request by the time somebody asked. */
type Opening = "answered" | "failed" | "late";

/** A request on its way to a worker and its answer on the way back, with time limits and an orderly stop. */
export class UpstreamCall implements RelayCall {
  readonly half = undefined;
  readonly #options: UpstreamCallOptions;
  readonly #controller = new AbortController();
  readonly #watchdog: Watchdog;
  #body: AsyncIterator<Uint8Array> | undefined;
  #response: IncomingResponse | undefined;
  #first: Uint8Array | undefined;
  #complete = false;
  readonly #opening = Promise.withResolvers<Opening>();
  #stopped: { readonly reason: unknown; readonly closed: Promise<void> } | undefined;

  constructor(options: UpstreamCallOptions) {
    this.#options = options;
    this.#watchdog = new Watchdog(options.clock, () => void this.stop(this.#timeout()));
  }

  get response(): IncomingResponse {
    if (this.#response === undefined) throw new Error("Cannot read the answer: it has not arrived");
    return this.#response;
  }

  get first(): Uint8Array | undefined {
    return this.#first;
  }

  get url(): string {
    return this.#options.placement.url;
  }

  get worker(): string {
    return `Worker ${this.#options.placement.workerId} (${this.#options.placement.url})`;
  }

  async open(): Promise<void> {
    const { transport, request, clock } = this.#options;
    this.#watchdog.arm(clock.now() + this.#limitMs);
    try {
      const response = await transport.send(request, this.#controller.signal);
      this.#body = response.body[Symbol.asyncIterator]();
      this.#first = await this.#next(this.#body);
      this.#response = response;
      this.#opening.resolve("answered");
    } catch (error) {
      this.#opening.resolve("failed");
      throw await this.#failure(error);
    } finally {
      this.#watchdog.disarm();
    }
    if (this.#stopped !== undefined) throw await this.#failure(undefined);
  }

  async read(): Promise<Uint8Array | undefined> {
    if (this.#body === undefined) return undefined;
    this.#watchdog.arm(this.#options.clock.now() + this.#limitMs);
    try {
      const chunk = await this.#next(this.#body);
      if (this.#stopped === undefined) return chunk;
    } catch (error) {
      throw await this.#failure(error);
    } finally {
      this.#watchdog.disarm();
    }
    throw await this.#failure(undefined);
  }

  /**
   * Ends the work on the worker, then the connection: SGLang 0.5.18 forgets a request whose connection has gone
   * but decodes it to its end, so the abort must be confirmed first. Reads reject with `reason`.
   */
  stop(reason: unknown): Promise<void> {
    this.#stopped ??= { reason, closed: this.#abortThenClose(reason) };
    return this.#stopped.closed;
  }

  close(): void {
    const reason = new Error("The answer is no longer needed");
    this.#stopped ??= { reason, closed: Promise.resolve() };
    this.#closeConnection(reason);
  }

  async #next(body: AsyncIterator<Uint8Array>): Promise<Uint8Array | undefined> {
    while (true) {
      const result = await body.next();
      if (result.done === true) {
        this.#body = undefined;
        this.#complete = true;
        this.#watchdog.stop();
        return undefined;
      }
      if (result.value.length > 0) return result.value;
    }
  }

  /** What to throw for an error: the reason of the stop that caused it, once that stop is complete. */
  async #failure(error: unknown): Promise<unknown> {
    this.#watchdog.stop();
    if (this.#stopped === undefined) return error;
    await this.#stopped.closed;
    return this.#stopped.reason;
  }

  async #abortThenClose(reason: unknown): Promise<void> {
    this.#watchdog.stop();
    const unanswered = this.#first === undefined;
    if (!this.#complete) await this.#abort();
    // Without a byte of the answer, the abort may have overtaken the request on its way: then it is repeated.
    if (unanswered && this.#options.rids.length > 0) {
      const opening = await this.#opened();
      if (opening !== "failed" && !this.#complete) await this.#abort();
    }
    this.#closeConnection(reason);
  }

  #closeConnection(reason: unknown): void {
    this.#watchdog.stop();
    this.#controller.abort(reason);
    const body = this.#body;
    this.#body = undefined;
    // The signal closes the connection; this lets a generator run its own clean-up.
    body?.return?.().then(() => {}, () => {});
  }

  /** How the answer began, if it does within `ABORT_EFFECT_MS`. */
  async #opened(): Promise<Opening> {
    const timer = new AbortController();
    const late = this.#options.clock.sleep(ABORT_EFFECT_MS, timer.signal).then(isLate, isLate);
    const opening = await Promise.race([this.#opening.promise, late]);
    timer.abort();
    return opening;
  }

  async #abort(): Promise<void> {
    const { clock, log, rids } = this.#options;
    if (rids.length === 0) return;
    const late = new Error(`it was not confirmed within ${ABORT_WAIT_MS} ms`);
    const deadline = deadlineSignal(clock, ABORT_WAIT_MS, late);
    try {
      for (let i = 0; i < rids.length; i += ABORTS_AT_ONCE) {
        const group = rids.slice(i, i + ABORTS_AT_ONCE);
        await Promise.all(group.map((rid) => this.#sendAbort(rid, deadline.signal)));
      }
    } catch (error) {
      log.warning("{worker} was asked to abort {rid}: {error}", {
        worker: this.worker,
        rid: rids[0],
        error: messageOf(error),
      });
    } finally {
      deadline.release();
    }
  }

  async #sendAbort(rid: string, signal: AbortSignal): Promise<void> {
    const { transport, placement, workerHeaders } = this.#options;
    const response = await transport.send({
      method: "POST",
      url: workerUrl(placement.url, "/abort_request"),
      headers: { ...workerHeaders, "content-type": "application/json", "accept-encoding": "identity" },
      body: JSON.stringify({ rid }),
    }, signal);
    for await (const _chunk of response.body) {
      /* read to the end, so that the connection can be used again */
    }
  }

  /** How long the worker may keep us waiting at this point of its answer. */
  get #limitMs(): number {
    const { firstTokenTimeoutMs, idleTimeoutMs } = this.#options;
    return this.#response === undefined ? firstTokenTimeoutMs : idleTimeoutMs;
  }

  #timeout(): EngineError {
    const what = this.#response === undefined ? "sent nothing" : "fell silent in the middle of its answer";
    return new EngineError(`${this.worker} ${what} for ${this.#limitMs} ms`, {
      code: "worker_timeout",
      status: 504,
      workerUrl: this.#options.placement.url,
      retryable: false,
    });
  }
}

function isLate(): Opening {
  return "late";
}
