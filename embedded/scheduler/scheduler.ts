import { CanopyError, messageOf } from "../../base/errors.ts";
import type { Extension } from "../cache/key_values.ts";
import type { DecoderSteps } from "../model/decoder_steps.ts";
import type { GeneratorCounts, SequenceEvent, SequenceRequest } from "./generator.ts";
import { drawToken } from "./sampling.ts";
import { Sequence } from "./sequence.ts";
import type { SequenceMemory } from "./sequence_memory.ts";

/** News of a sequence; `failed` is its last. */
export type SchedulerEvent = SequenceEvent | { readonly type: "failed"; readonly reason: string };

/** Options of a scheduler. */
export interface SchedulerOptions {
  readonly decoder: Pick<DecoderSteps, "step"> & {
    /**
     * True when activations of 8 bits have one scale per step. A prompt's first token then has a step of its own: models
     * park attention there, in numbers so large that those of all tokens beside it are rounded away.
     */
    readonly scaledPerCall?: boolean | undefined;
  };
  readonly memory: SequenceMemory;
  /** Prompt and answer together. */
  readonly maxContextTokens: number;
  /** Sequences that are computed side by side. */
  readonly maxRunning: number;
  /** Prompt tokens per step: while no answer waits for its next token, and while one does. */
  readonly chunkTokens: { readonly alone: number; readonly besides: number };
  /** Called step by step with what has happened to a sequence. */
  readonly news: (key: number, events: readonly SchedulerEvent[]) => void;
}

/**
 * Shares a decoder among sequences: each step is a token of one of them, or of several that are in the batch, or a piece
 * of one prompt, in turns. Prompts are computed by priority, then in the order of their arrival, each when there is room
 * for it; the one before is then known to the cache. While a sequence is urgent, of a priority below 0, those behind it
 * pause. When memory runs out, remembered prefixes go first, then the sequence that comes last: it waits and is computed
 * again.
 */
export class Scheduler {
  readonly #options: SchedulerOptions;
  readonly #waiting = new Map<number, Sequence>();
  /** In the order of their arrival; the prompt that is being computed is the last one. */
  readonly #running = new Map<number, Sequence>();
  #promptTokens = 0;
  #promptTokensCached = 0;
  #generatedTokens = 0;
  #wake: (() => void) | undefined;
  #closed = false;
  /** As `yieldTo` was told. */
  #others: number | undefined;
  /** Priorities whose turn it is in this round: up to this one. */
  #limit = Infinity;

  constructor(options: SchedulerOptions) {
    this.#options = options;
  }

  counts(): GeneratorCounts {
    return {
      running: this.#running.size,
      waiting: this.#waiting.size,
      cachedTokens: this.#options.memory.rememberedTokens,
      cacheCapacityTokens: this.#options.memory.maxTokens,
      promptTokens: this.#promptTokens,
      promptTokensCached: this.#promptTokensCached,
      generatedTokens: this.#generatedTokens,
    };
  }

  add(key: number, request: SequenceRequest): void {
    this.#waiting.set(key, new Sequence(key, request));
    this.#wake?.();
  }

  /** Ends a sequence after the step that is under way, without more news of it. */
  abort(key: number): void {
    this.#waiting.delete(key);
    const sequence = this.#running.get(key);
    if (sequence !== undefined) sequence.aborted = true;
    this.#wake?.();
  }

  /** The most urgent priority of other models' sequences, which go before those behind it; undefined: none is urgent. */
  yieldTo(priority: number | undefined): void {
    this.#others = priority;
    this.#wake?.();
  }

