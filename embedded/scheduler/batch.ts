import { type CacheGrowth, type CacheRows, copyRows } from "../cache/cache_layout.ts";
import type { KeyValuePool, KeyValues } from "../cache/key_values.ts";
import type { DecoderSteps } from "../model/decoder_steps.ts";
import type { Sequence } from "./sequence.ts";

/** With fewer tokens to come the way into a batch and out again is not worth it. */
const LEAST_TOKENS = 8;
/** Fewest tokens that a sequence must be able to stay for, if its answer is that long. */
const STAY_TOKENS = 32;
/** Padding that is put up with, as a share of the longest sequence and in tokens, before all are moved together. */
const PADDING = { share: 0.25, tokens: 16 };
/** Rows that memory is taken for ahead of the tokens that come. */
const ROWS_AHEAD = 32;
/** A batch's part of the pool, at most, when its answers are as long as is expected. */
const POOL_SHARE = 0.5;
/** Failed steps in a row after which a model is taken for one that cannot compute in batches. */
const MAX_FAILURES = 3;
/** Memory for each token that is kept: sizes are rounded up, and a step that copies writes as much as it reads. */
const MEMORY = { copies: 2.25, appends: 1.125 };
/**
 * Bytes of keys and values that a sequence may have for each byte of weights, to be computed together with others whose
 * cache is copied in each step: beyond that less is gained than the way in and out costs. docs/decisions.md has figures.
 */
const CACHE_PER_WEIGHT = 0.15;

/** Tokens of the longest sequence that is computed together with others; 0: each is computed by itself. */
export function longestBatched(
  { batches, growth, bytesPerToken }: {
    readonly batches: boolean;
    readonly growth: CacheGrowth;
    readonly bytesPerToken: number;
  },
  weightBytes: number,
): number {
  if (!batches) return 0;
  return growth === "appends" ? Infinity : Math.floor(CACHE_PER_WEIGHT * weightBytes / bytesPerToken);
}

/** Options of a batch. */
export interface BatchOptions {
  readonly decoder: Pick<DecoderSteps, "stepBatch">;
  readonly pool: KeyValuePool;
  /** Longer sequences are not computed in batches. */
  readonly maxTokens: number;
  /** Gives some memory back to the pool; false when there is none that could be. */
  readonly free: () => boolean;
}

/**
 * Sequences whose next tokens are computed in one step, which reads the weights once for all of them. Their keys and
 * values lie side by side in memory of their own, [slots, heads, rows, size], and stay there from step to step: only
 * those that come or go are copied. With a model that appends, a sequence has the first rows of its slot. With one that
 * copies, all sequences end at the last row, and what is before them is padding.
 */
export class Batch {
  readonly #options: BatchOptions;
  readonly #appends: boolean;
  #maxTokens: number;
  /** Steps in a row that failed. */
  #failures = 0;
  readonly #members: Sequence[] = [];
  #room: KeyValues | undefined;
  /** Rows of each slot. */
  #rows = 0;
  /** Memory that the next step of a model that copies writes to. Kept, for taking it anew takes as long as the step. */
  #other: KeyValues | undefined;

  constructor(options: BatchOptions) {
    this.#options = options;
    this.#appends = options.pool.growth === "appends";
    this.#maxTokens = options.maxTokens;
  }

  get members(): readonly Sequence[] {
    return this.#members;
  }

  /** Tokens that it takes memory for. */
  get usedTokens(): number {
    const room = this.#room?.capacity ?? 0;
    return this.#appends ? room : room + Math.max(room, this.#other?.capacity ?? 0);
  }

