import type { Clock } from "../../base/clock.ts";
import type { CostModel, StepLoad } from "./cost.ts";
import { KvMemory } from "./kv_memory.ts";
import type { RadixCache } from "./prefix_cache.ts";
import type { EngineSequence } from "./sequence.ts";
import { planMixed, planPrefillFirst, type StepBatch } from "./step_plan.ts";

/** A lag behind the clock above this is forgotten instead of made up for. */
const MAX_LAG_MS = 1000;

/** Options of a scheduler: how an engine family fills its steps. */
export interface EngineSchedulerOptions {
  readonly clock: Clock;
  readonly cost: CostModel;
  /** vLLM mixes prefill chunks into decode steps; SGLang runs prefills alone, before decodes. */
  readonly policy: "mixed" | "prefill_first";
  readonly pageSize: number;
  readonly kvTokens: number;
  readonly maxRunning: number;
  readonly maxBatchedTokens: number;
  /** Called once for every sequence, when it has left the engine. */
  readonly onEnd: (sequence: EngineSequence) => void;
  /** Called when memory has become free. */
  readonly onFree: () => void;
}

/** Continuous batching: a step computes prompt chunks and a token of every decoding sequence, and takes one timer. */
export class EngineScheduler {
  readonly options: EngineSchedulerOptions;
  readonly #memory: KvMemory;
  #waiting: EngineSequence[] = [];
  #running: EngineSequence[] = [];
  /** Sequences whose KV has come from another engine; they join the batch at the next step. */
  #arrived: EngineSequence[] = [];
  readonly #pinned = new Set<EngineSequence>();
  #allocated = 0;
  #handingOff = 0;
  readonly #batch: StepBatch;
  #looping = false;
  #dueMs = 0;
  #stop = new AbortController();
  #thawed: Promise<void> | undefined;
  stats = { requests: 0, promptTokens: 0, generationTokens: 0, cachedTokens: 0, aborted: 0, preemptions: 0 };

