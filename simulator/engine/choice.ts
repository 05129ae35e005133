import type { EngineScheduler } from "./scheduler.ts";
import type { EngineSequence, SequenceListener } from "./sequence.ts";
import { BuiltinDetokenizer, type Speech } from "../text/tokenizer.ts";
import type { ScoredToken, TokenSource } from "../text/tokens.ts";

/** End of an answer. `matched`: the stop string or token id. */
export type ChoiceFinish =
  | { readonly type: "stop"; readonly matched: string | number }
  | { readonly type: "length"; readonly length: number }
  | { readonly type: "abort"; readonly failure?: ChoiceFailure };

/** Error for which the engine gave a request up, with its HTTP status. */
export interface ChoiceFailure {
  readonly status: number;
  readonly message: string;
}

/** A generated token as log-probability lists show it. */
export interface ScoredChoice extends ScoredToken {
  /** The chosen token and its alternatives; empty unless alternatives were asked for. */
  readonly top: readonly ScoredToken[];
}

/** News of an answer since the last look. */
export interface ChoiceDelta {
  readonly text: string;
  readonly ids: readonly number[];
  readonly scores: readonly ScoredChoice[];
}

const NO_SCORES: readonly ScoredChoice[] = [];

/** Options of one answer. */
export interface ChoiceOptions {
  readonly index: number;
  /** Index of its prompt in the batch. */
  readonly promptIndex: number;
  readonly source: TokenSource;
  readonly speech: Speech;
  readonly maxTokens: number;
  readonly minTokens: number;
  readonly ignoreEnd: boolean;
  readonly stop: readonly string[];
  readonly stopTokenIds: readonly number[];
  /** Leave the stop string, or the text of the stop token, in the text. */
  readonly includeStop: boolean;
  /** Text that could become a stop string is not shown yet (vLLM; SGLang shows it and trims later). */
  readonly holdBack: boolean;
  readonly skipSpecialTokens: boolean;
  /** Alternatives per token; undefined: no log-probabilities. */
  readonly logprobs: number | undefined;
  /** Tokens of a piece of a stream, of which the first one has one; 1 by default. */
  readonly streamInterval?: number | undefined;
}

/** One answer in the making: hears the engine, makes text of tokens, and knows when to stop. */
export class Choice implements SequenceListener {
  readonly options: ChoiceOptions;
  readonly #collector: Collector;
  readonly #detokenizer: BuiltinDetokenizer;
  readonly #heldBack: number;
  readonly #longestStop: number;
  sequence: EngineSequence | undefined;
  /** Source of its tokens; a pair's decode half changes it to follow the KV that it received. */
  source: TokenSource;
  /** All text so far, the held-back end included. */
  text = "";
  readonly ids: number[] = [];
  readonly scores: ScoredChoice[] = [];
  finish: ChoiceFinish | undefined;
  /** On the collector's list. */
  listed = false;
  #textSeen = 0;
  #idsSeen = 0;

  constructor(collector: Collector, options: ChoiceOptions) {
    this.#collector = collector;
    this.options = options;
    this.source = options.source;
    this.#detokenizer = new BuiltinDetokenizer(options.speech, options.skipSpecialTokens);
    this.#longestStop = options.stop.reduce((longest, stop) => Math.max(longest, stop.length), 0);
    this.#heldBack = options.holdBack && !options.includeStop ? Math.max(0, this.#longestStop - 1) : 0;
  }

  sample(): number | undefined {
    if (this.options.maxTokens === 0) {
      this.#end({ type: "length", length: 0 });
      return undefined;
    }
    return this.source.next(!this.options.ignoreEnd && this.ids.length >= this.options.minTokens);
  }

  token(id: number): boolean {
    const { options, ids } = this;
    this.#take(id);
    const before = this.text.length;
    const mayStop = ids.length > options.minTokens;
    const isEnd = !options.ignoreEnd && (id === options.speech.endId || id === options.speech.secondEndId);
    const isStop = isEnd || options.stopTokenIds.includes(id);
    if (isStop && mayStop) {
      this.text += this.#detokenizer.flush();
      if (options.includeStop) this.text += options.speech.textOf(id);
      this.#end({ type: "stop", matched: id });
      return true;
    }
    this.text += this.#detokenizer.push(id);
    if (mayStop && this.#longestStop > 0 && this.text.length > before) {
      const matched = this.#stopString(before);
      if (matched !== undefined) {
        this.#end({ type: "stop", matched });
        return true;
      }
    }
    if (ids.length >= options.maxTokens) {
      this.text += this.#detokenizer.flush();
      this.#end({ type: "length", length: ids.length });
      return true;
    }
    if ((ids.length - 1) % (options.streamInterval ?? 1) === 0) this.#collector.notify(this);
    return false;
  }

