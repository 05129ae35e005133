import type { CanopyError } from "../../../../base/errors.ts";
import type { JsonObject } from "../../../../base/json.ts";
import type { RunEvent } from "../../../moa/run/run.ts";
import { DONE_EVENT, sseEvent } from "../../../wire/sse.ts";
import { errorBody } from "../../../wire/error_form.ts";
import type { AnswerWriter } from "./answer.ts";
import type { RunAnswer, RunsSoFar } from "./run_answer.ts";

/** Options of a stream in OpenAI's form. */
export interface OpenAiStreamOptions {
  readonly includeUsage: boolean;
  readonly continuousUsage: boolean;
  /** Present where `canopy.include` was sent. */
  readonly include: readonly string[] | undefined;
}

/** OpenAI's objects as a request's answer: one JSON, or events of chunks with `[DONE]` behind them. */
export class OpenAiAnswer implements RunAnswer {
  readonly streamType = "text/event-stream";
  readonly #writer: AnswerWriter;
  readonly #options: OpenAiStreamOptions;

  constructor(writer: AnswerWriter, options: OpenAiStreamOptions) {
    this.#writer = writer;
    this.#options = options;
  }

  add(event: RunEvent): void {
    this.#writer.add(event);
  }

  whole(runs: RunsSoFar): JsonObject {
    return this.#writer.whole({ usage: runs.usage(), ...runs.canopy() });
  }

  *written(event: RunEvent, runs: RunsSoFar): Generator<Uint8Array, void, undefined> {
    const { continuousUsage, includeUsage } = this.#options;
    for (const chunk of this.#writer.chunks(event)) {
      if (continuousUsage) yield sseEvent({ ...chunk, usage: runs.usage() });
      else yield sseEvent(includeUsage ? { ...chunk, usage: null } : chunk);
    }
  }

  *closing(runs: RunsSoFar): Generator<Uint8Array, void, undefined> {
    const { includeUsage, include } = this.#options;
    if (includeUsage || include !== undefined) {
      const usage = includeUsage ? { usage: runs.usage() } : {};
      yield sseEvent(this.#writer.closing({ ...usage, ...runs.canopy() }));
    }
    yield DONE_EVENT;
  }

  /** The error is the last event: there is no `[DONE]` behind it. */
  *failed(error: CanopyError): Generator<Uint8Array, void, undefined> {
    yield sseEvent(errorBody(error));
  }
}