  constructor(options: EngineSchedulerOptions) {
    this.options = options;
    this.#memory = new KvMemory(options.kvTokens, options.pageSize);
    this.#batch = {
      running: () => this.#running,
      waiting: () => this.#waiting.length,
      budget: options.maxBatchedTokens,
      reserve: (sequence, length) => this.#reserve(sequence, length),
      preempt: () => this.#preempt(),
      admit: () => this.#admit(),
      add: (load, sequence, n) => this.#add(load, sequence, n),
    };
  }

  get cache(): RadixCache {
    return this.#memory.cache;
  }

  get waiting(): number {
    return this.#waiting.length;
  }

  get running(): number {
    return this.#running.length;
  }

  /** Sequences that hold memory while their KV travels from or to another engine. */
  get travelling(): number {
    return this.#allocated + this.#handingOff;
  }

  /** Share of the KV memory that sequences hold, 0 to 1. */
  get kvUsage(): number {
    return this.usedTokens / this.options.kvTokens;
  }

  /** Tokens of KV memory that sequences hold. */
  get usedTokens(): number {
    return this.#memory.usedTokens;
  }

  submit(sequence: EngineSequence): void {
    this.stats.requests++;
    this.stats.promptTokens += sequence.promptLength;
    this.#waiting.push(sequence);
    this.#wake();
  }

  /**
   * Takes memory for a prompt that another engine computes: what the tree lacks of it. False when there would not be
   * `reserve` tokens left for this and for each other sequence to grow.
   */
  allocate(sequence: EngineSequence, reserve: number, most = sequence.promptLength): boolean {
    const others = this.#running.length + this.#allocated;
    if (others >= this.options.maxRunning) return false;
    const alone = others + this.#handingOff + this.#pinned.size === 0;
    const memory = this.#memory;
    const began = memory.begin(
      sequence,
      most,
      (needed) => alone || needed + reserve * (others + 1) <= memory.freeTokens,
    );
    if (!began) return false;
    memory.reserve(sequence, sequence.promptLength, true);
    sequence.state = "allocated";
    this.#allocated++;
    this.stats.requests++;
    this.stats.promptTokens += sequence.promptLength;
    return true;
  }

  /** The KV and the first token of an allocated sequence are there: it joins the batch; without a token it ends. */
  adopt(sequence: EngineSequence, firstToken: number | undefined): void {
    sequence.firstToken = firstToken;
    this.#arrived.push(sequence);
    this.#wake();
  }

  /** The KV of an allocated sequence's first `tokens` is there: it joins the batch and computes the rest. */
  resume(sequence: EngineSequence, tokens: number): void {
    sequence.resumeAt = tokens;
    this.#arrived.push(sequence);
    this.#wake();
  }

  /** Frees the memory of an ended sequence that was kept. */
  unpin(sequence: EngineSequence): void {
    if (!this.#pinned.delete(sequence)) return;
    this.#memory.free(sequence);
    this.options.onFree();
    if (this.#waiting.length > 0) this.#wake();
  }

  /** Frees what a travelling sequence holds and ends it. */
  release(sequence: EngineSequence, aborted: boolean): void {
    if (sequence.state === "allocated") this.#allocated--;
    else if (sequence.state === "handing_off") this.#handingOff--;
    else return;
    this.#arrived = this.#arrived.filter((other) => other !== sequence);
    this.#end(sequence, aborted);
    if (this.#waiting.length > 0) this.#wake();
  }

  /** Ends a sequence: at once while it waits, at the end of the running step otherwise. */
  abort(sequence: EngineSequence): void {
    if (sequence.state === "ended" || sequence.abortRequested) return;
    sequence.abortRequested = true;
    if (sequence.state === "allocated" || sequence.state === "handing_off") {
      return this.release(sequence, true);
    }
    if (sequence.state !== "waiting") return;
    this.#waiting = this.#waiting.filter((other) => other !== sequence);
    this.#end(sequence, true);
  }

  /** Ends no step any more until the returned function is called, as an engine that hangs. */
  freeze(): () => void {
    let thaw = () => {};
    const thawed = new Promise<void>((resolve) => thaw = resolve);
    this.#thawed = thawed;
    return () => {
      if (this.#thawed === thawed) this.#thawed = undefined;
      thaw();
    };
  }

  /** Stops for good, as a dead process does. */
  kill(): void {
    this.#stop.abort();
  }

  #wake(): void {
    if (this.#looping || this.#stop.signal.aborted) return;
    this.#looping = true;
    // A microtask later, so that sequences that arrive together share their first step.
    Promise.resolve().then(() => this.#loop()).catch((error) => {
      if (!this.#stop.signal.aborted) throw error;
    });
  }

  async #loop(): Promise<void> {
    const { clock, cost } = this.options;
    this.#dueMs = clock.now();
    while (true) {
      if (this.#arrived.length > 0) this.#join();
      if (this.#waiting.length + this.#running.length === 0) break;
      const load = this.options.policy === "mixed" ? planMixed(this.#batch) : planPrefillFirst(this.#batch);
      // Everything waits for memory that others hold outside the batch: its release goes on.
      if (load.sequences === 0 && this.#running.length === 0 && this.travelling + this.#pinned.size > 0) {
        break;
      }
      const nowMs = clock.now();
      this.#dueMs = Math.max(this.#dueMs, nowMs - MAX_LAG_MS) + cost.stepMs(load);
      await clock.sleep(Math.max(0, this.#dueMs - nowMs), this.#stop.signal);
      if (this.#thawed !== undefined) await this.#thawed;
      this.#apply();
    }
    this.#looping = false;
  }

  /** Takes sequences with KV from elsewhere into the batch; the first token is theirs at once. */
  #join(): void {
    const arrived = this.#arrived;
    this.#arrived = [];
    const nowMs = this.options.clock.now();
    for (const sequence of arrived) {
      this.#allocated--;
      sequence.state = "running";
      sequence.scheduledMs = nowMs;
      if (sequence.resumeAt !== undefined) {
        sequence.computed = sequence.resumeAt;
        this.#memory.publish(sequence, sequence.computed);
        this.#running.push(sequence);
        continue;
      }
      sequence.prefilledMs = nowMs;
      sequence.computed = sequence.promptLength;
      const id = sequence.firstToken;
      let done = true;
      if (id !== undefined) {
        sequence.tokens.push(id);
        this.stats.generationTokens++;
        done = sequence.listener.token(id);
      }
      if (done) this.#end(sequence, false);
      else this.#running.push(sequence);
    }
  }

  /** Takes the first waiting sequence into the batch if the KV of all its tokens fits. */
  #admit(): EngineSequence | undefined {
    const sequence = this.#waiting[0]!;
    if (this.#running.length >= this.options.maxRunning) return undefined;
    const alone = this.#running.length + this.travelling + this.#pinned.size === 0;
    const memory = this.#memory;
    const fits = (needed: number) => alone || needed <= memory.freeTokens;
    if (!memory.begin(sequence, sequence.tokens.length - 1, fits)) return undefined;
    this.#waiting.shift();
    sequence.computed = sequence.sharedTokens;
    sequence.state = "running";
    if (sequence.scheduledMs === undefined) {
      sequence.scheduledMs = this.options.clock.now();
      sequence.cachedTokens = sequence.sharedTokens;
      this.stats.cachedTokens += sequence.sharedTokens;
    }
    this.#running.push(sequence);
    return sequence;
  }

  #add(load: StepLoad, sequence: EngineSequence, n: number): void {
    sequence.chunk = n;
    load.sequences++;
    if (sequence.prefilledMs !== undefined && n === 1) {
      load.decodes++;
      load.decodeContext += sequence.computed + 1;
    } else {
      load.prefillTokens += n;
      load.prefillAttention += n * (sequence.computed + n / 2);
    }
    // vLLM publishes blocks when they are scheduled, so that others can share them in the same step.
    if (this.options.policy === "mixed") this.#memory.publish(sequence, sequence.computed + n);
  }

  #apply(): void {
    const nowMs = this.options.clock.now();
    let ended = false;
    for (const sequence of this.#running) {
      if (sequence.abortRequested) {
        sequence.computed += sequence.chunk;
        this.#end(sequence, true);
        ended = true;
        continue;
      }
      if (sequence.chunk === 0) continue;
      sequence.computed += sequence.chunk;
      sequence.firstChunkMs ??= nowMs;
      sequence.lastChunk = sequence.chunk;
      sequence.chunk = 0;
      if (sequence.computed < sequence.tokens.length) {
        if (this.options.policy === "prefill_first") this.#memory.publish(sequence, sequence.computed);
        continue;
      }
      if (sequence.prefilledMs === undefined) {
        sequence.prefilledMs = nowMs;
        if (this.options.policy === "prefill_first") this.#memory.publish(sequence, sequence.computed);
      }
      const id = sequence.listener.sample();
      if (sequence.handOff !== undefined && id !== undefined) {
        sequence.state = "handing_off";
        this.#handingOff++;
        this.stats.generationTokens++;
        ended = true;
        sequence.handOff(id);
        continue;
      }
      let done = true;
      if (id !== undefined) {
        sequence.tokens.push(id);
        this.stats.generationTokens++;
        done = sequence.listener.token(id);
      }
      if (!done) continue;
      this.#end(sequence, false);
      ended = true;
    }
    if (ended) this.#running = this.#running.filter((sequence) => sequence.state === "running");
  }

  #end(sequence: EngineSequence, aborted: boolean): void {
    sequence.state = "ended";
    sequence.endedMs = this.options.clock.now();
    if (sequence.node !== undefined) this.#memory.publish(sequence, sequence.computed);
    const { onFinish } = sequence;
    if (onFinish !== undefined && !aborted) {
      this.#pinned.add(sequence);
      onFinish();
    } else this.#memory.free(sequence);
    if (aborted) {
      this.stats.aborted++;
      sequence.listener.aborted();
    }
    this.options.onEnd(sequence);
    this.options.onFree();
  }

  /** Throws the newest sequence out of the batch; it will be computed again. */
  #preempt(): void {
    const victim = this.#running.pop()!;
    this.stats.preemptions++;
    this.#memory.free(victim);
    victim.computed = 0;
    victim.chunk = 0;
    victim.state = "waiting";
    if (victim.abortRequested) this.#end(victim, true);
    else this.#waiting.unshift(victim);
  }

  /** Makes room for the first `length` tokens. One that is alone may overdraw: real engines refuse it at start. */
  #reserve(sequence: EngineSequence, length: number): boolean {
    return this.#memory.reserve(sequence, length, this.#running.length <= 1);
  }
}
