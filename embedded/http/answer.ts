import { Detokenizer, type TextTokenizer } from "./detokenizer.ts";
import type { DrawnToken } from "../scheduler/generator.ts";

/** Why an answer ended. */
export interface Finish {
  readonly reason: "stop" | "length";
  /** The stop string or token id that ended it; null for the model's own end and for the limit. */
  readonly stop: string | number | null;
}

/** News of an answer since the last look. */
export interface AnswerDelta {
  readonly text: string;
  readonly tokens: readonly DrawnToken[];
}

export interface AnswerOptions {
  readonly index: number;
  /** Which prompt of the request it answers. */
  readonly promptIndex: number;
  readonly promptIds: readonly number[];
  readonly tokenizer: TextTokenizer;
  readonly minTokens: number;
  readonly stop: readonly string[];
  /** Ids that end the answer, and of them the one that is the model's own way to end. */
  readonly stopIds: ReadonlySet<number>;
  readonly endId: number | undefined;
  /** Leave the stop string, or the text of the stop token, in the text. */
  readonly includeStop: boolean;
  readonly skipSpecialTokens: boolean;
}

/** One answer in the making: makes text of tokens, and knows where its text stops. */
export class EmbeddedAnswer {
  readonly options: AnswerOptions;
  readonly #detokenizer: Detokenizer;
  readonly tokens: DrawnToken[] = [];
  /** All text so far, what is held back included. */
  text = "";
  cachedTokens = 0;
  finish: Finish | undefined;
  failure: unknown;
  #textSeen = 0;
  #tokensSeen = 0;

  constructor(options: AnswerOptions) {
    this.options = options;
    this.#detokenizer = new Detokenizer(options.tokenizer, options.promptIds, options.skipSpecialTokens);
  }

  get ended(): boolean {
    return this.finish !== undefined || this.failure !== undefined;
  }

  /** Takes a token; true when its text ends the answer. */
  push(token: DrawnToken): boolean {
    const { stopIds, includeStop, minTokens } = this.options;
    this.tokens.push(token);
    const mayStop = this.tokens.length > minTokens;
    if (mayStop && stopIds.has(token.id)) {
      this.text += this.#detokenizer.flush();
      if (includeStop) this.text += this.options.tokenizer.decode([token.id]);
      this.finish = { reason: "stop", stop: token.id === this.options.endId ? null : token.id };
      return true;
    }
    const from = this.text.length;
    this.text += this.#detokenizer.push(token.id);
    return mayStop && this.text.length > from && this.#stopAt(from);
  }

  /** The generator has ended it. */
  end(reason: Finish["reason"]): void {
    if (this.ended) return;
    const from = this.text.length;
    this.text += this.#detokenizer.flush();
    if (this.text.length > from && this.#stopAt(from)) return;
    this.finish = { reason, stop: null };
  }

  /** What is new and may be shown; the caller will not see it again. */
  take(): AnswerDelta {
    const visible = Math.max(this.#textSeen, this.text.length - (this.ended ? 0 : this.#heldBack()));
    const delta = {
      text: this.text.slice(this.#textSeen, visible),
      tokens: this.tokens.slice(this.#tokensSeen),
    };
    this.#textSeen = visible;
    this.#tokensSeen = this.tokens.length;
    return delta;
  }

  /** Finds the first stop string that ends after `from`, and cuts the text there. */
  #stopAt(from: number): boolean {
    let best: { at: number; stop: string } | undefined;
    for (const stop of this.options.stop) {
      const at = this.text.indexOf(stop, Math.max(0, from - stop.length + 1));
      if (at >= 0 && (best === undefined || at < best.at)) best = { at, stop };
    }
    if (best === undefined) return false;
    this.text = this.text.slice(0, best.at + (this.options.includeStop ? best.stop.length : 0));
    this.finish = { reason: "stop", stop: best.stop };
    return true;
  }

  /** Length of the longest end of the text that a stop string begins with. */
  #heldBack(): number {
    if (this.options.includeStop) return 0;
    let longest = 0;
    for (const stop of this.options.stop) {
      for (let length = Math.min(stop.length - 1, this.text.length); length > longest; length--) {
        if (this.text.endsWith(stop.slice(0, length))) longest = length;
      }
    }
    return longest;
  }
}
