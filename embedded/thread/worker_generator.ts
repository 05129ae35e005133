import type { Clock } from "../../base/clock.ts";
import { badRequest, CanopyError } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import { AsyncQueue } from "../../base/queue.ts";
import type {
  Generator,
  GeneratorCounts,
  GeneratorFacts,
  SequenceEvent,
  SequenceRequest,
} from "../scheduler/generator.ts";
import type { Precedence, PrecedenceMember } from "../scheduler/precedence.ts";
import type { DecoderOptions, FromDecoder, StartDecoder, ToDecoder } from "./worker_thread.ts";
import { wrongNumbers } from "../../ml/onnx/check_numbers.ts";
import { ModelThread } from "../../ml/onnx/model_thread.ts";

/** Options of `WorkerGenerator.start`. */
export interface WorkerGeneratorOptions {
  readonly clock: Clock;
  readonly log: Logger;
  readonly start: StartDecoder;
  readonly decoder: DecoderOptions;
  /** Most sequences at once, waiting ones included. */
  readonly maxSequences: number;
  /** Of all models that share the machine; absent: there is no other. */
  readonly precedence?: Precedence | undefined;
}

interface Sequence {
  readonly key: number;
  readonly request: SequenceRequest;
  readonly events: AsyncQueue<SequenceEvent>;
  /** As others are told of it. */
  priority: number;
  /** Tokens after which it has priority 0. */
  priorityTokens: number;
}

/** A decoder in a thread of its own. When it crashes, its sequences fail and it is started again. */
export class WorkerGenerator implements Generator {
  readonly #options: WorkerGeneratorOptions;
  readonly #sequences = new Map<number, Sequence>();
  #keys = 0;
  readonly #thread: ModelThread<ToDecoder, FromDecoder>;
  readonly #precedence: PrecedenceMember | undefined;
  /** The most urgent priority of other models. */
  #limit: number | undefined;
  #facts: GeneratorFacts | undefined;
  #counts: GeneratorCounts | undefined;
  /** The thread takes sequences. */
  #isReady = false;
  /** Set when nothing can be generated any more. */
  #failure: CanopyError | undefined;
  #onReady: (failure?: CanopyError) => void = () => {};

  private constructor(options: WorkerGeneratorOptions) {
    this.#options = options;
    const { clock, log, start, decoder, precedence } = options;
    this.#precedence = precedence?.join((limit) => {
      this.#limit = limit;
      if (this.#isReady) this.#thread.post({ kind: "yield", to: limit });
    });
    this.#thread = new ModelThread({
      clock,
      log,
      name: decoder.model,
      start: (events) => {
        const thread = start(decoder, events);
        // Until it is known whether a sequence waits for it.
        thread.keepAlive(true);
        return thread;
      },
      message: (message) => this.#take(message),
      crash: (reason) => this.#crashed(reason),
    });
  }

  /** Loads the model. Throws 500 when it cannot be used (`unsupported_export`, `cache_too_small`, …). */
  static async start(options: WorkerGeneratorOptions): Promise<WorkerGenerator> {
    const generator = new WorkerGenerator(options);
    await new Promise<void>((resolve, reject) => {
      generator.#onReady = (failure) => failure === undefined ? resolve() : reject(failure);
      generator.#thread.start();
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
      priority: request.priority ?? 0,
      priorityTokens: request.priorityTokens ?? Infinity,
    };
    const onAbort = () => sequence.events.fail(signal.reason);
    signal.addEventListener("abort", onAbort, { once: true });
    this.#sequences.set(sequence.key, sequence);
    this.#precedence?.add(sequence.priority);
    this.#thread.keepAlive(true);
    if (this.#isReady) this.#send(sequence);
    try {
      for (let next = await sequence.events.next(); !next.done; next = await sequence.events.next()) {
        signal.throwIfAborted();
        yield next.value;
      }
    } finally {
      signal.removeEventListener("abort", onAbort);
      // Unless it has come to its end.
      if (this.#forget(sequence.key)) this.#thread.post({ kind: "abort", key: sequence.key });
    }
  }

  async close(): Promise<void> {
    if (this.#thread.isClosing) return;
    const { model } = this.#options.decoder;
    this.#failure ??= new CanopyError(`${model} is closed`, { code: "engine_closed", status: 503 });
    for (const key of this.#sequences.keys()) this.#thread.post({ kind: "abort", key });
    this.#fail(this.#failure);
    await this.#thread.close();
  }

  /** Drops a sequence; without any, the process no longer waits for the thread. */
  #forget(key: number): boolean {
    const found = this.#sequences.get(key);
    if (found === undefined) return false;
    this.#sequences.delete(key);
    this.#precedence?.remove(found.priority);
    if (this.#sequences.size === 0) this.#thread.keepAlive(false);
    return true;
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
    this.#thread.post({ kind: "generate", key, request });
  }

  #take(message: FromDecoder): void {
    switch (message.kind) {
      case "ready": {
        const { facts } = message;
        const level = facts.fallbacks.length > 0 ? "warn" : "info";
        this.#options.log[level]("{model} is ready: {facts}", { model: facts.model, facts });
        const wrong = facts.check && wrongNumbers(facts.file, facts.check, "its onnx.file");
        if (wrong !== undefined) this.#options.log.warn("{model}: {wrong}", { model: facts.model, wrong });
        this.#facts = facts;
        this.#counts = message.counts;
        this.#isReady = true;
        if (this.#limit !== undefined) this.#thread.post({ kind: "yield", to: this.#limit });
        for (const sequence of this.#sequences.values()) this.#send(sequence);
        this.#thread.keepAlive(this.#sequences.size > 0);
        return this.#onReady();
      }
      case "failed": {
        this.#failure = new CanopyError(message.reason, { code: message.code, status: 500 });
        this.#thread.terminate();
        this.#fail(this.#failure);
        return this.#onReady(this.#failure);
      }
      case "news":
        this.#thread.works();
        this.#counts = message.counts;
        return this.#tell(message);
      case "closed":
        return this.#thread.hasClosed();
    }
  }

  #tell({ key, events }: Extract<FromDecoder, { kind: "news" }>): void {
    const sequence = this.#sequences.get(key);
    if (sequence === undefined) return;
    for (const event of events) {
      if (event.type === "failed") {
        this.#forget(key);
        sequence.events.fail(new CanopyError(event.reason, { code: "model_failed", status: 502 }));
        continue;
      }
      sequence.events.tryPush(event);
      if (event.type === "token" && --sequence.priorityTokens === 0) {
        this.#precedence?.remove(sequence.priority);
        sequence.priority = 0;
      }
      if (event.type !== "end") continue;
      this.#forget(key);
      sequence.events.close();
    }
  }

  /** Fails all sequences. True when the thread is to be started again: not for a model that never was ready. */
  #crashed(reason: string): boolean {
    this.#isReady = false;
    this.#fail(new CanopyError(reason, { code: "engine_crashed", status: 502 }));
    if (this.#facts !== undefined) return true;
    this.#onReady(new CanopyError(reason, { code: "engine_crashed", status: 500 }));
    return false;
  }

  #fail(error: CanopyError): void {
    for (const { key, events } of [...this.#sequences.values()]) {
      events.fail(error);
      this.#forget(key);
    }
  }
}
