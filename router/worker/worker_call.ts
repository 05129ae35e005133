import { type Clock, deadlineSignal } from "../../base/clock.ts";
import type { JsonObject } from "../../base/json.ts";
import type { IncomingResponse, Transport } from "../../base/transport.ts";
import { Watchdog } from "../../base/watchdog.ts";
import type { ModelConfig } from "../../cfgs/schema/config.ts";
import { EngineError } from "./engine_error.ts";
import { connectionError, workerRefusal } from "./worker_errors.ts";

/** Longest part of a worker's error body that is read. */
const MAX_ERROR_BYTES = 64 * 1024;
/** After the last event the connection may be used again if the body ends this soon. */
const TRAILER_MS = 1_000;
/** Longest wait for an answer to an abort. */
const ABORT_ANSWER_MS = 2_000;
/** How long an aborted stream may take to end by itself before it is aborted again, and then closed. */
const ABORT_EFFECT_MS = 300;

/** What it takes to send one request to a worker. */
export interface WorkerCallOptions {
  readonly transport: Transport;
  readonly clock: Clock;
  readonly config: Pick<ModelConfig, "connect_timeout_ms" | "first_token_timeout_ms" | "idle_timeout_ms">;
  readonly workerUrl: string;
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: JsonObject;
  /** The caller's signal. */
  readonly signal: AbortSignal;
  /**
   * Tells the engine to stop, for engines that do not stop when the connection is closed. Called before the
   * connection is closed, and awaited.
   */
  readonly abortOnEngine?: (signal: AbortSignal) => Promise<void>;
}

/** Why a call was left, when nobody gave a reason: the reader of its events went away. */
export const LEFT = new Error("The generation was left by its reader");

/**
 * One request to a worker and the reading of its answer, under the model's time limits.
 * However it ends, `close` leaves nothing running, neither here nor on the engine.
 */
export class WorkerCall {
  readonly #options: WorkerCallOptions;
  readonly #connection = new AbortController();
  readonly #watchdog: Watchdog;
  readonly #onAbort = () => this.leave(this.#options.signal.reason);
  #sending: Promise<IncomingResponse> | undefined;
  #body: AsyncIterator<Uint8Array> | undefined;
  #reading: Promise<IteratorResult<Uint8Array>> | undefined;
  #interrupt: ((reason: unknown) => void) | undefined;
  #stopped: { readonly reason: unknown } | undefined;
  /** Undefined once a token has come. */
  #firstTokenDueMs: number | undefined;
  #closing: Promise<void> | undefined;
  #ended = false;
  #broken = false;
  #complete = false;

  constructor(options: WorkerCallOptions) {
    this.#options = options;
    this.#watchdog = new Watchdog(options.clock, () => this.leave(this.#timeout()));
  }

