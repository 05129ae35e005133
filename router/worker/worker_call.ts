import { type Clock, deadlineSignal } from "../../base/clock.ts";
import { messageOf } from "../../base/errors.ts";
import { logger } from "../../base/log.ts";
import { Stopper } from "../../base/stop_signal.ts";
import { turnByTurn, type Turns } from "../../base/turns.ts";
import type { IncomingResponse, OutgoingRequest, Transport } from "../../base/transport.ts";
import { Watchdog } from "../../base/watchdog.ts";
import type { ModelConfig } from "../../cfgs/schema/config.ts";
import { type CalledWorker, LEFT, type Read, type ReadFilter, type UpstreamCall } from "./upstream_call.ts";
import { workerUrl } from "./worker_access.ts";
import { connectionError, overdue } from "./worker_errors.ts";

/** Longest wait for a worker to confirm an abort before its connection is closed all the same. */
const ABORT_ANSWER_MS = 2_000;
/** Longest wait for an aborted answer to end by itself, which leaves its connection to the next request. */
const ABORT_EFFECT_MS = 300;
/** Abort requests of one batch that are sent at a time. */
const ABORTS_AT_ONCE = 16;
/** A complete answer whose body ends this soon leaves its connection to the next request. */
const TRAILER_MS = 1_000;

const log = logger("worker");

/** The words in which a call reports its failures. */
export interface CallErrors {
  /** The error of a connection that broke or could not be made. */
  readonly broken: (worker: CalledWorker, cause: unknown) => unknown;
  /** The error of a worker that was silent for `limitMs`, before its first token or (`begun`) after it. */
  readonly overdue: (worker: CalledWorker, limitMs: number, begun: boolean) => unknown;
}

/** One request to one worker. */
export interface WorkerCallOptions {
  readonly transport: Transport;
  readonly clock: Clock;
  readonly config: Pick<ModelConfig, "connect_timeout_ms" | "first_token_timeout_ms" | "idle_timeout_ms">;
  readonly worker: CalledWorker;
  readonly request: OutgoingRequest;
  /** The request's body, where it is long to write. */
  readonly writing?: Turns<Uint8Array> | undefined;
  /**
   * Ids under which SGLang knows the request, to be aborted before the connection is closed, and the worker's own
   * headers for that; absent where closing is what stops the engine.
   */
  readonly abort?:
    | { readonly rids: readonly string[]; readonly headers: Readonly<Record<string, string>> }
    | undefined;
  /** Due time of the first token (clock time), for one limit over several calls. */
  readonly firstTokenDueMs?: number | undefined;
  /** `EngineError`s by default. */
  readonly errors?: CallErrors | undefined;
}

const engineErrors: CallErrors = {
  broken: connectionError,
  overdue,
};

const ENDED: IteratorReturnResult<void> = { done: true, value: undefined };
/** Of a call whose connection is nobody's business any more. */
const CLOSED = Promise.resolve();

const fail = (error: unknown): never => {
  throw error;
};
const UNFILTERED: ReadFilter<Read> = { take: (read) => read, fail };
/** Of a call that is stopped while it opens. */
const THROWN: Pick<ReadFilter<never>, "fail"> = { fail };

function taken<T>(filter: ReadFilter<T>, read: Read): Promise<T> {
  try {
    return Promise.resolve(filter.take(read));
  } catch (error) {
    return Promise.reject(error);
  }
}

/**
 * A request on its way to one worker and its answer on the way back. SGLang 0.5.18 forgets a request whose connection
 * has gone but decodes it to its end, so a stop has its abort confirmed before it closes the connection.
 */
export class WorkerCall implements UpstreamCall {
  readonly half = undefined;
  readonly worker: CalledWorker;
  readonly #transport: Transport;
  readonly #clock: Clock;
  readonly #config: WorkerCallOptions["config"];
  readonly #abort: WorkerCallOptions["abort"];
  readonly #firstTokenDueMs: number | undefined;
  readonly #errors: CallErrors;
  /** Without its body once that was answered: prompts are long, and answers last. */
  #request: OutgoingRequest;
  #writing: Turns<Uint8Array> | undefined;
  readonly #connection = new Stopper();
  readonly #watchdog: Watchdog;
  #body: AsyncIterator<Uint8Array> | undefined;
  #sending: Promise<IncomingResponse> | undefined;
  /** The first chunk, or the end of an empty answer; undefined once it was taken. */
  #first: Read | undefined;
  /** The latest read, the first one included. */
  #reading: Promise<Read> | undefined;
  #filter: ReadFilter<unknown> = UNFILTERED;
  /** Made for the first read: a whole answer needs none. */
  #taken: ReadFilter<unknown> | undefined;
  #begun = false;
  #dueMs = 0;
  #complete = false;
  /** The body has ended or broken: nothing is left to read or to stop. */
  #ended = false;
  #sawBytes = false;
  #stopped: { readonly reason: unknown; readonly closed: Promise<void> } | undefined;