  /** Works until it is closed. */
  async run(): Promise<void> {
    while (!this.#closed) {
      for (const sequence of this.#running.values()) if (sequence.aborted) this.#end(sequence);
      if (this.#running.size + this.#waiting.size === 0 || this.#least > (this.#others ?? Infinity)) {
        await new Promise<void>((resolve) => this.#wake = resolve);
        this.#wake = undefined;
        continue;
      }
      await this.#round();
    }
  }

  close(): void {
    this.#closed = true;
    this.#wake?.();
  }

  /** The most urgent priority of its own sequences. */
  get #least(): number {
    return Math.min(
      ...[...this.#running.values(), ...this.#waiting.values()].map(({ priority }) => priority),
    );
  }

  /** A piece of the prompts that wait, and a token of each answer; while some are urgent, of those alone. */
  async #round(): Promise<void> {
    const { alone, besides } = this.#options.chunkTokens;
    this.#limit = this.#least < 0 ? this.#least : Infinity;
    // An urgent one that has no room until others have ended.
    if (this.#answers().length === 0 && this.#nextPrompt() === undefined) this.#limit = Infinity;
    const answers = this.#answers();
    for (const sequence of this.#options.memory.batch.members.filter((one) => one.priority > this.#limit)) {
      this.#options.memory.batch.leave(sequence);
    }
    let spent = 0;
    while (true) {
      const left = (this.#answers().length > 0 ? besides : alone) - spent;
      const sequence = left > 0 ? this.#nextPrompt() : undefined;
      if (sequence === undefined) break;
      spent += await this.#guard(sequence, () => this.#prefill(sequence, left));
    }
    for (const sequence of answers) if (sequence.aborted) this.#end(sequence);
    // Some may have had to give way meanwhile.
    const { memory } = this.#options;
    memory.gather([...this.#running.values()], answers.filter((sequence) => sequence.answers));
    for (const sequence of answers) {
      if (sequence.answers && !sequence.batched) await this.#guard(sequence, () => this.#decode(sequence));
    }
    await this.#decodeBatch();
  }

  /** Those whose next token is an answer's, and whose turn it is. */
  #answers(): Sequence[] {
    return [...this.#running.values()].filter(({ answers, priority }) => answers && priority <= this.#limit);
  }

  /** The prompt that is being computed, or the next one if it may start. */
  #nextPrompt(): Sequence | undefined {
    const turns = ({ priority }: Sequence) => priority <= this.#limit;
    for (const sequence of this.#running.values()) {
      if (!sequence.answers && turns(sequence)) return sequence;
    }
    const next = first([...this.#waiting.values()].filter(turns));
    const running = [...this.#running.values()];
    const { maxRunning, memory } = this.#options;
    if (next === undefined || running.length >= maxRunning || !memory.fits(running, next)) return;
    this.#waiting.delete(next.key);
    this.#running.set(next.key, next);
    return next;
  }

  /** Runs a step, and ends the sequence if it was aborted or the step fails. Gives the step's prompt tokens. */
  async #guard(sequence: Sequence, step: () => Promise<number>): Promise<number> {
    try {
      if (!sequence.aborted) return await step();
      this.#end(sequence);
    } catch (error) {
      this.#end(sequence);
      const reason = CanopyError.is(error) ? error.message : `The decoder failed: ${messageOf(error)}`;
      if (!sequence.aborted) this.#options.news(sequence.key, [{ type: "failed", reason }]);
    }
    return 1;
  }

  /** Computes at most so many tokens of a prompt; with its last one the first token of the answer is drawn. */
  async #prefill(sequence: Sequence, most: number): Promise<number> {
    const { ids, request } = sequence;
    if (sequence.keyValues === undefined) this.#options.memory.start(sequence);
    const known = sequence.known;
    const alone = known === 0 && this.#options.decoder.scaledPerCall === true;
    const next = ids.slice(known, known + (alone ? 1 : most));
    let logits: Float32Array | undefined;
    if (next.length > 0) {
      logits = await this.#step(sequence, next);
      if (logits === undefined || sequence.aborted) return next.length;
      if (sequence.known < ids.length) return next.length;
      this.#options.memory.remember(sequence);
    }
    const events: SchedulerEvent[] = [];
    if (sequence.cachedTokens !== undefined && !sequence.answered) {
      this.#promptTokens += ids.length;
      this.#promptTokensCached += sequence.cachedTokens;
      events.push({ type: "prompt", cachedTokens: sequence.cachedTokens });
    }
    sequence.answered = true;
    if (request.maxTokens === 0) {
      events.push({ type: "end", reason: "length" });
      this.#end(sequence);
    } else this.#draw(sequence, logits!, events);
    this.#options.news(sequence.key, events);
    return next.length;
  }

  async #decode(sequence: Sequence): Promise<number> {
    const logits = await this.#step(sequence, sequence.ids.slice(-1));
    if (logits !== undefined && !sequence.aborted) this.#answer(sequence, logits);
    return 0;
  }

  /** A token of each sequence in the batch. */
  async #decodeBatch(): Promise<void> {
    const { batch } = this.#options.memory;
    while (!batch.makeRoom()) this.#putOff(batch.members.at(-1)!);
    const members = [...batch.members];
    if (members.length === 0) return;
    let logits: Float32Array[];
    try {
      logits = await batch.step();
    } catch {
      // Each alone: only those fail that are at fault.
      batch.dissolve();
      return;
    }
    for (const [index, sequence] of members.entries()) {
      await this.#guard(sequence, () => Promise.resolve(this.#answer(sequence, logits[index]!)));
    }
  }

  #answer(sequence: Sequence, logits: Float32Array): number {
    const events: SchedulerEvent[] = [];
    this.#draw(sequence, logits, events);
    this.#options.news(sequence.key, events);
    return 0;
  }

  /** Draws the next token, and ends the sequence if that is its last. */
  #draw(sequence: Sequence, logits: Float32Array, events: SchedulerEvent[]): void {
    const { request, history, ids } = sequence;
    const token = drawToken(logits, request, history);
    history.push(token.id);
    ids.push(token.id);
    this.#generatedTokens++;
    events.push({ type: "token", token });
    const stops = request.stopIds.has(token.id) && sequence.generated >= request.minTokens;
    const full = sequence.generated >= request.maxTokens || ids.length >= this.#options.maxContextTokens;
    if (!stops && !full) return;
    events.push({ type: "end", reason: stops ? "stop" : "length" });
    this.#end(sequence);
  }

  /** Computes tokens behind those that are known; undefined when the sequence has to wait for memory. */
  async #step(sequence: Sequence, next: readonly number[]): Promise<Float32Array | undefined> {
    const room = this.#room(sequence, next.length);
    if (room === undefined) return undefined;
    try {
      const logits = await this.#options.decoder.step(next, room);
      sequence.keyValues?.release();
      sequence.keyValues = room.into;
      sequence.known += next.length;
      if (sequence.aborted) this.#end(sequence);
      return logits;
    } catch (error) {
      room.into.release();
      throw error;
    }
  }

