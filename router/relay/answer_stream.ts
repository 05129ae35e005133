import type { CanopyError } from "../../base/errors.ts";
import type { ModelRename } from "./model_rename.ts";
import type { RelayCall } from "./upstream_call.ts";
import { EventFrames, isEmptyTextEvent, isErrorEvent } from "../wire/event_frames.ts";
import type { PlacementOutcome } from "../worker/placement.ts";

const encoder = new TextEncoder();

/** An answer that is passed on while it arrives. */
export interface AnswerStreamOptions {
  readonly call: RelayCall;
  /** Chunks already read, the call's first one among them. */
  readonly read: readonly Uint8Array[];
  /** Set for server-sent events. */
  readonly events?: {
    /** A stream of this path is whole only with a last event `[DONE]`. */
    readonly endsWithDone: boolean;
    readonly rename: ModelRename | undefined;
  };
  /** The client has gone. */
  readonly signal: AbortSignal;
  /** Makes the error that a client sees for a broken answer. */
  readonly describe: (error: unknown) => CanopyError;
  /** Called exactly once. */
  readonly onEnd: (outcome: PlacementOutcome) => void;
}

/**
 * The body of an answer: reads from the worker only when the client reads (one chunk ahead at most), so a slow
 * client slows its own worker and costs no memory.
 */
export function answerStream(options: AnswerStreamOptions): ReadableStream<Uint8Array> {
  const answer = new AnswerSource(options);
  return new ReadableStream<Uint8Array>(answer, { highWaterMark: 0 });
}

class AnswerSource implements UnderlyingDefaultSource<Uint8Array> {
  readonly #options: AnswerStreamOptions;
  readonly #frames: EventFrames | undefined;
  readonly #queue: Uint8Array[];
  #controller: ReadableStreamDefaultController<Uint8Array> | undefined;
  #ended = false;
  readonly #onAbort = () => void this.#leave(this.#options.signal.reason);

  constructor(options: AnswerStreamOptions) {
    this.#options = options;
    this.#frames = options.events === undefined ? undefined : new EventFrames();
    this.#queue = [...options.read];
  }

  start(controller: ReadableStreamDefaultController<Uint8Array>): void {
    this.#controller = controller;
    this.#options.signal.addEventListener("abort", this.#onAbort, { once: true });
    if (this.#options.signal.aborted) this.#onAbort();
  }

  async pull(controller: ReadableStreamDefaultController<Uint8Array>): Promise<void> {
    try {
      while (!this.#ended) {
        const chunk = this.#queue.shift() ?? await this.#options.call.read();
        if (this.#ended) return;
        if (chunk === undefined) return this.#finish(controller);
        const bytes = this.#pass(chunk);
        if (bytes.length > 0) return controller.enqueue(bytes);
      }
    } catch (error) {
      if (!this.#ended) this.#break(controller, error);
    }
  }

  async cancel(reason: unknown): Promise<void> {
    if (this.#ended) return;
    await this.#abandon(reason ?? new Error("The client has gone"));
  }

  #pass(chunk: Uint8Array): Uint8Array {
    if (this.#frames === undefined) return chunk;
    const events = this.#frames.push(chunk);
    const rename = this.#options.events?.rename;
    return rename === undefined || events.length === 0 ? events : rename.events(events);
  }

  #finish(controller: ReadableStreamDefaultController<Uint8Array>): void {
    const frames = this.#frames;
    if (frames !== undefined) {
      if (this.#options.events?.endsWithDone === true && !frames.done) {
        return this.#break(controller, new Error("the stream ended without [DONE]"));
      }
      const rest = frames.rest();
      if (rest.length > 0) controller.enqueue(this.#options.events?.rename?.events(rest) ?? rest);
    }
    this.#end(frames?.sawError === true ? "failed" : "ok");
    controller.close();
  }

  #break(controller: ReadableStreamDefaultController<Uint8Array>, error: unknown): void {
    const frames = this.#frames;
    if (frames?.done === true) {
      // Everything had come; only the end of the connection was not as it should be.
      const rest = frames.rest();
      if (rest.length > 0) controller.enqueue(rest);
      this.#end("ok");
      controller.close();
      return;
    }
    const described = this.#options.describe(error);
    this.#options.call.close();
    this.#end("failed");
    if (frames === undefined) return controller.error(described);
    controller.enqueue(encoder.encode((frames.torn ? "\n\n" : "") + errorEvent(described)));
    controller.close();
  }

  /** The client's signal, which may come while nobody reads. */
  async #leave(reason: unknown): Promise<void> {
    if (this.#ended) return;
    await this.#abandon(reason);
    this.#controller?.error(reason);
  }

  /** The worker counts as busy until it was told. */
  async #abandon(reason: unknown): Promise<void> {
    this.#ended = true;
    await this.#options.call.stop(reason);
    this.#end("aborted");
  }

  #end(outcome: PlacementOutcome): void {
    this.#ended = true;
    this.#options.signal.removeEventListener("abort", this.#onAbort);
    this.#options.onEnd(outcome);
  }
}

/** The body of an error answer, in OpenAI's form. */
export function failureBody(error: CanopyError): string {
  const { message, type, code } = error;
  return JSON.stringify({ error: { message, type, param: error.param ?? null, code } });
}

/**
 * The status inside a first event that is an error. SGLang and vLLM send such events under HTTP 200; SGLang's
 * `/generate` also says that it gave a request up by an event of the ordinary form, whose status is then not 0.
 */
export function errorEventStatus(events: Uint8Array | undefined): number | undefined {
  if (events === undefined) return undefined;
  const isError = isErrorEvent(events);
  if (!isError && !isEmptyTextEvent(events)) return undefined;
  const end = events.indexOf(0x0a);
  let event: unknown;
  try {
    event = JSON.parse(new TextDecoder().decode(events.subarray(5, end < 0 ? undefined : end)));
  } catch {
    return undefined;
  }
  if (isError) {
    const code = member(member(event, "error"), "code");
    return typeof code === "number" ? code : 500;
  }
  const finish = member(member(event, "meta_info"), "finish_reason");
  const status = member(finish, "status_code");
  return member(finish, "type") === "abort" && typeof status === "number" ? status : undefined;
}

function errorEvent(error: CanopyError): string {
  return `data: ${failureBody(error)}\n\n`;
}

function member(value: unknown, name: string): unknown {
  return typeof value === "object" && value !== null ? Reflect.get(value, name) : undefined;
}
