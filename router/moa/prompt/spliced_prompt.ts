import type { TokenMark, TokenStream } from "../../../ml/tokenizers/token_stream.ts";
import type { Graph } from "../graph/graph_types.ts";
import type { ResponsesFormat } from "../graph/template.ts";
import { type KnownText, knownText, type Precursor } from "./splice_answers.ts";
import type { Layout } from "./splice_layout.ts";

/** What a prompt is spliced by. */
export interface SpliceOptions {
  readonly layout: Layout;
  readonly responses: ResponsesFormat;
  readonly slots: Graph["slots"];
  readonly stream: TokenStream;
  /** Tokens in front of the text. */
  readonly prefix?: readonly number[];
}

/**
 * A prompt that grows while its precursors write. Every text is encoded once: a part that becomes certain is encoded
 * behind those before it, and when a slot vanishes, what came before it stays.
 */
export class SplicedPrompt {
  readonly #options: SpliceOptions;
  /** What the stream was given. */
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

  /** How many tokens are certain. */
  get stableTokens(): number {
    const { stream, prefix = [] } = this.#options;
    return prefix.length + stream.stable.length;
  }

  /**
   * Goes on to what is known now. `kept`: so many of the tokens that were stable still are: all of them, unless a
   * precursor has gone whose text was among them.
   */
  update(precursors: readonly Precursor[]): KnownText & { readonly kept: number } {
    const { layout, responses, slots } = this.#options;
    const known = knownText(layout, precursors, responses, slots);
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
    return { ...known, kept };
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
