import type { ChatMessage, RenderOptions } from "./chat_message.ts";
import type { TokenMark } from "./token_stream.ts";

/** Longest text, in UTF-16 units, that is tokenised on the event loop: a few milliseconds. */
export const INLINE_LENGTH = 4096;
/** Most ids whose text is made on the event loop. */
export const INLINE_IDS = 2048;
/** Longest conversation, in messages, that is rendered on the event loop: some 20 µs each. */
export const INLINE_MESSAGES = 64;

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
  /** Of more than twice as many ids only so many of the first and of the last are given. Not of an `open` text. */
  readonly ends?: number | undefined;
}

/** The ids of a text, or of one with very many those at its ends. */
export interface TokenEnds {
  readonly ids: readonly number[];
  /** How many ids there are, given or not. */
  readonly tokens: number;
}

/** An encoded text. */
export interface Encoded<Ids = readonly number[]> {
  readonly ids: Ids;
  /** How many ids there are, given or not. */
  readonly tokens: number;
  /** The state of the stream behind them. */
  readonly state: TokenMark | undefined;
  /** There are more than `maxTokens` ids, of which these are the first. */
  readonly over: boolean;
}

/** Options of `LongTexts.encode`. */
export interface EncodeOptions {
  readonly signal?: AbortSignal | undefined;
  /** Ids in front of those of the text. */
  readonly behind?: readonly number[] | undefined;
}

/** Encodes, decodes and renders texts of any length off the event loop. */
export interface LongTexts {
  /**
   * Throws 400 `text_too_long` for a text that takes too long, 503 `overloaded` where too many wait, the signal's reason
   * when it aborts.
   */
  encode(job: EncodeJob, options?: EncodeOptions): Promise<Encoded>;
  /** The text of ids, special tokens included. Throws what `encode` throws. */
  decode(ids: readonly number[], signal?: AbortSignal): Promise<string>;
  /** As `renderChat`. Throws what it and `encode` throw. */
  render(messages: readonly ChatMessage[], options?: RenderOptions): Promise<string>;
  /** Has what it needs started before the first text comes: starting takes a while. */
  start(): void;
}
