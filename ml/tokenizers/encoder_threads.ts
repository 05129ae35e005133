import { type Clock, deadlineSignal } from "../../base/clock.ts";
import { badRequest, CanopyError } from "../../base/errors.ts";
import { Semaphore } from "../../base/semaphore.ts";
import { turnByTurn, type Turns } from "../../base/turns.ts";
import { unlessAborted } from "../../base/stop_signal.ts";
import type { ChatMessage, RenderOptions } from "./chat_message.ts";
import type { EncoderFiles, FromEncoder, StartEncoder, TextPart, ToEncoder } from "./encoder_thread.ts";
import type { Encoded, EncodeJob, EncodeOptions, LongTexts } from "./long_texts.ts";

/** Threads of one tokenizer; each holds its vocabulary. */
const MAX_THREADS = 2;
/** Texts that wait for a thread. */
const MAX_WAITING = 256;
/** Longest text, in UTF-16 units: more than the longest contexts hold. */
const MAX_LENGTH = 32 * 1024 * 1024;
/** Text that is handed to a thread in a turn. */
const PART_LENGTH = 256 * 1024;
/** Ids that are listed in a turn. */
const TURN_IDS = 64 * 1024;
/** Longest time of one text in a thread, the thread's start included. */
const LIMIT_MS = 20_000;

/** Options of `EncoderThreads`. */
export interface EncoderThreadsOptions {
  /** Read again for each thread that starts. */
  readonly files: () => Promise<EncoderFiles>;
  readonly start: StartEncoder;
  readonly clock: Clock;
}

/**
 * Encodes long texts in a few threads, which start with the first such text. One that takes too long is given up: its
 * thread is ended, and the next text gets a new one. One that nobody waits for any more is encoded to its end, since a
 * new thread costs more.
 */
export class EncoderThreads implements LongTexts {
  readonly #options: EncoderThreadsOptions;
  readonly #turns = new Semaphore({
    permits: MAX_THREADS,
    maxWaiting: MAX_WAITING,
    full: () =>
      new CanopyError(`Cannot tokenise the prompt: ${MAX_WAITING} others wait for that; try again later`, {
        code: "queue_full",
        status: 429,
        retryAfterSeconds: 1,
      }),
  });
  readonly #idle: Encoder[] = [];

  constructor(options: EncoderThreadsOptions) {
    this.#options = options;
  }

  start(): void {
    if (this.#idle.length > 0) return;
    // Where it cannot start, the first text says why.
    this.encode({ text: "" }).catch(() => {});
  }

  async encode(job: EncodeJob, { signal, behind = [] }: EncodeOptions = {}): Promise<Encoded> {
    if (job.text.length > MAX_LENGTH) {
      throw tooLong(`it has ${job.text.length} characters, and at most ${MAX_LENGTH} are tokenised`);
    }
    const answer = await this.#ask(job, signal);
    if (answer.kind !== "encoded") throw failure(`it answered ${answer.kind}`);
    const ids = await turnByTurn(this.#options.clock, listInTurns(behind, answer.ids));
    return { ...answer, ids, tokens: behind.length + answer.tokens };
  }

  async decode(ids: readonly number[], signal?: AbortSignal): Promise<string> {
    const answer = await this.#ask({ ids: Int32Array.from(ids) }, signal);
    if (answer.kind !== "text") throw failure(`it answered ${answer.kind}`);
    return answer.text;
  }

  async render(messages: readonly ChatMessage[], options: RenderOptions = {}): Promise<string> {
    const answer = await this.#ask({ messages, options }, undefined);
    if (answer.kind !== "text") throw failure(`it answered ${answer.kind}`);
    return answer.text;
  }

  async #ask(job: Job, signal: AbortSignal | undefined): Promise<Answer> {
    const release = await this.#turns.acquire(signal);
    const answer = this.#answer(job).finally(release);
    return signal === undefined ? await answer : await unlessAborted(answer, signal);
  }

  async #answer(job: Job): Promise<Answer> {
    const { files, start, clock } = this.#options;
    const encoder = this.#idle.pop() ?? new Encoder(start, await files());
    const late = tooLong(`it took longer than ${LIMIT_MS} ms`);
    const deadline = deadlineSignal(clock, LIMIT_MS, late);
    const onLate = () => encoder.end(late);
    deadline.signal.addEventListener("abort", onLate, { once: true });
    try {
      return await turnByTurn(clock, encoder.ask(job));
    } finally {
      deadline.release();
      if (!encoder.over) this.#idle.push(encoder);
    }
  }
}

type Job = Exclude<ToEncoder, TextPart>;
type Answer = Exclude<FromEncoder, { kind: "failed" }>;

/** One thread, with one text at a time. */
class Encoder {
  readonly #thread: ReturnType<StartEncoder>;
  #current: PromiseWithResolvers<Answer> | undefined;
  #over: unknown;

  constructor(start: StartEncoder, files: EncoderFiles) {
    this.#thread = start(files, {
      message: (message) => this.#onMessage(message),
      crash: (reason) => this.end(failure(reason)),
    });
  }

  get over(): boolean {
    return this.#over !== undefined;
  }

  *ask(job: Job): Turns<Promise<Answer>> {
    let last = job;
    if ("text" in job) {
      const { text } = job;
      let at = 0;
      for (; text.length - at > PART_LENGTH; at += PART_LENGTH) {
        this.#thread.post({ part: text.slice(at, at + PART_LENGTH) });
        yield;
      }
      last = { ...job, text: text.slice(at) };
    }
    if (this.#over !== undefined) throw this.#over;
    this.#current = Promise.withResolvers();
    this.#thread.keepAlive(true);
    this.#thread.post(last);
    return this.#current.promise;
  }

  end(reason: unknown): void {
    this.#over ??= reason;
    this.#current?.reject(reason);
    this.#current = undefined;
    this.#thread.terminate();
  }

  #onMessage(message: FromEncoder): void {
    this.#thread.keepAlive(false);
    if (message.kind !== "failed") this.#current?.resolve(message);
    else this.#current?.reject(errorOf(message));
    this.#current = undefined;
  }
}

/**
 * Ids behind others, as a list. Counted, because iterating over typed arrays is some 50 times slower on Bun; and made at
 * its full length, because one that grows is copied, of millions all in one turn.
 */
function* listInTurns(behind: readonly number[], ids: Int32Array): Turns<number[]> {
  const list = new Array<number>(behind.length + ids.length);
  for (let at = 0; at < behind.length; at++) list[at] = behind[at]!;
  for (let at = 0; at < ids.length; at++) {
    if (at > 0 && at % TURN_IDS === 0) yield;
    list[behind.length + at] = ids[at]!;
  }
  return list;
}

function errorOf({ reason, refused }: Extract<FromEncoder, { kind: "failed" }>): CanopyError {
  switch (refused) {
    case "text_too_long":
      return tooLong(`its tokenizer cannot take it: ${reason}`);
    case "invalid_messages":
      return badRequest("messages", reason, refused);
    case undefined:
      return failure(reason);
  }
}

function failure(reason: string): CanopyError {
  return new CanopyError(`Cannot tokenise a prompt: its thread failed: ${reason}`, {
    code: "internal_error",
    status: 500,
  });
}

function tooLong(why: string): CanopyError {
  return badRequest("prompt", `Cannot tokenise the prompt: ${why}; shorten it`, "text_too_long");
}
