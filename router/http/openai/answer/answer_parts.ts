import { isJsonObject, type JsonObject } from "../../../../base/json.ts";
import type { FinishReason, TokenLogprob } from "../../../engines/engine.ts";
import type { RunEvent } from "../../../moa/run/run.ts";

/** A part of an answer, as far as it is written: what the root thought, what it said, one call of a tool. */
export type AnswerPart =
  | { readonly kind: "reasoning"; text: string }
  | { readonly kind: "text"; text: string; readonly logprobs: TokenLogprob[] }
  | { readonly kind: "call"; readonly id: string; readonly name: string; text: string };

/** A step in which a part is written; `at` counts the answer's parts. */
export type PartEvent =
  | { readonly type: "open" | "close"; readonly at: number; readonly part: AnswerPart }
  | {
    readonly type: "more";
    readonly at: number;
    readonly part: AnswerPart;
    readonly text: string;
    readonly logprobs: readonly TokenLogprob[];
  };

/**
 * An answer's one choice as parts that are written one after the other: a part is closed before the next one opens. An
 * answer without a text and without a call has an empty text.
 */
export class AnswerParts {
  readonly parts: AnswerPart[] = [];
  readonly #newCallId: () => string;
  #open = false;
  /** The engine's index of the call that is open. */
  #call: unknown;
  #finishReason: FinishReason | undefined;
  #stopReason: string | number | undefined;

  /** `newCallId`: for calls to which the engine gives none. */
  constructor(newCallId: () => string) {
    this.#newCallId = newCallId;
  }

  /** Undefined while the answer is written. */
  get finishReason(): FinishReason | undefined {
    return this.#finishReason;
  }

  /** The stop string or token id that has ended it, where the engine tells. */
  get stopReason(): string | number | undefined {
    return this.#stopReason;
  }

  *push(event: RunEvent): Generator<PartEvent, void, undefined> {
    if (event.type === "end") {
      this.#finishReason = event.finishReason;
      this.#stopReason = event.stopReason;
      if (this.parts.every(({ kind }) => kind === "reasoning")) yield* this.#change(emptyText());
      yield* this.#close();
      return;
    }
    const { reasoning = "", text, logprobs = [], toolCalls = [] } = event.delta;
    if (reasoning !== "") yield* this.#more({ kind: "reasoning", text: "" }, reasoning);
    const isText = text !== "" || (logprobs.length > 0 && this.#mayBeText(event.delta));
    if (isText) yield* this.#more(emptyText(), text, logprobs);
    for (const [at, call] of toolCalls.entries()) yield* this.#moreOfCall(call, at);
  }

  /** Of log-probabilities without a text: engines send those of thoughts and of calls, too, which have no place here. */
  #mayBeText({ reasoning = "", toolCalls = [] }: Extract<RunEvent, { type: "delta" }>["delta"]): boolean {
    if (reasoning !== "" || toolCalls.length > 0) return false;
    return !this.#open || this.parts.at(-1)?.kind === "text";
  }

  *#more(
    empty: AnswerPart,
    text: string,
    logprobs: readonly TokenLogprob[] = [],
  ): Generator<PartEvent, void, undefined> {
    const last = this.parts.at(-1);
    if (!this.#open || last?.kind !== empty.kind) yield* this.#change(empty);
    yield* this.#write(text, logprobs);
  }

  /** Calls come one after the other, the first piece of each with its name. */
  *#moreOfCall(call: JsonObject, at: number): Generator<PartEvent, void, undefined> {
    const index = call["index"] ?? at;
    const asked = isJsonObject(call["function"]) ? call["function"] : {};
    if (!this.#open || this.parts.at(-1)?.kind !== "call" || this.#call !== index) {
      this.#call = index;
      const { id } = call;
      const { name } = asked;
      yield* this.#change({
        kind: "call",
        id: typeof id === "string" && id !== "" ? id : this.#newCallId(),
        name: typeof name === "string" ? name : "",
        text: "",
      });
    }
    const text = asked["arguments"];
    if (typeof text === "string" && text !== "") yield* this.#write(text, []);
  }

  *#change(part: AnswerPart): Generator<PartEvent, void, undefined> {
    yield* this.#close();
    this.parts.push(part);
    this.#open = true;
    yield { type: "open", at: this.parts.length - 1, part };
  }

  *#write(text: string, logprobs: readonly TokenLogprob[]): Generator<PartEvent, void, undefined> {
    const at = this.parts.length - 1;
    const part = this.parts[at]!;
    part.text += text;
    if (part.kind === "text") { for (const token of logprobs) part.logprobs.push(token); }
    yield { type: "more", at, part, text, logprobs };
  }

  *#close(): Generator<PartEvent, void, undefined> {
    if (!this.#open) return;
    this.#open = false;
    const at = this.parts.length - 1;
    yield { type: "close", at, part: this.parts[at]! };
  }
}

function emptyText(): AnswerPart {
  return { kind: "text", text: "", logprobs: [] };
}
