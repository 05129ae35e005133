import type { Json, JsonObject } from "../../../base/json.ts";
import type { FinishReason, TokenLogprob } from "../../engines/engine.ts";
import type { AnswerHead, AnswerWriter } from "./answer.ts";
import { characters, completionLogprobs } from "./logprobs.ts";
import type { RunEvent } from "../../moa/run/run.ts";

interface Choice {
  /** The prompt's text while it is still to be sent (`echo`). */
  echo: string;
  text: string;
  /** Characters of the tokens sent so far. */
  offset: number;
  logprobs: TokenLogprob[];
  finishReason: FinishReason | null;
}

/** `text_completion`, whole and in chunks. */
export class CompletionAnswer implements AnswerWriter {
  readonly #head: AnswerHead;
  readonly #logprobs: boolean;
  readonly #choices: readonly Choice[];

  /** `echo`: the text that each choice begins with. */
  constructor(
    head: AnswerHead,
    options: { choices: number; logprobs: boolean; echo: (index: number) => string },
  ) {
    this.#head = head;
    this.#logprobs = options.logprobs;
    this.#choices = Array.from({ length: options.choices }, (_, index) => {
      const echo = options.echo(index);
      return { echo, text: "", offset: 0, logprobs: [], finishReason: null };
    });
  }

  chunks(event: RunEvent): JsonObject[] {
    const choice = this.#choices[event.index];
    if (choice === undefined) return [];
    let text = choice.echo;
    choice.echo = "";
    if (event.type === "end") return [this.#chunk(event.index, text, null, event.finishReason)];
    text += event.delta.text;
    const tokens = this.#logprobs ? event.delta.logprobs ?? [] : [];
    if (text === "" && tokens.length === 0) return [];
    const logprobs = tokens.length === 0 ? null : completionLogprobs(tokens, choice.offset);
    for (const { token } of tokens) choice.offset += characters(token);
    return [this.#chunk(event.index, text, logprobs, null)];
  }

  closing(fields: JsonObject): JsonObject {
    return { ...this.#common(), choices: [], ...fields };
  }

  add(event: RunEvent): void {
    const choice = this.#choices[event.index];
    if (choice === undefined) return;
    if (event.type === "end") {
      choice.finishReason = event.finishReason;
      return;
    }
    choice.text += event.delta.text;
    if (this.#logprobs) { for (const token of event.delta.logprobs ?? []) choice.logprobs.push(token); }
  }

  whole(fields: JsonObject): JsonObject {
    return {
      ...this.#common(),
      choices: this.#choices.map((choice, index): Json => ({
        index,
        text: choice.echo + choice.text,
        logprobs: this.#logprobs ? completionLogprobs(choice.logprobs, 0) : null,
        finish_reason: choice.finishReason,
      })),
      ...fields,
    };
  }

  #common(): JsonObject {
    const { id, created, model } = this.#head;
    return { id, object: "text_completion", created, model };
  }

  #chunk(index: number, text: string, logprobs: JsonObject | null, finish: FinishReason | null): JsonObject {
    return { ...this.#common(), choices: [{ index, text, logprobs, finish_reason: finish }] };
  }
}
