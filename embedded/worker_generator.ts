import { type Clock, deadlineSignal } from "../base/clock.ts";
import { badRequest, CanopyError } from "../base/errors.ts";
import type { Logger } from "../base/log.ts";
import { AsyncQueue } from "../base/queue.ts";
import type { Thread } from "../onnx/thread.ts";
import type {
  Generator,
  GeneratorCounts,
  GeneratorFacts,
  SequenceEvent,
  SequenceRequest,
} from "./generator.ts";
import type { DecoderOptions, FromWorker, ToWorker } from "./worker_messages.ts";
import type { StartDecoder } from "./worker_thread.ts";

/** Waits before the thread is started again, in ms. */
const RESTART_MS = { first: 500, most: 60_000 };
/** Longest wait for the thread when it is closed, in ms. */
const CLOSE_MS = 5_000;

export interface WorkerGeneratorOptions {
  readonly clock: Clock;
  readonly log: Logger;
  readonly start: StartDecoder;
  readonly decoder: DecoderOptions;
  /** Sequences at once, those that wait counted. */
  readonly maxSequences: number;
}

interface Sequence {
  readonly key: number;
  readonly request: SequenceRequest;
  readonly events: AsyncQueue<SequenceEvent>;
}

/** A decoder in a thread of its own. When it crashes, its sequences fail and it is started again. */
export class WorkerGenerator implements Generator {
  readonly #options: WorkerGeneratorOptions;
  readonly #sequences = new Map<number, Sequence>();
  #keys = 0;
  #thread: Thread<ToWorker> | undefined;
  #facts: GeneratorFacts | undefined;
  #counts: GeneratorCounts | undefined;
  /** The thread takes sequences. */
  #isReady = false;
  #crashes = 0;
  /** Why nothing can be generated any more. */
  #failure: CanopyError | undefined;
  readonly #ending = new AbortController();
  #onReady: (failure?: CanopyError) => void = () => {};
  #onClosed = () => {};

  private constructor(options: WorkerGeneratorOptions) {
    this.#options = options;
  }

  /** Loads the model. Throws 500 when it cannot be used (`unsupported_export`, `cache_too_small`, …). */
  static async start(options: WorkerGeneratorOptions): Promise<WorkerGenerator> {
    const generator = new WorkerGenerator(options);
    await new Promise<void>((resolve, reject) => {
      generator.#onReady = (failure) => failure === undefined ? resolve() : reject(failure);
      generator.#start();
    });
    return generator;
  }

  get facts(): GeneratorFacts {
    return this.#facts!;
  }