  constructor(options: WorkerCallOptions) {
    this.worker = options.worker;
    this.#transport = options.transport;
    this.#clock = options.clock;
    this.#config = options.config;
    this.#abort = options.abort;
    this.#firstTokenDueMs = options.firstTokenDueMs;
    this.#errors = options.errors ?? engineErrors;
    this.#request = options.request;
    this.#writing = options.writing;
    this.#watchdog = new Watchdog(options.clock, this);
  }

  /** The worker was silent for too long. */
  onLate(): void {
    void this.stop(this.#overdue());
  }

  /** Not `async`, as `read` is not. */
  open(body?: string): Promise<IncomingResponse> {
    const writing = this.#writing;
    if (writing !== undefined) return this.#write(writing).then(() => this.open(body));
    if (this.#stopped !== undefined) return this.#rejected(THROWN);
    const request = this.#request;
    this.#ended = this.#complete = this.#sawBytes = false;
    this.#first = undefined;
    this.#dueMs = this.#firstTokenDueMs ?? this.#clock.now() + this.#config.first_token_timeout_ms;
    this.#watchdog.arm(this.#dueMs);
    this.#sending = this.#transport.send(
      body === undefined ? request : { ...request, body },
      this.#connection,
    );
    return this.#sending.then(this.#onHead, this.#onBreak);
  }

  readonly #onHead = (response: IncomingResponse): IncomingResponse | Promise<IncomingResponse> => {
    this.#request = { ...this.#request, body: undefined };
    const whole = response.takeWhole?.();
    if (whole === undefined) {
      this.#body = response.body[Symbol.asyncIterator]();
      this.#reading = this.#nextFilled(this.#body);
      return this.#reading.then((read) => this.#onFirst(response, read), this.#onBreak);
    }
    this.#sawBytes = whole.length > 0;
    this.#end();
    return this.#onFirst(response, whole.length > 0 ? { done: false, value: whole } : ENDED);
  };

  #onFirst(response: IncomingResponse, first: Read): IncomingResponse | Promise<IncomingResponse> {
    this.#watchdog.disarm();
    if (this.#stopped !== undefined) return this.#rejected(THROWN);
    if (first.done === true) this.#end();
    this.#first = first;
    return response;
  }