  /**
   * Sends the request; resolves with the head of a 2xx answer. Throws `EngineError`, or the signal's reason.
   * May be called again, with another body (an object, or JSON), after the worker has refused.
   */
  async open(body: JsonObject | string = this.#options.body): Promise<IncomingResponse> {
    const { transport, url, headers, signal, config, clock, workerUrl } = this.#options;
    signal.throwIfAborted();
    signal.addEventListener("abort", this.#onAbort, { once: true });
    this.#ended = false;
    this.#complete = false;
    this.#firstTokenDueMs = clock.now() + config.first_token_timeout_ms;
    this.#sending = transport.send({
      method: "POST",
      url,
      headers: { ...headers, "content-type": "application/json" },
      body: typeof body === "string" ? body : JSON.stringify(body),
      connectTimeoutMs: config.connect_timeout_ms,
    }, this.#connection.signal);
    this.#sending.catch(() => {});
    const response = await this.#interruptible(this.#sending, (head) => head);
    this.#body = response.body[Symbol.asyncIterator]();
    if (response.status >= 200 && response.status < 300) return response;
    const text = await this.readText(MAX_ERROR_BYTES);
    this.complete();
    if (!this.#ended) await this.#body.return?.(undefined);
    this.#ended = true;
    throw workerRefusal(workerUrl, response.status, text);
  }

  /** The next piece of the body; undefined at its end. Throws `EngineError`, or the reason it was left for. */
  read(): Promise<Uint8Array | undefined> {
    const body = this.#body;
    if (body === undefined || this.#ended) return Promise.resolve(undefined);
    this.#reading = body.next();
    return this.#interruptible(this.#reading, this.#take);
  }

  readonly #take = (result: IteratorResult<Uint8Array>): Uint8Array | undefined => {
    if (result.done !== true) return result.value;
    this.#ended = true;
    return undefined;
  };

  /** The rest of the body as text, cut off after `maxBytes`. */
  async readText(maxBytes: number): Promise<string> {
    const decoder = new TextDecoder();
    let text = "";
    let bytes = 0;
    while (bytes < maxBytes) {
      const chunk = await this.read();
      if (chunk === undefined) break;
      bytes += chunk.length;
      text += decoder.decode(chunk, { stream: true });
    }
    return text + decoder.decode();
  }

  /** Tokens arrive: from now on the limit is on the silence between chunks. */
  gotToken(): void {
    this.#firstTokenDueMs = undefined;
  }

  /** The engine has said its last word: it need not be told to stop. */
  complete(): void {
    this.#complete = true;
  }

  /** Gives the call up: a read in progress rejects with `reason` at once; `close` then tells the engine. */
  leave(reason: unknown): void {
    if (this.#stopped !== undefined) return;
    this.#stopped = { reason };
    // Where closing is what stops the engine, it must not wait for anything.
    if (this.#options.abortOnEngine === undefined && !this.#complete) this.#connection.abort(reason);
    this.#interrupt?.(reason);
  }

  /** Ends the call in the order that its engine needs. Never throws. */
  close(): Promise<void> {
    return this.#closing ??= this.#close();
  }

  async #close(): Promise<void> {
    this.#options.signal.removeEventListener("abort", this.#onAbort);
    this.#watchdog.stop();
    this.#stopped ??= { reason: LEFT };
    if (this.#sending === undefined || this.#ended || this.#broken) return this.#connection.abort(LEFT);
    if (this.#complete) await this.#drained(TRAILER_MS);
    else if (this.#options.abortOnEngine !== undefined) {
      await this.#tellEngine(this.#options.abortOnEngine);
      // The abort may have overtaken the request on its way; then it has to be repeated.
      if (!await this.#drained(ABORT_EFFECT_MS)) await this.#tellEngine(this.#options.abortOnEngine);
      await this.#drained(ABORT_EFFECT_MS);
    }
    this.#connection.abort(LEFT);
    await this.#body?.return?.(undefined);
  }

  async #tellEngine(abortOnEngine: (signal: AbortSignal) => Promise<void>): Promise<void> {
    if (this.#ended) return;
    const { signal, release } = deadlineSignal(this.#options.clock, ABORT_ANSWER_MS, LEFT);
    try {
      await abortOnEngine(signal);
    } catch {
      // An engine that cannot be told has gone, or will see the connection close.
    } finally {
      release();
    }
  }

  /** Reads the body to its end and forgets it; false when that takes longer than `limitMs`. */
  async #drained(limitMs: number): Promise<boolean> {
    if (this.#ended) return true;
    const timer = new AbortController();
    const late = this.#options.clock.sleep(limitMs, timer.signal).then(() => false, () => false);
    const end = this.#readToEnd().then(() => true, () => true);
    const drained = await Promise.race([end, late]);
    timer.abort(LEFT);
    if (drained) this.#ended = true;
    return drained;
  }

  #drain: Promise<void> | undefined;

  #readToEnd(): Promise<void> {
    this.#drain ??= (async () => {
      const body = this.#body ?? (await this.#sending)?.body[Symbol.asyncIterator]();
      this.#body = body;
      let result = await this.#reading;
      while (body !== undefined && result?.done !== true) result = await body.next();
    })();
    this.#drain.catch(() => {});
    return this.#drain;
  }

  /** Waits for `promise`, a time limit, or being left, whichever is first; gives what `take` makes of its value. */
  #interruptible<T, R>(promise: Promise<T>, take: (value: T) => R): Promise<R> {
    if (this.#stopped !== undefined) return Promise.reject(this.#stopped.reason);
    const { config, clock } = this.#options;
    this.#watchdog.arm(this.#firstTokenDueMs ?? clock.now() + config.idle_timeout_ms);
    return new Promise((resolve, reject) => {
      this.#interrupt = reject;
      promise.then((value) => {
        this.#arrived();
        resolve(take(value));
      }, (cause) => {
        this.#arrived();
        if (this.#stopped !== undefined) return reject(this.#stopped.reason);
        this.#broken = true;
        reject(connectionError(this.#options.workerUrl, cause));
      });
    });
  }

  #arrived(): void {
    this.#watchdog.disarm();
    this.#interrupt = undefined;
  }

  #timeout(): EngineError {
    const { config, workerUrl } = this.#options;
    const what = this.#firstTokenDueMs === undefined
      ? `nothing more within ${config.idle_timeout_ms} ms`
      : `no token within ${config.first_token_timeout_ms} ms`;
    return new EngineError(`Worker ${workerUrl} sent ${what}`, {
      code: "worker_timeout",
      status: 502,
      workerUrl,
      retryable: true,
    });
  }
}
