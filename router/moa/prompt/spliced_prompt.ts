import type { TokenMark, TokenStream } from "../../../ml/tokenizers/token_stream.ts";
import type { AgentGraph } from "../graph/graph_types.ts";
import type { ResponsesFormat } from "../graph/template.ts";
import { layOut, type Precursor } from "./answer_layout.ts";
import type { PromptLayout } from "./prompt_layout.ts";

/** Options of a `SplicedPrompt`. */
export interface SpliceOptions {
  readonly layout: PromptLayout;
  readonly responses: ResponsesFormat;
  readonly slots: AgentGraph["slots"];
  /** The state of those who write into the slots, in declared order. */
  readonly precursors: () => readonly Precursor[];
  readonly stream: TokenStream;
  /** Tokens in front of the text. */
  readonly prefix: readonly number[] | undefined;
}

/**
 * A prompt that grows while its precursors write. Every text is encoded once: a part that becomes certain is encoded
 * behind those before it, and when a slot vanishes, what came before it stays.
 */
export class SplicedPrompt {
  readonly #options: SpliceOptions;
  /** The text that the stream was given. */
  #fed = "";
  /** The stream before each part that was fed, with the length of the text until there. */
  readonly #marks: { readonly length: number; readonly mark: TokenMark }[];

  constructor(options: SpliceOptions) {
    this.#options = options;
    this.#marks = [{ length: 0, mark: options.stream.mark() }];
  }

  /** The first tokens of the final prompt, as far as they are certain. May be a live view. */
  get stable(): readonly number[] {
    const { stream, prefix } = this.#options;
    return prefix === undefined ? stream.stable : [...prefix, ...stream.stable];
  }

  /** Number of tokens that are certain. */
  get stableTokens(): number {
    const { stream, prefix = [] } = this.#options;
    return prefix.length + stream.stable.length;
  }

  /** True while a precursor writes on that worker. */
  isWrittenOn(workerId: string): boolean {
    return this.#options.precursors().some((one) => one.state === "writing" && one.worker === workerId);
  }

  /**
   * Goes on to what is known now. `kept`: so many of the tokens that were stable still are: all of them, unless a
   * precursor has gone whose text was among them. `waitsFor`: the precursor that writes at its end; undefined where
   * none does.
   */
  update(): { readonly kept: number; readonly waitsFor: string | undefined } {
    const { layout, responses, slots, precursors } = this.#options;
    const filling = { precursors: precursors(), responses, slots, trims: layout.trims };
    const known = layOut(layout.pieces, filling);
    const kept = this.#rewind(known.parts.join(""));
    let end = 0;
    for (const part of known.parts) {
      const begin = end;
      end += part.length;
      if (end <= this.#fed.length) continue;
      const { length } = this.#marks.at(-1)!;
      if (begin === this.#fed.length && begin > length) {
        this.#marks.push({ length: begin, mark: this.#options.stream.mark() });
      }
      this.#feed(part.slice(this.#fed.length - begin));
    }
    return { kept, waitsFor: known.waitsFor };
  }

  /** Exactly the tokens of a text, without those in front of it; those of the prompt so far are not encoded again. */
  encode(text: string): number[] {
    this.#rewind(text);
    this.#feed(text.slice(this.#fed.length));
    return this.#options.stream.complete();
  }

  #feed(text: string): void {
    this.#options.stream.append(text);
    this.#fed += text;
  }

  /** Goes back to where the text fed so far is the beginning of `text`; returns how many tokens stay. */
  #rewind(text: string): number {
    const { stream } = this.#options;
    if (text.startsWith(this.#fed)) return this.stableTokens;
    while (this.#marks.length > 1 && !text.startsWith(this.#fed.slice(0, this.#marks.at(-1)!.length))) {
      this.#marks.pop();
    }
    const { length, mark } = this.#marks.at(-1)!;
    stream.reset(mark);
    this.#fed = this.#fed.slice(0, length);
    return this.stableTokens;
  }
}