  readonly #onBreak = async (cause: unknown): Promise<never> => {
    this.#watchdog.disarm();
    throw await this.#failure(cause);
  };

  async #write(writing: Turns<Uint8Array>): Promise<void> {
    this.#writing = undefined;
    try {
      const body = await turnByTurn(this.#clock, writing, this.#connection);
      this.#request = { ...this.#request, body };
    } catch (error) {
      if (this.#stopped === undefined) throw error;
    }
  }

  get first(): Uint8Array | undefined {
    return this.#first?.value ?? undefined;
  }

  get whole(): boolean {
    return this.#ended && this.#first?.done === false;
  }

  next(): Promise<Read> {
    return this.read(UNFILTERED);
  }

  /** Not `async`: there is one for every chunk, and each promise between a socket and its client is paid for. */
  read<T>(filter: ReadFilter<T>): Promise<T> {
    if (this.#stopped !== undefined) return this.#rejected(filter);
    const first = this.#first;
    if (first !== undefined) {
      this.#first = undefined;
      return taken(filter, first);
    }
    if (this.#body === undefined || this.#ended) return taken(filter, ENDED);
    return this.#watched(this.#reading = this.#body.next(), filter);
  }

  async return(): Promise<Read> {
    await this.stop(LEFT);
    return ENDED;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  gotToken(): void {
    this.#begun = true;
  }

  complete(): void {
    this.#complete = true;
  }

  stop(reason: unknown): Promise<void> {
    this.#stopped ??= { reason, closed: this.#ended ? CLOSED : this.#abortThenClose(reason) };
    return this.#stopped.closed;
  }

  drop(): Promise<void> {
    if (this.#stopped !== undefined) return this.#stopped.closed;
    this.#stopped = { reason: LEFT, closed: CLOSED };
    this.#closeConnection(LEFT);
    return CLOSED;
  }

  close(): Promise<void> {
    const lasts = this.#complete && !this.#ended && this.#stopped === undefined;
    return lasts ? this.#drained(TRAILER_MS).then(() => this.drop()) : this.stop(LEFT);
  }

  #watched<T>(read: Promise<Read>, filter: ReadFilter<T>): Promise<T> {
    // A field, because a closure for every chunk costs more.
    this.#filter = filter;
    this.#watchdog.arm(this.#begun ? this.#clock.now() + this.#config.idle_timeout_ms : this.#dueMs);
    this.#taken ??= { take: (read) => this.#take(read), fail: (cause) => this.#fail(cause) };
    return read.then(this.#taken.take, this.#taken.fail) as Promise<T>;
  }

  #take(read: Read): unknown {
    this.#watchdog.disarm();
    if (this.#stopped !== undefined) return this.#rejected(this.#filter);
    if (read.done === true) this.#end();
    return this.#filter.take(read);
  }

  async #fail(cause: unknown): Promise<unknown> {
    this.#watchdog.disarm();
    return this.#filter.fail(await this.#failure(cause));
  }

  /** The first chunk with something in it. */
  #nextFilled(body: AsyncIterator<Uint8Array>): Promise<Read> {
    return body.next().then((read) => {
      if (read.done === true) return ENDED;
      // Closed meanwhile: nobody asks any more.
      if (read.value.length === 0) return this.#body === undefined ? ENDED : this.#nextFilled(body);
      this.#sawBytes = true;
      return read;
    });
  }

  #end(): void {
    this.#ended = true;
    this.#watchdog.stop();
  }

  /** The error to throw for a broken connection: the reason of the stop that broke it, if there was one. */
  async #failure(cause: unknown): Promise<unknown> {
    if (this.#stopped !== undefined) return await this.#stopReason();
    this.#end();
    return this.#errors.broken(this.worker, cause);
  }

  async #rejected<T>(filter: Pick<ReadFilter<T>, "fail">): Promise<T> {
    return filter.fail(await this.#stopReason());
  }

  async #stopReason(): Promise<unknown> {
    await this.#stopped?.closed;
    return this.#stopped?.reason;
  }

  #overdue(): unknown {
    const config = this.#config;
    const limitMs = this.#begun ? config.idle_timeout_ms : config.first_token_timeout_ms;
    return this.#errors.overdue(this.worker, limitMs, this.#begun);
  }

  async #abortThenClose(reason: unknown): Promise<void> {
    this.#watchdog.stop();
    const rids = this.#abort?.rids ?? [];
    if (this.#sending !== undefined && !this.#ended && !this.#complete && rids.length > 0) {
      const unanswered = !this.#sawBytes;
      await this.#sendAborts(rids);
      // Without a byte of the answer, the abort may have overtaken the request on its way: then it is repeated.
      if (!await this.#drained(ABORT_EFFECT_MS) && unanswered) await this.#sendAborts(rids);
    }
    this.#closeConnection(reason);
  }

  #closeConnection(reason: unknown): void {
    if (this.#ended) return;
    this.#end();
    this.#connection.abort(reason);
    const body = this.#body;
    this.#body = undefined;
    // The signal closes the connection; this lets a generator run its own clean-up.
    body?.return?.().then(() => {}, () => {});
  }

  /** Reads the body to its end and forgets it; false when that takes longer than `limitMs`. */
  async #drained(limitMs: number): Promise<boolean> {
    let cancel = () => {};
    const late = new Promise<boolean>((resolve) => {
      cancel = this.#clock.timer(limitMs, () => resolve(false));
    });
    const drained = await Promise.race([this.#readToEnd().then(() => true, () => true), late]);
    cancel();
    return drained;
  }

  async #readToEnd(): Promise<void> {
    await this.#sending;
    let read = await this.#reading;
    const body = this.#body;
    while (body !== undefined && read?.done !== true) read = await body.next();
  }

  async #sendAborts(rids: readonly string[]): Promise<void> {
    const late = new Error(`it was not confirmed within ${ABORT_ANSWER_MS} ms`);
    const deadline = deadlineSignal(this.#clock, ABORT_ANSWER_MS, late);
    try {
      for (let i = 0; i < rids.length; i += ABORTS_AT_ONCE) {
        await Promise.all(
          rids.slice(i, i + ABORTS_AT_ONCE).map((rid) => this.#sendAbort(rid, deadline.signal)),
        );
      }
    } catch (error) {
      // An engine that cannot be told has gone, or will see the connection close.
      log.warning("{worker} was asked to abort {rid}: {error}", {
        worker: this.worker.url,
        rid: rids[0],
        error: messageOf(error),
      });
    } finally {
      deadline.release();
    }
  }

  async #sendAbort(rid: string, signal: AbortSignal): Promise<void> {
    const response = await this.#transport.send({
      method: "POST",
      url: workerUrl(this.worker.url, "/abort_request"),
      lane: "control",
      headers: { ...this.#abort?.headers, "content-type": "application/json", "accept-encoding": "identity" },
      body: JSON.stringify({ rid }),
      connectTimeoutMs: this.#config.connect_timeout_ms,
    }, signal);
    // Read to the end, so that the connection can be used again.
    for await (const _chunk of response.body);
  }
}
