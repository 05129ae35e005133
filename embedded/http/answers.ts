import { messageOf } from "../../base/errors.ts";
import { type AnswerOptions, EmbeddedAnswer } from "./answer.ts";
import type { Generator, SequenceRequest } from "../scheduler/generator.ts";

/** One answer to start. */
export interface AnswerJob {
  readonly options: AnswerOptions;
  readonly request: SequenceRequest;
}

/**
 * The answers of one request while they are made. What a slow reader has not taken is joined: nothing piles up but
 * the answers themselves.
 */
export class Answers {
  readonly list: readonly EmbeddedAnswer[];
  readonly #abort = new AbortController();
  readonly #changed = new Set<EmbeddedAnswer>();
  #wake: (() => void) | undefined;
  #running: number;

  constructor(generator: Generator, jobs: readonly AnswerJob[]) {
    this.list = jobs.map(({ options }) => new EmbeddedAnswer(options));
    this.#running = jobs.length;
    for (const [index, { request }] of jobs.entries()) {
      const answer = this.list[index]!;
      this.#drive(generator, request, answer).catch((error: unknown) => {
        if (!answer.ended) answer.failure = error;
      }).finally(() => {
        this.#running--;
        this.#note(answer);
      });
    }
  }

  /** The next answer with news; undefined when all have ended and were looked at. */
  async next(): Promise<EmbeddedAnswer | undefined> {
    while (this.#changed.size === 0) {
      if (this.#running === 0) return undefined;
      await new Promise<void>((resolve) => this.#wake = resolve);
    }
    const [answer] = this.#changed;
    this.#changed.delete(answer!);
    return answer;
  }

  /** Waits until all have ended. Throws what one of them failed with, and ends the others. */
  async finished(): Promise<void> {
    for (let answer = await this.next(); answer !== undefined; answer = await this.next()) {
      if (answer.failure === undefined) continue;
      this.stop(answer.failure);
      throw answer.failure;
    }
  }

  /** Ends what still runs. */
  stop(reason: unknown): void {
    this.#abort.abort(reason);
  }

  async #drive(generator: Generator, request: SequenceRequest, answer: EmbeddedAnswer): Promise<void> {
    const enough = new AbortController();
    const signal = AbortSignal.any([this.#abort.signal, enough.signal]);
    for await (const event of generator.generate(request, signal)) {
      if (event.type === "prompt") answer.cachedTokens = event.cachedTokens;
      else if (event.type === "end") answer.end(event.reason);
      else if (answer.push(event.token)) {
        this.#note(answer);
        enough.abort(new Error(`The answer has ended: ${messageOf(answer.finish?.stop ?? "stop token")}`));
        break;
      }
      if (event.type !== "prompt") this.#note(answer);
    }
    if (!answer.ended) throw new Error("The generator ended without a reason");
  }

  #note(answer: EmbeddedAnswer): void {
    this.#changed.add(answer);
    const wake = this.#wake;
    this.#wake = undefined;
    wake?.();
  }
}
