import { CanopyError } from "../../../base/errors.ts";
import { Notify } from "../../../base/notify.ts";
import type { GenerateEvent, TokenLogprob } from "../../engines/engine.ts";

/** One piece of an engine's answer. */
export type OutputDelta = Extract<GenerateEvent, { type: "delta" }>;

/** Everything that has come since a reader's last look. */
export type News = Required<Pick<OutputDelta, "text" | "reasoning" | "tokenIds" | "logprobs">>;

/** Longest output of one agent, in characters and pieces: far beyond any model's, a guard against a mad worker. */
const MAX_OUTPUT_SIZE = 16 * 1024 * 1024;

/**
 * An agent's output so far: a record that grows while successors and scorers look. Subscribers are called
 * with each token; readers come at their own pace. It keeps sums, not pieces: a token costs its characters and its id,
 * and a reader that is slow gets much at a time.
 */
export class OutputLog {
  #tokenIds: number[] = [];
  #logprobs: TokenLogprob[] = [];
  #text = "";
  #reasoning = "";
  #tokens = 0;
  #size = 0;
  #ended = false;
  #isRead = false;
  #restarts = 0;
  readonly #changed = new Notify();
  readonly #subscribers: ((tokens: number) => void)[] = [];

  get text(): string {
    return this.#text;
  }

  /** Reasoning that the engine separated from the text. */
  get reasoning(): string {
    return this.#reasoning;
  }

  /** Ids of the tokens, where the engine returns them. */
  get tokenIds(): readonly number[] {
    return this.#tokenIds;
  }

  /** Log-probabilities of the chosen tokens, where they were asked for. */
  get logprobs(): readonly TokenLogprob[] {
    return this.#logprobs;
  }

  /** Tokens seen: exact where the engine sends ids or log-probabilities, else the number of pieces (a lower bound). */
  get tokens(): number {
    return this.#tokens;
  }

  get ended(): boolean {
    return this.#ended;
  }

  /** True once a reader has had some of it. */
  get isRead(): boolean {
    return this.#isRead;
  }

  /** How often it began anew. */
  get restarts(): number {
    return this.#restarts;
  }

  /** Adds a piece; does nothing after the end. Throws 502 `answer_too_long` when the output outgrows all reason. */
  append(delta: OutputDelta): void {
    if (this.#ended) return;
    this.#size += 1 + delta.text.length + (delta.reasoning?.length ?? 0) + (delta.tokenIds?.length ?? 0);
    if (this.#size > MAX_OUTPUT_SIZE) {
      throw new CanopyError(
        `The worker's answer is longer than ${MAX_OUTPUT_SIZE} characters: limit max_tokens`,
        {
          code: "answer_too_long",
          status: 502,
        },
      );
    }
    this.#text += delta.text;
    if (delta.reasoning !== undefined) this.#reasoning += delta.reasoning;
    if (delta.tokenIds !== undefined) { for (const id of delta.tokenIds) this.#tokenIds.push(id); }
    if (delta.logprobs !== undefined) { for (const logprob of delta.logprobs) this.#logprobs.push(logprob); }
    const tokens = tokensOf(delta);
    this.#tokens += tokens;
    this.#changed.wakeAll();
    if (tokens > 0) { for (const subscriber of this.#subscribers) subscriber(tokens); }
  }

  /**
   * Forgets all that has come: the answer begins anew. False, and nothing happens, once a reader has had some of it,
   * and after the end.
   */
  restart(): boolean {
    if (this.#isRead || this.#ended) return false;
    this.#restarts++;
    this.#tokenIds = [];
    this.#logprobs = [];
    this.#text = "";
    this.#reasoning = "";
    this.#tokens = 0;
    this.#size = 0;
    return true;
  }

  /** Calls `onTokens` with the number of new tokens, right when they have come. */
  subscribe(onTokens: (tokens: number) => void): void {
    this.#subscribers.push(onTokens);
  }

  /** No more will come. */
  end(): void {
    this.#ended = true;
    this.#changed.wakeAll();
  }

  /**
   * Reads all that has come, then what is new each time that something is, until the end. Any number of readers may look,
   * each at its own pace. Throws the signal's reason when it aborts.
   */
  async *read(signal: AbortSignal): AsyncGenerator<News, void, undefined> {
    let seen = { size: 0, text: 0, reasoning: 0, tokenIds: 0, logprobs: 0 };
    while (true) {
      signal.throwIfAborted();
      if (seen.size < this.#size) {
        this.#isRead = true;
        const news = {
          text: this.#text.slice(seen.text),
          reasoning: this.#reasoning.slice(seen.reasoning),
          tokenIds: this.#tokenIds.slice(seen.tokenIds),
          logprobs: this.#logprobs.slice(seen.logprobs),
        };
        seen = {
          size: this.#size,
          text: this.#text.length,
          reasoning: this.#reasoning.length,
          tokenIds: this.#tokenIds.length,
          logprobs: this.#logprobs.length,
        };
        yield news;
      } else if (this.#ended) return;
      else await this.#changed.wait(signal);
    }
  }
}

/** Tokens in one piece, as far as it tells; 0 for a piece without content. */
export function tokensOf(delta: OutputDelta): number {
  const counted = Math.max(delta.tokenIds?.length ?? 0, delta.logprobs?.length ?? 0);
  if (counted > 0) return counted;
  const hasContent = delta.text !== "" || (delta.reasoning ?? "") !== "" ||
    (delta.toolCalls?.length ?? 0) > 0;
  return hasContent ? 1 : 0;
}