  /** Ends a request of which only the prompt was wanted here: its first token is all that it says. */
  handedOff(id: number): void {
    if (this.finish !== undefined) return;
    this.#take(id);
    this.text += this.#detokenizer.push(id) + this.#detokenizer.flush();
    this.#end({ type: "length", length: 0 });
  }

  /** Ends it with an error. */
  fail(failure: ChoiceFailure): void {
    if (this.finish === undefined) this.#end({ type: "abort", failure });
  }

  aborted(): void {
    if (this.finish === undefined) this.#end({ type: "abort" });
  }

  /** Tokens and text since the last call. */
  take(): ChoiceDelta {
    const visible = this.finish === undefined
      ? Math.max(this.#textSeen, this.text.length - this.#heldBack)
      : this.text.length;
    const delta = {
      text: this.text.slice(this.#textSeen, visible),
      ids: this.ids.slice(this.#idsSeen),
      scores: this.scores.length === 0 ? NO_SCORES : this.scores.slice(this.#idsSeen),
    };
    this.#textSeen = Math.max(visible, this.#textSeen);
    this.#idsSeen = this.ids.length;
    return delta;
  }

  #take(id: number): void {
    const { logprobs } = this.options;
    this.ids.push(id);
    if (logprobs === undefined) return;
    const top = logprobs > 0 ? this.source.top(logprobs) : [];
    this.scores.push({ id, logprob: this.source.logprob(), top });
  }

  /** Finds a stop string that ends in the text after `from`, and cuts the text there. */
  #stopString(from: number): string | undefined {
    const { stop, includeStop } = this.options;
    let best: { at: number; stop: string } | undefined;
    for (const candidate of stop) {
      const at = this.text.indexOf(candidate, Math.max(0, from - candidate.length + 1));
      if (at >= 0 && (best === undefined || at < best.at)) best = { at, stop: candidate };
    }
    if (best === undefined) return undefined;
    this.text = this.text.slice(0, best.at + (includeStop ? best.stop.length : 0));
    return best.stop;
  }

  #end(finish: ChoiceFinish): void {
    this.finish = finish;
    this.#collector.notify(this);
  }
}

/**
 * Gathers what a request's answers produce until someone looks: a slow reader gets several tokens at once, as from
 * the real servers, and nothing piles up.
 */
export class Collector {
  readonly choices: Choice[] = [];
  #news: Choice[] = [];
  #head = 0;
  #unfinished = 0;
  #wake: (() => void) | undefined;

  add(options: ChoiceOptions): Choice {
    const choice = new Choice(this, options);
    this.choices.push(choice);
    this.#unfinished++;
    return choice;
  }

  notify(choice: Choice): void {
    if (choice.finish !== undefined) this.#unfinished--;
    if (!choice.listed) {
      choice.listed = true;
      this.#news.push(choice);
    }
    const wake = this.#wake;
    this.#wake = undefined;
    wake?.();
  }

  /** The next answer with news, or undefined when all are finished and seen. */
  async next(): Promise<Choice | undefined> {
    while (this.#head === this.#news.length) {
      if (this.#unfinished === 0) return undefined;
      await new Promise<void>((resolve) => this.#wake = resolve);
    }
    const choice = this.#news[this.#head++]!;
    if (this.#head === this.#news.length) {
      this.#news = [];
      this.#head = 0;
    }
    choice.listed = false;
    return choice;
  }

  /** Waits until all answers are finished. */
  async finished(): Promise<void> {
    while (this.#unfinished > 0) await new Promise<void>((resolve) => this.#wake = resolve);
  }

  /** Waits for the first news. */
  async started(): Promise<void> {
    if (this.#head === this.#news.length && this.#unfinished > 0) {
      await new Promise<void>((resolve) => this.#wake = resolve);
    }
  }

  /** Stops all answers on the engine. */
  abort(scheduler: EngineScheduler): void {
    for (const choice of this.choices) if (choice.sequence !== undefined) scheduler.abort(choice.sequence);
  }
}
