import type { ChatMessage } from "../../../ml/tokenizers/chat_message.ts";
import type { AgentGraph } from "../graph/graph_types.ts";
import type { Piece } from "../graph/template.ts";
import type { AgentAnswer } from "./answer.ts";
import { layOut, type Precursor } from "./answer_layout.ts";
import { fillWith, type OpenPrompt } from "./open_prompt.ts";
import type { GrowingStep } from "./spliced_prompt.ts";

/** Text that stands where a conversation is cut, so that the tokens before it can be told from those behind it. */
const PROBE = " x";
/** The end of a growing text, whose tokens may change with what follows: its last word, or some letters where none begins. */
const UNCERTAIN = { word: /\s+\S*$/, within: 64, letters: 8 };
/** Growth from which on it is asked again: so many characters, and such a share of what was asked before. */
const LEAST_GROWTH = { characters: 64, share: 1 / 32 };
/** Longest text that is asked; a longer one waits for the final prompt. */
const MAX_LENGTH = 1024 * 1024;
/** Failures after which nobody is asked any more. */
const MAX_FAILURES = 3;

/** Options of an `AskedPrompt`. */
export interface AskedPromptOptions {
  readonly open: Extract<OpenPrompt, { kind: "chat" }>;
  readonly slots: AgentGraph["slots"];
  /** The state of those who write into the slots, in declared order. */
  readonly precursors: () => readonly Precursor[];
  /** The tokens of a conversation in the engine's own chat template. */
  readonly askTokens: (messages: readonly ChatMessage[]) => Promise<readonly number[]>;
}

/** What is known of a conversation that grows. */
interface KnownConversation {
  /** Its texts up to where the known one ends. */
  readonly text: string;
  readonly waitsFor: string | undefined;
  /** The whole conversation, cut there; with `probe`, that stands at the cut. */
  readonly messages: (probe: string) => readonly ChatMessage[];
}

/**
 * A prompt that grows while its precursors write, and whose tokens the engine is asked for: nobody here knows its
 * tokenizer or its chat template. The conversation is sent with what is known of it, twice, with and without a probe
 * where that ends: the tokens that both have in common stand before it. They are for warms alone; the prompt itself goes
 * out as text, so that a token that comes out otherwise costs a piece of the cache and nothing more.
 */
export class AskedPrompt {
  readonly #options: AskedPromptOptions;
  #stable: readonly number[] = [];
  /** The least number of tokens that did not come out otherwise since the last update. */
  #certain = Infinity;
  /** The text that was asked. */
  #text = "";
  /** The lengths that it had before, each with the tokens that were known then. */
  readonly #marks: { readonly length: number; tokens: number }[] = [{ length: 0, tokens: 0 }];
  #waitsFor: string | undefined;
  #job: Promise<void> | undefined;
  #failures = 0;
  #splicedTokens: number | undefined;

  constructor(options: AskedPromptOptions) {
    this.#options = options;
  }

  /** The first tokens of the final prompt, as far as they are known. */
  get stable(): readonly number[] {
    return this.#stable;
  }

  /** Number of tokens that are known. */
  get stableTokens(): number {
    return this.#stable.length;
  }

  /** Tokens from the prompt's beginning to the end of its last slot, once the engine has told. */
  get splicedTokens(): number | undefined {
    return this.#splicedTokens;
  }

  /** True while a precursor writes on that worker. */
  isWrittenOn(workerId: string): boolean {
    return this.#options.precursors().some((one) => one.state === "writing" && one.worker === workerId);
  }