  /**
   * Takes in those of the `sequences` that fit, but not one alone; one that is left alone goes. `spareTokens` are free
   * or can be freed.
   */
  join(sequences: readonly Sequence[], spareTokens: number): void {
    const members = [...this.#members];
    for (const sequence of sequences) {
      if (sequence.batched || sequence.alone || sequence.left < LEAST_TOKENS) continue;
      const all = [...members, sequence];
      const memory = this.#memoryFor(all.length * most(all, "expectedTokens"));
      const fits = memory <= spareTokens && memory <= POOL_SHARE * this.#options.pool.maxTokens;
      if (fits && most(all, "known") + STAY_TOKENS <= this.#maxTokens) members.push(sequence);
    }
    const joining = members.slice(this.#members.length);
    if (joining.length === 0) {
      const isAlone = members.length === 1 && this.#memoryFor(members[0]!.known) <= spareTokens;
      return isAlone ? this.leave(members[0]!) : undefined;
    }
    if (members.length < 2 || !this.#seat(members)) return;
    for (const sequence of joining) {
      this.#members.push(sequence);
      sequence.keyValues!.release();
      sequence.keyValues = undefined;
      sequence.batched = true;
    }
  }

  /** Lets a sequence go with its keys and values, or, when there is no room for them, without. */
  leave(sequence: Sequence): void {
    const slot = this.#members.indexOf(sequence);
    const own = this.#copyOut(slot);
    const { known } = sequence;
    this.#vacate(slot);
    sequence.reset();
    if (own !== undefined) sequence.start(own, known);
  }

  /** After a step that failed: its sequences go on each by itself. After three in a row all sequences do. */
  dissolve(): void {
    for (const sequence of [...this.#members]) {
      this.leave(sequence);
      sequence.alone = true;
    }
    if (++this.#failures >= MAX_FAILURES) this.#maxTokens = 0;
  }

  /** Makes room for the next step; false when there is none. Those that have grown too long leave. */
  makeRoom(): boolean {
    const members = this.#members;
    while (members.length > 1 && most(members, "known") > this.#maxTokens) {
      this.leave(members.reduce((a, b) => a.known >= b.known ? a : b));
    }
    if (members.length === 0) return true;
    const longest = most(members, "known");
    if (this.#appends) return longest < this.#rows || this.#move(members);
    // The longest, which all others are padded for, may be gone.
    if (this.#rows > longest * (1 + PADDING.share) + PADDING.tokens) this.#move(members);
    const rows = this.#rows + 1;
    if (this.#other !== undefined && this.#other.capacity >= members.length * rows) return true;
    this.#other?.release();
    const { pool } = this.#options;
    this.#other = this.#freeing(() =>
      pool.take(members.length * (rows + ROWS_AHEAD)) ?? pool.take(members.length * rows)
    );
    return this.#other !== undefined;
  }

  /** Computes the last token of each member; there is room. Gives the logits of each, good until the next step. */
  async step(): Promise<Float32Array[]> {
    const tokens = this.#members.map(({ ids, known }) => ({ id: ids.at(-1)!, before: known }));
    const from = { tensors: this.#room!.tensors, rows: this.#rows };
    const into = this.#appends ? from : { tensors: this.#other!.tensors, rows: this.#rows + 1 };
    const logits = await this.#options.decoder.stepBatch(tokens, from, into);
    this.#failures = 0;
    for (const sequence of this.#members) sequence.known++;
    if (!this.#appends) {
      [this.#room, this.#other] = [this.#other, this.#room];
      this.#rows++;
    }
    return logits;
  }

  #memoryFor(tokens: number): number {
    return MEMORY[this.#options.pool.growth] * tokens;
  }

  /** Puts the keys and values of those that are new to theirs; false when there is no room. */
  #seat(members: readonly Sequence[]): boolean {
    const isRoomy = this.#appends && most(members, "expectedTokens") <= this.#rows &&
      members.length * this.#rows <= this.#room!.capacity;
    if (!isRoomy) return this.#move(members);
    for (const [slot, sequence] of members.entries()) {
      if (!sequence.batched) this.#copy(sequence, this.#place(slot, sequence.known));
    }
    return true;
  }

  /** Keys and values of a member in memory of their own; undefined when there is no room. */
  #copyOut(slot: number): KeyValues | undefined {
    const { pool } = this.#options;
    const { known } = this.#members[slot]!;
    const own = this.#freeing(() => pool.take(known));
    if (own === undefined) return undefined;
    copyRows(pool.layout, known, this.#place(slot, known), own.place(known));
    own.tokens = known;
    return own;
  }

  /** Puts the keys and values of all to other memory; false when there is no room. */
  #move(members: readonly Sequence[]): boolean {
    const rows = most(members, this.#appends ? "expectedTokens" : "known");
    // Doubled, so that of those who come one by one each is copied a few times at most.
    const doubled = 2 ** Math.ceil(Math.log2(members.length));
    const { maxTokens } = this.#options.pool;
    const isModest = this.#memoryFor(doubled * rows) <= POOL_SHARE * maxTokens;
    const slots = this.#appends && isModest ? doubled : members.length;
    const room = this.#freeing(() => this.#options.pool.take(slots * rows));
    if (room === undefined) return false;
    for (const [slot, sequence] of members.entries()) {
      const first = this.#appends ? 0 : rows - sequence.known;
      this.#copy(sequence, { tensors: room.tensors, slot, rows, first });
    }
    this.#room?.release();
    this.#room = room;
    this.#rows = rows;
    return true;
  }

  /** Copies a sequence's keys and values from where they are. Padding is zeros, for what is masked must be finite. */
  #copy(sequence: Sequence, to: CacheRows): void {
    const { keyValues, known } = sequence;
    const { layout } = this.#options.pool;
    const from = keyValues?.place(keyValues.tokens) ?? this.#place(this.#members.indexOf(sequence), known);
    copyRows(layout, known, from, to);
    for (const [index, { heads, headDimensions }] of layout.entries()) {
      for (let head = 0; head < heads; head++) {
        const start = (to.slot * heads + head) * to.rows * headDimensions;
        to.tensors[index]!.fill(0, start, start + to.first * headDimensions);
      }
    }
  }

  /** The last member gets the slot that becomes empty. */
  #vacate(slot: number): void {
    const last = this.#members.length - 1;
    for (const [index, { heads, headDimensions }] of this.#options.pool.layout.entries()) {
      const size = heads * this.#rows * headDimensions;
      this.#room!.tensors[index]!.copyWithin(slot * size, last * size, (last + 1) * size);
    }
    this.#members[slot] = this.#members[last]!;
    this.#members.pop();
    if (last > 0) return;
    this.#room!.release();
    this.#other?.release();
    this.#room = this.#other = undefined;
    this.#rows = 0;
  }

  #place(slot: number, known: number): CacheRows {
    const first = this.#appends ? 0 : this.#rows - known;
    return { tensors: this.#room!.tensors, slot, rows: this.#rows, first };
  }

  #freeing(take: () => KeyValues | undefined): KeyValues | undefined {
    let room;
    do room = take(); while (room === undefined && this.#options.free());
    return room;
  }
}

function most(sequences: readonly Sequence[], what: "known" | "expectedTokens"): number {
  return Math.max(...sequences.map((sequence) => sequence[what]));
}
