import { INLINE_LENGTH, type LongTexts, type TokenEnds } from "../../../ml/tokenizers/long_texts.ts";
import type { TokenMark, TokenStream } from "../../../ml/tokenizers/token_stream.ts";
import type { AgentGraph } from "../graph/graph_types.ts";
import type { ResponsesFormat } from "../graph/template.ts";
import { type KnownText, layOut, type Precursor } from "./answer_layout.ts";
import type { PromptLayout } from "./prompt_layout.ts";

/** Longest text that a stream may hold back while it grows; a longer one (a run of blanks) waits for the final prompt. */
const MAX_PENDING = 64 * 1024;

/** Longest texts of precursors, together, that are read again whenever there is more of them. */
const MAX_WRITTEN = 2 * 1024 * 1024;

/** Where a growing prompt has come to. */
export interface GrowingStep {
  /** So many of the tokens that were stable still are: all, unless a precursor has gone whose text was among them. */
  readonly kept: number;
  /** The precursor that writes at its end; undefined where none does. */
  readonly waitsFor: string | undefined;
  /** Resolves when text that is being encoded elsewhere has been taken in: then there may be more. */
  readonly busy?: Promise<void> | undefined;
}

/** Options of a `SplicedPrompt`. */
export interface SpliceOptions {
  readonly layout: PromptLayout;
  readonly responses: ResponsesFormat;
  readonly slots: AgentGraph["slots"];
  /** The state of those who write into the slots, in declared order. */
  readonly precursors: () => readonly Precursor[];
  /** Their texts as they stand in the prompt. */
  readonly guard: (precursors: readonly Precursor[]) => readonly Precursor[];
  readonly stream: TokenStream;
  /** What the stream is given has the marks of `ControlTokens`. */
  readonly marked: boolean;
  /** Encodes what is long; absent: the stream may be given texts of any length. */
  readonly longTexts: LongTexts | undefined;
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
  /** Tokens that are certain where the last slot ends; undefined before that is known. */
  #slotsEnd: number | undefined;
  #keptTokens = 0;
  /** The stream before each part that was fed, with the length of the text until there. */
  readonly #marks: { readonly length: number; readonly mark: TokenMark }[];

  /** Text is being encoded elsewhere. */
  #job: Promise<void> | undefined;
  /** The number of that work; another one once its result is of no use. */
  #turn = 0;
  /** Text could not be encoded elsewhere: no more is fed. */
  #stuck = false;

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

  /**
   * Tokens from the prompt's beginning to the end of its last slot, once its slots are filled: all that could be
   * computed before the last precursor had ended; what follows stands behind its answer.
   */
  get splicedTokens(): number | undefined {
    return this.#slotsEnd;
  }

  /** Of the tokens that were certain before the whole prompt was made, those with which it begins. */
  get keptTokens(): number {
    return this.#keptTokens;
  }

  /** True while a precursor writes on that worker. */
  isWrittenOn(workerId: string): boolean {
    return this.#options.precursors().some((one) => one.state === "writing" && one.worker === workerId);
  }

  /** Goes on to what is known now. `inline`: nothing long is begun. */
  update({ inline = false } = {}): GrowingStep {
    const known = this.#known();
    if (known === undefined) return { kept: this.stableTokens, waitsFor: undefined };
    const kept = this.#rewind(known.parts.join(""));
    const step = { kept, waitsFor: known.waitsFor };
    if (this.#job !== undefined) return { ...step, busy: this.#job };
    let end = 0;
    let budget = INLINE_LENGTH;
    for (const [index, part] of known.parts.entries()) {
      const begin = end;
      end += part.length;
      if (end <= this.#fed.length) continue;
      if (known.complete && index === known.slotParts) this.#slotsEnd = this.stableTokens;
      const { length } = this.#marks.at(-1)!;
      if (begin === this.#fed.length && begin > length) {
        this.#marks.push({ length: begin, mark: this.#options.stream.mark() });
      }
      const text = part.slice(this.#fed.length - begin);
      const { longTexts, stream } = this.#options;
      if (longTexts !== undefined && text.length + stream.pending > budget) {
        const waits = inline || this.#stuck || stream.pending > MAX_PENDING;
        return waits ? step : { ...step, busy: this.#feedElsewhere(text, longTexts) };
      }
      budget -= text.length;
      this.#feed(text);
    }
    if (known.complete) this.#slotsEnd ??= this.stableTokens;
    return step;
  }

  /**
   * Exactly the tokens of a text, without those in front of it; those of the prompt so far are not encoded again. `ends`
   * is that of an `EncodeJob`. Throws what `LongTexts` does.
   */
  encode(text: string, ends?: number): TokenEnds | Promise<TokenEnds> {
    const { stream, longTexts, marked } = this.#options;
    this.#keptTokens = this.#rewind(text);
    this.#dropJob();
    const rest = text.slice(this.#fed.length);
    if (longTexts === undefined || rest.length + stream.pending <= INLINE_LENGTH) {
      this.#slotsEnd ??= this.stableTokens;
      this.#feed(rest);
      const ids = stream.complete();
      return { ids, tokens: ids.length };
    }
    const behind = stream.stable.slice();
    return longTexts.encode({ text: rest, marked, from: stream.mark(), ends }, { behind }).then((encoded) => {
      // Where the last slot ends among so many is not looked for.
      this.#slotsEnd ??= encoded.tokens;
      return encoded;
    });
  }

  /** The text that is known; undefined where that is so much that it waits for the final prompt. */
  #known(): KnownText | undefined {
    const { layout, responses, slots, precursors, guard } = this.#options;
    const written = precursors();
    const length = written.reduce((sum, one) => sum + (one.state === "gone" ? 0 : one.text.length), 0);
    if (length > MAX_WRITTEN) return undefined;
    return layOut(layout.pieces, { precursors: guard(written), responses, slots, trims: layout.trims });
  }

  /** Never rejects. */
  #feedElsewhere(text: string, longTexts: LongTexts): Promise<void> {
    const { stream, marked } = this.#options;
    const turn = ++this.#turn;
    const job = longTexts.encode({ text, marked, from: stream.mark(), open: true }).then(
      ({ ids, state }) => {
        if (turn !== this.#turn || state === undefined) return;
        // A slot may have vanished meanwhile.
        if (this.#known()?.parts.join("").startsWith(this.#fed + text) !== true) return;
        stream.resume(ids, state);
        this.#fed += text;
      },
      // The prompt itself will say why, if that cannot be encoded either.
      () => void (this.#stuck = true),
    ).finally(() => {
      if (turn === this.#turn) this.#dropJob();
    });
    return this.#job = job;
  }

  #dropJob(): void {
    this.#turn++;
    this.#job = undefined;
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
    this.#dropJob();
    const { length, mark } = this.#marks.at(-1)!;
    stream.reset(mark);
    this.#slotsEnd = undefined;
    this.#fed = this.#fed.slice(0, length);
    return this.stableTokens;
  }
}