  /** Asks for the tokens of what has come since. `inline`: nobody is asked. */
  update({ inline = false } = {}): GrowingStep {
    const known = this.#known();
    const kept = this.#rewind(known.text);
    const step = { kept, waitsFor: known.waitsFor };
    if (inline || this.#failures >= MAX_FAILURES) return step;
    if (this.#job === undefined && this.#hasGrown(known)) {
      this.#job = this.#ask(known).finally(() => this.#job = undefined);
    }
    return this.#job === undefined ? step : { ...step, busy: this.#job };
  }

  /** Asks how many tokens there are up to the end of the last slot; `answers` are those of the final prompt. */
  finish(answers: readonly AgentAnswer[]): void {
    const { open, askTokens } = this.#options;
    const precursors = answers.map(({ agent, text }): Precursor => ({
      agent,
      text,
      state: "answered",
      sequence: 0,
    }));
    const filling = { precursors, responses: open.responses, slots: "declared", trims: false } as const;
    const slotted = slottedMessages(open);
    const filled = (probe: string) => {
      let seen = 0;
      return messagesOf(open, (pieces) => {
        const { parts, slotParts } = layOut(pieces, filling);
        const isLast = hasSlot(pieces) && ++seen === slotted;
        return isLast
          ? parts.slice(0, slotParts).join("") + probe + parts.slice(slotParts).join("")
          : parts.join("");
      });
    };
    Promise.all([askTokens(filled("")), askTokens(filled(PROBE))]).then(([plain, probed]) => {
      this.#splicedTokens = commonLength(plain, probed);
    }, () => {});
  }

  #hasGrown({ text, waitsFor }: KnownConversation): boolean {
    const growth = text.length - this.#text.length;
    if (growth <= 0 || text.length > MAX_LENGTH) return false;
    const least = Math.max(LEAST_GROWTH.characters, this.#text.length * LEAST_GROWTH.share);
    return growth >= least || waitsFor !== this.#waitsFor;
  }

  /** Never rejects. */
  async #ask({ text, waitsFor, messages }: KnownConversation): Promise<void> {
    this.#waitsFor = waitsFor;
    try {
      const { askTokens } = this.#options;
      const [plain, probed] = await Promise.all([askTokens(messages("")), askTokens(messages(PROBE))]);
      this.#failures = 0;
      // A slot may have vanished meanwhile.
      if (!text.startsWith(this.#text) || !this.#known().text.startsWith(text)) return;
      const stable = plain.slice(0, commonLength(plain, probed));
      const certain = commonLength(this.#stable, stable);
      if (certain < this.stableTokens) this.#certain = Math.min(this.#certain, certain);
      for (const mark of this.#marks) mark.tokens = Math.min(mark.tokens, certain);
      this.#stable = stable;
      this.#text = text;
      this.#marks.push({ length: text.length, tokens: stable.length });
    } catch {
      this.#failures++;
    }
  }

  /** Goes back to where what was asked is the beginning of `text`; returns how many tokens have stayed. */
  #rewind(text: string): number {
    while (this.#marks.length > 1 && !text.startsWith(this.#text.slice(0, this.#marks.at(-1)!.length))) {
      this.#marks.pop();
    }
    const { length, tokens } = this.#marks.at(-1)!;
    if (length < this.#text.length) {
      this.#text = this.#text.slice(0, length);
      this.#stable = this.#stable.slice(0, tokens);
    }
    const kept = Math.min(this.#certain, this.stableTokens);
    this.#certain = Infinity;
    return kept;
  }

  #known(): KnownConversation {
    const { open, slots, precursors } = this.#options;
    const filling = { precursors: precursors(), responses: open.responses, slots, trims: false };
    const texts: string[] = [];
    let cut: number | undefined;
    let waitsFor: string | undefined;
    let at = 0;
    messagesOf(open, (pieces) => {
      if (cut === undefined) {
        const known = layOut(pieces, filling);
        if (known.complete) texts.push(known.parts.join(""));
        else {
          cut = at;
          waitsFor = known.waitsFor;
          texts.push(withoutEnd(known.parts.join("")));
        }
      }
      at++;
      return "";
    });
    const messages = (probe: string) => {
      let index = 0;
      return messagesOf(open, (pieces) => {
        const text = texts[index];
        const end = index++ === (cut ?? texts.length - 1) ? probe : "";
        return text === undefined ? literalsOf(pieces) : text + end;
      });
    };
    return { text: texts.join("\0"), waitsFor, messages };
  }
}

/** The messages of a conversation, with texts made by `textOf` for those with slots. */
function messagesOf(
  open: AskedPromptOptions["open"],
  textOf: (pieces: readonly Piece[]) => string,
): readonly ChatMessage[] {
  const filled = fillWith(open, textOf);
  return filled.kind === "chat" ? filled.messages : [];
}

function slottedMessages({ messages }: AskedPromptOptions["open"]): number {
  return messages.filter((draft) => draft.kind === "open" && hasSlot(draft.pieces)).length;
}

function hasSlot(pieces: readonly Piece[]): boolean {
  return pieces.some(({ kind }) => kind !== "literal");
}

function literalsOf(pieces: readonly Piece[]): string {
  return pieces.map((piece) => piece.kind === "literal" ? piece.text : "").join("");
}

/** A text without the end whose tokens may change with what follows. */
function withoutEnd(text: string): string {
  const end = text.slice(-UNCERTAIN.within);
  const { index = Math.max(0, end.length - UNCERTAIN.letters) } = UNCERTAIN.word.exec(end) ?? {};
  const certain = text.slice(0, text.length - end.length + index);
  // Not within a pair of surrogates.
  return certain.isWellFormed() ? certain : certain.slice(0, -1);
}

function commonLength(a: readonly number[], b: readonly number[]): number {
  let length = 0;
  while (length < a.length && a[length] === b[length]) length++;
  return length;
}
