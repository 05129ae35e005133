import type { TokenMark } from "./token_stream.ts";

/** Longest text, in UTF-16 units, that is tokenised on the event loop: a few milliseconds. */
export const INLINE_LENGTH = 4096;

/** A text to encode. */
export interface EncodeJob {
  readonly text: string;
  /** It has the marks of `ControlTokens`. */
  readonly marked?: boolean | undefined;
  /** The state of the stream that the text goes on from; absent: the text's beginning. Tokenizers that stream only. */
  readonly from?: TokenMark | undefined;
  /** More text may follow: only what is certain is encoded, and `state` says where to go on. */
  readonly open?: boolean | undefined;
  /** Encoding ends when there are more ids than that. */
  readonly maxTokens?: number | undefined;
}

/** An encoded text. */
export interface Encoded {
  readonly ids: Int32Array;
  /** The state of the stream behind them. */
  readonly state: TokenMark | undefined;
  /** There are more than `maxTokens` ids, of which these are the first. */
  readonly over: boolean;
}

/** Encodes and decodes texts of any length off the event loop. */
export interface LongTexts {
  /**
   * Throws 400 `text_too_long` for a text that takes too long, 503 `overloaded` where too many wait, the signal's reason
   * when it aborts.
   */
  encode(job: EncodeJob, signal?: AbortSignal): Promise<Encoded>;
  /** The text of ids, special tokens included. Throws what `encode` throws. */
  decode(ids: readonly number[], signal?: AbortSignal): Promise<string>;
  /** Has what it needs started before the first text comes: starting takes a while. */
  start(): void;
}

/** Ids behind others, as an array. Counted, because iterating over typed arrays is some 50 times slower on Bun. */
export function joinedIds(first: readonly number[], rest: ArrayLike<number>): number[] {
  const ids = first.slice();
  for (let at = 0; at < rest.length; at++) ids.push(rest[at]!);
  return ids;
}
