import type { Json, JsonObject } from "../../../../base/json.ts";
import type { FinishReason, TokenLogprob } from "../../../engines/engine.ts";
import { type AnswerHead, type AnswerWriter, type EngineFields, NO_ENGINE_FIELDS } from "./answer.ts";
import { characters, completionLogprobs } from "./logprobs.ts";
import type { RunEvent } from "../../../moa/run/run.ts";

interface Choice {
  /** The prompt's text while it is still to be sent (`echo`). */
  echo: string;
  started: boolean;
  text: string;
  /** Characters of the tokens sent so far. */
  offset: number;
  logprobs: TokenLogprob[];
  tokenIds: number[];
  finishReason: FinishReason | null;
  stopReason: string | number | undefined;
}

/** `text_completion`, whole and in chunks. */
export class CompletionAnswer implements AnswerWriter {
  readonly #head: AnswerHead;
  readonly #logprobs: boolean;
  readonly #engine: EngineFields;
  readonly #choices: readonly Choice[];

  /** `echo`: the text that each choice begins with. */
  constructor(
    head: AnswerHead,
    options: {
      choices: number;
      logprobs: boolean;
      echo: (index: number) => string;
      engine?: EngineFields | undefined;
    },
  ) {
    this.#head = head;
    this.#logprobs = options.logprobs;
    this.#engine = options.engine ?? NO_ENGINE_FIELDS;
    this.#choices = Array.from({ length: options.choices }, (_, index) => {
      const begin = { echo: options.echo(index), started: false, text: "", offset: 0 };
      return { ...begin, logprobs: [], tokenIds: [], finishReason: null, stopReason: undefined };
    });
  }

  chunks(event: RunEvent): JsonObject[] {
    const choice = this.#choices[event.index];
    if (choice === undefined) return [];
    const more: JsonObject = {};
    let text = choice.echo;
    choice.echo = "";
    if (event.type === "end") {
      Object.assign(more, { finish_reason: event.finishReason }, this.#engine.ofEnd(event.stopReason));
    } else {
      text += event.delta.text;
      const tokens = this.#logprobs ? event.delta.logprobs ?? [] : [];
      if (tokens.length > 0) more["logprobs"] = completionLogprobs(tokens, choice.offset);
      for (const { token } of tokens) choice.offset += characters(token);
      Object.assign(more, this.#engine.ofTokens(event.delta.tokenIds ?? []));
      if (text === "" && Object.keys(more).length === 0) return [];
    }
    if (!choice.started) Object.assign(more, this.#engine.ofPrompt(event.index));
    choice.started = true;
    const { index } = event;
    return [{ ...this.#common(), choices: [{ index, text, logprobs: null, finish_reason: null, ...more }] }];
  }

  closing(fields: JsonObject): JsonObject {
    return { ...this.#common(), choices: [], ...fields };
  }

  add(event: RunEvent): void {
    const choice = this.#choices[event.index];
    if (choice === undefined) return;
    if (event.type === "end") {
      choice.finishReason = event.finishReason;
      choice.stopReason = event.stopReason;
      return;
    }
    for (const id of event.delta.tokenIds ?? []) choice.tokenIds.push(id);
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
        ...this.#engine.ofPrompt(index),
        ...this.#engine.ofEnd(choice.stopReason),
        ...this.#engine.ofTokens(choice.tokenIds),
      })),
      ...fields,
    };
  }

  #common(): JsonObject {
    const { id, created, model } = this.#head;
    return { id, object: "text_completion", created, model };
  }
}
