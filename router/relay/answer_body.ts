import { joined } from "../../base/bytes.ts";
import type { StopSignal } from "../../base/stop_signal.ts";
import type { CanopyError } from "../../base/errors.ts";
import type { AnswerRewrite } from "./answer_rewrite.ts";
import type { AnswerBytes } from "./relay_types.ts";
import { EventFrames } from "../wire/event_frames.ts";
import type { Read, ReadFilter, UpstreamCall } from "../worker/upstream_call.ts";
import type { PlacementOutcome } from "../worker/placement.ts";

const encoder = new TextEncoder();

const ENDED: IteratorReturnResult<void> = { done: true, value: undefined };

/** An answer that is passed on while it arrives. */
export interface AnswerBodyOptions {
  /** An open call. */
  readonly call: UpstreamCall;
  /** Chunks that were taken from the call. */
  readonly read: readonly Uint8Array[];
  /** Set for server-sent events. */
  readonly events: {
    /** A stream of this path is whole only with a last event `[DONE]`. */
    readonly endsWithDone: boolean;
    readonly rewrite: AnswerRewrite | undefined;
  } | undefined;
  /** The client has gone. */
  readonly signal: StopSignal;
  readonly owner: AnswerOwner;
}

/** Whose answer it is: an object, as functions keep all that is near where they are made. */
export interface AnswerOwner {
  /** Makes an error event of the worker's fit for the client. */
  clean(events: Uint8Array): Uint8Array;
  /** Makes the error that a client sees for a broken answer. */
  describe(error: unknown): CanopyError;
  /** Makes of it the last event of a stream. */
  event(error: CanopyError): Uint8Array;
  /** Called with the events at the end of a whole stream. */
  onLast(events: Uint8Array): void;
  /** Called exactly once. */
  onEnd(outcome: PlacementOutcome): void;
}

/**
 * The body of an answer: reads from the worker only when it is read itself, so a slow client slows its own worker and
 * costs no memory. Events are passed on whole; a stream of them that breaks ends with one error event.
 */
export class AnswerBody implements AnswerBytes, ReadFilter<Read> {
  readonly #options: AnswerBodyOptions;
  readonly #call: UpstreamCall;
  readonly #frames: EventFrames | undefined;
  readonly #read: Uint8Array[];
  #onward: Onward | undefined;
  #ended = false;
  #left: { readonly reason: unknown; readonly told: Promise<void> } | undefined;
  readonly #onAbort = () => void this.#leave(this.#options.signal.reason);

  constructor(options: AnswerBodyOptions) {
    this.#options = options;
    this.#call = options.call;
    this.#frames = options.events === undefined ? undefined : new EventFrames();
    this.#read = [...options.read];
    options.signal.addEventListener("abort", this.#onAbort, { once: true });
    if (options.signal.aborted) this.#onAbort();
  }

  /** Not `async`, as `WorkerCall.next` is not. */
  next(): Promise<Read> {
    if (this.#left !== undefined) return Promise.reject(this.#left.reason);
    if (this.#ended) return Promise.resolve(ENDED);
    const value = this.#read.shift();
    if (value !== undefined) return Promise.resolve(this.take({ done: false, value }));
    return this.#call.read(this);
  }

  pass(take: (read: Read) => void, fail: (error: unknown) => void): Promise<void> {
    if (this.#left !== undefined || this.#ended || this.#read.length > 0) return this.next().then(take, fail);
    this.#onward ??= new Onward(this, take, fail);
    return this.#call.read(this.#onward);
  }

  async return(): Promise<Read> {
    if (!this.#ended || this.#left !== undefined) await this.#leave(new Error("The client has gone"));
    return ENDED;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  take(read: Read): Read | Promise<Read> {
    if (this.#left !== undefined) throw this.#left.reason;
    if (read.done === true) return this.#finish();
    const frames = this.#frames;
    if (frames === undefined) return read;
    const hadError = frames.sawError;
    let events = frames.push(read.value);
    if (events.length === 0) return this.next();
    if (frames.sawError && !hadError) events = this.#options.owner.clean(events);
    const rewrite = this.#options.events?.rewrite;
    if (rewrite !== undefined) {
      const value = rewrite.events(events);
      return value.length === 0 ? this.next() : { done: false, value };
    }
    return events === read.value ? read : { done: false, value: events };
  }

  #finish(): Read {
    const frames = this.#frames;
    if (frames !== undefined && this.#options.events?.endsWithDone === true && !frames.done) {
      return this.fail(new Error("the stream ended without [DONE]"));
    }
    if (frames !== undefined) this.#options.owner.onLast(frames.last);
    const rest = frames?.rest();
    this.#end(frames?.sawError === true ? "failed" : "ok");
    if (rest === undefined || rest.length === 0) return ENDED;
    return { done: false, value: this.#options.events?.rewrite?.events(rest) ?? rest };
  }

  fail(error: unknown): Read {
    if (this.#left !== undefined) throw this.#left.reason;
    const frames = this.#frames;
    if (frames?.done === true) {
      // Everything had come; only the end of the connection was not as it should be.
      const rest = frames.rest();
      this.#end("ok");
      return rest.length > 0 ? { done: false, value: rest } : ENDED;
    }
    const described = this.#options.owner.describe(error);
    void this.#call.drop();
    this.#end("failed");
    if (frames === undefined) throw described;
    const event = this.#options.owner.event(described);
    return { done: false, value: frames.torn ? joined([encoder.encode("\n\n"), event]) : event };
  }

  /** Stops the worker; it counts as busy until it was told. */
  #leave(reason: unknown): Promise<void> {
    if (this.#left === undefined && this.#ended) return Promise.resolve();
    this.#left ??= { reason, told: this.#call.stop(reason).then(() => this.#end("aborted")) };
    return this.#left.told;
  }

  #end(outcome: PlacementOutcome): void {
    this.#ended = true;
    this.#options.signal.removeEventListener("abort", this.#onAbort);
    if (outcome === "ok") this.#call.complete();
    void this.#call.close();
    this.#options.owner.onEnd(outcome);
  }
}

/** Hands what an answer's body makes of a chunk on at once, without a promise between the two. */
class Onward implements ReadFilter<void> {
  readonly #body: ReadFilter<Read>;
  readonly #take: (read: Read) => void;
  readonly #fail: (error: unknown) => void;

  constructor(body: ReadFilter<Read>, take: (read: Read) => void, fail: (error: unknown) => void) {
    this.#body = body;
    this.#take = take;
    this.#fail = fail;
  }

  take(read: Read): void | Promise<void> {
    let passed: Read | Promise<Read>;
    try {
      passed = this.#body.take(read);
    } catch (error) {
      return this.#fail(error);
    }
    return passed instanceof Promise ? passed.then(this.#take, this.#fail) : this.#take(passed);
  }

  async fail(error: unknown): Promise<void> {
    try {
      this.#take(await this.#body.fail(error));
    } catch (cause) {
      this.#fail(cause);
    }
  }
}