  /** Room for so many tokens more. When there is none the sequence that came last gives way, maybe this one. */
  #room(sequence: Sequence, more: number): Extension | undefined {
    while (true) {
      const room = this.#options.memory.extend(sequence, more);
      if (room !== undefined) return room;
      const last = first([...this.#running.values()].reverse(), -1)!;
      if (last === sequence && this.#running.size === 1) {
        throw new CanopyError(`Cannot keep ${sequence.known + more} tokens: there is memory for fewer`, {
          code: "cache_too_small",
          status: 500,
        });
      }
      this.#putOff(last);
      if (last === sequence) return undefined;
    }
  }

  /** Back to the head of those that wait. */
  #putOff(sequence: Sequence): void {
    this.#running.delete(sequence.key);
    this.#options.memory.release(sequence);
    const others = [...this.#waiting];
    this.#waiting.clear();
    this.#waiting.set(sequence.key, sequence);
    for (const [key, other] of others) this.#waiting.set(key, other);
  }

  #end(sequence: Sequence): void {
    if (this.#running.get(sequence.key) !== sequence) return;
    this.#running.delete(sequence.key);
    this.#options.memory.release(sequence);
    // For the counts that go with it: of an abort nothing else is told.
    if (sequence.aborted) this.#options.news(sequence.key, []);
  }
}

/** The first of those that come before all others by their priority; with `sign` -1, of those that come after all others. */
function first(sequences: readonly Sequence[], sign: 1 | -1 = 1): Sequence | undefined {
  const best = Math.min(...sequences.map(({ priority }) => sign * priority));
  return sequences.find(({ priority }) => sign * priority === best);
}
