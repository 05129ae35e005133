import { CanopyError } from "../../base/errors.ts";
import type { GenerateEvent, TokenLogprob } from "../engines/engine.ts";
import { AppendLog } from "./append_log.ts";

/** What an engine sent in one piece. */
export type Delta = Extract<GenerateEvent, { type: "delta" }>;

/** Longest output of one agent, in characters and pieces: far beyond any model's, a guard against a mad worker. */
const maxOutputSize = 16 * 1024 * 1024;

/**
 * What one agent has said so far: an append-only record that successors, scorers and streams read while it grows.
 * Pieces are kept as they came; nothing is copied when one is added.
 */
export class OutputLog {
  readonly #deltas = new AppendLog<Delta>();
  readonly #tokenIds: number[] = [];
  readonly #logprobs: TokenLogprob[] = [];
  #text = "";
  #reasoning = "";
  #tokens = 0;
  #size = 0;

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
    return this.#deltas.ended;
  }

  /** Adds a piece. Throws 502 `answer_too_long` when the output outgrows all reason. */
  append(delta: Delta): void {
    this.#size += 1 + delta.text.length + (delta.reasoning?.length ?? 0) + (delta.tokenIds?.length ?? 0);
    if (this.#size > maxOutputSize) {
      throw new CanopyError(
        `The worker's answer is longer than ${maxOutputSize} characters: limit max_tokens`,
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
    this.#tokens += tokensOf(delta);
    this.#deltas.append(delta);
  }

  /** No more will come. */
  end(): void {
    this.#deltas.end();
  }

  /** The pieces from index `from` on, past ones first, until the end. Throws the signal's reason when it aborts. */
  read(signal: AbortSignal, from = 0): AsyncIterable<Delta> {
    return this.#deltas.read(signal, from);
  }
}

/** Tokens in one piece, as far as it tells; 0 for a piece without content. */
export function tokensOf(delta: Delta): number {
  const counted = Math.max(delta.tokenIds?.length ?? 0, delta.logprobs?.length ?? 0);
  if (counted > 0) return counted;
  const hasContent = delta.text !== "" || (delta.reasoning ?? "") !== "" ||
    (delta.toolCalls?.length ?? 0) > 0;
  return hasContent ? 1 : 0;
}