  counts(): GeneratorCounts {
    const counts = this.#counts!;
    // The thread may not have heard of all yet.
    return { ...counts, waiting: Math.max(0, this.#sequences.size - counts.running) };
  }

  async *generate(request: SequenceRequest, signal: AbortSignal): AsyncIterable<SequenceEvent> {
    signal.throwIfAborted();
    if (this.#failure !== undefined) throw this.#failure;
    this.#check(request);
    const { maxSequences, decoder } = this.#options;
    if (this.#sequences.size >= maxSequences) {
      throw new CanopyError(`${decoder.model} is busy: ${maxSequences} sequences run or wait`, {
        code: "engine_overloaded",
        status: 503,
        retryAfterSeconds: 1,
      });
    }
    const sequence: Sequence = {
      key: this.#keys++,
      request,
      // It holds at most what was asked for: as many tokens, and two events more.
      events: new AsyncQueue(request.maxTokens + 3),
    };
    const onAbort = () => sequence.events.fail(signal.reason);
    signal.addEventListener("abort", onAbort, { once: true });
    this.#sequences.set(sequence.key, sequence);
    this.#thread?.keepAlive(true);
    if (this.#isReady) this.#send(sequence);
    try {
      for (let next = await sequence.events.next(); !next.done; next = await sequence.events.next()) {
        signal.throwIfAborted();
        yield next.value;
      }
    } finally {
      signal.removeEventListener("abort", onAbort);
      // Unless it has come to its end.
      if (this.#forget(sequence.key)) this.#thread?.post({ kind: "abort", key: sequence.key });
    }
  }

  async close(): Promise<void> {
    if (this.#ending.signal.aborted) return;
    this.#ending.abort();
    const { clock, decoder } = this.#options;
    const thread = this.#thread;
    this.#failure ??= new CanopyError(`${decoder.model} is closed`, { code: "engine_closed", status: 503 });
    for (const key of this.#sequences.keys()) thread?.post({ kind: "abort", key });
    this.#fail(this.#failure);
    if (thread === undefined) return;
    // What it runs cannot be broken off; ended between two steps, it leaves nothing behind.
    const deadline = deadlineSignal(clock, CLOSE_MS, undefined);
    await new Promise<void>((resolve) => {
      this.#onClosed = resolve;
      deadline.signal.addEventListener("abort", () => resolve());
      thread.post({ kind: "close" });
    });
    deadline.release();
    thread.terminate();
  }

  /** The process waits for the thread while somebody waits for an answer. */
  #forget(key: number): boolean {
    const found = this.#sequences.delete(key);
    if (this.#sequences.size === 0) this.#thread?.keepAlive(false);
    return found;
  }

  #check({ promptIds, maxTokens }: SequenceRequest): void {
    const { maxContextTokens, vocabSize } = this.facts;
    if (promptIds.length === 0) throw badRequest("prompt", "The prompt is empty: give at least one token");
    const wrong = promptIds.find((id) => !Number.isInteger(id) || id < 0 || id >= vocabSize);
    if (wrong !== undefined) {
      throw badRequest("prompt", `Token ids must be from 0 to ${vocabSize - 1}: one is ${wrong}`);
    }
    if (promptIds.length + Math.min(maxTokens, 1) > maxContextTokens) {
      throw badRequest(
        "prompt",
        `The prompt has ${promptIds.length} tokens; prompt and answer may have ${maxContextTokens}`,
      );
    }
  }

  #send({ key, request }: Sequence): void {
    this.#thread?.post({ kind: "generate", key, request });
  }

  #start(): void {
    const { start, decoder, log } = this.#options;
    this.#thread = start(decoder, {
      message: (message) => this.#take(message),
      crash: (reason) => {
        log.error("The thread of {model} crashed: {reason}", { model: decoder.model, reason });
        void this.#restart(`The thread of ${decoder.model} crashed: ${reason}`);
      },
    });
    this.#thread.keepAlive(true);
  }

  #take(message: FromWorker): void {
    switch (message.kind) {
      case "ready":
        this.#facts = message.facts;
        this.#counts = message.counts;
        this.#isReady = true;
        for (const sequence of this.#sequences.values()) this.#send(sequence);
        this.#thread?.keepAlive(this.#sequences.size > 0);
        return this.#onReady();
      case "failed": {
        this.#failure = new CanopyError(message.reason, { code: message.code, status: 500 });
        this.#thread?.terminate();
        this.#thread = undefined;
        this.#fail(this.#failure);
        return this.#onReady(this.#failure);
      }
      case "news":
        this.#crashes = 0;
        this.#counts = message.counts;
        return this.#tell(message);
      case "closed":
        return this.#onClosed();
    }
  }

  #tell({ key, events }: Extract<FromWorker, { kind: "news" }>): void {
    const sequence = this.#sequences.get(key);
    if (sequence === undefined) return;
    for (const event of events) {
      if (event.type === "failed") {
        this.#forget(key);
        sequence.events.fail(new CanopyError(event.reason, { code: "model_failed", status: 502 }));
        continue;
      }
      sequence.events.tryPush(event);
      if (event.type !== "end") continue;
      this.#forget(key);
      sequence.events.close();
    }
  }

  async #restart(reason: string): Promise<void> {
    this.#thread = undefined;
    this.#isReady = false;
    this.#onClosed();
    this.#fail(new CanopyError(reason, { code: "engine_crashed", status: 502 }));
    if (this.#facts === undefined) {
      return this.#onReady(new CanopyError(reason, { code: "engine_crashed", status: 500 }));
    }
    const waitMs = Math.min(RESTART_MS.most, RESTART_MS.first * 2 ** this.#crashes++);
    try {
      await this.#options.clock.sleep(waitMs, this.#ending.signal);
    } catch {
      return;
    }
    this.#start();
  }

  #fail(error: CanopyError): void {
    for (const { events } of this.#sequences.values()) events.fail(error);
    this.#sequences.clear();
  }
}
