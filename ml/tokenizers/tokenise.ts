import { unmarked } from "./control_tokens.ts";
import { type EncodeJob, INLINE_IDS, INLINE_LENGTH, type TokenEnds } from "./long_texts.ts";
import type { ModelTokenizer } from "./model_tokenizer.ts";

/** Options of `tokenise`. */
export interface TokeniseOptions {
  /** The text has the marks of `ControlTokens`. */
  readonly marked?: boolean | undefined;
  /** Longest prompt; `tooLong` makes the error for one that has at least so many tokens. */
  readonly limit?: { readonly tokens: number; readonly tooLong: (leastTokens: number) => Error } | undefined;
  readonly signal?: AbortSignal | undefined;
}

/**
 * The token ids of a text: at once where it is short, else from a thread. A text that cannot fit, whatever its tokens,
 * is not encoded.
 */
export function tokenise(
  text: string,
  tokenizer: ModelTokenizer | undefined,
  { marked, limit, signal }: TokeniseOptions = {},
): readonly number[] | Promise<readonly number[]> {
  if (tokenizer === undefined) return [];
  const { longTexts, maxTokenBytes } = tokenizer;
  if (limit !== undefined && maxTokenBytes !== undefined && text.length > limit.tokens * maxTokenBytes) {
    // A UTF-16 unit is at least one byte.
    const least = Math.ceil((marked === true ? unmarked(text) : text).length / maxTokenBytes);
    if (least > limit.tokens) throw limit.tooLong(least);
  }
  if (longTexts === undefined || text.length <= INLINE_LENGTH) return tokenizer.encode(text, { marked });
  return longTexts.encode({ text, marked, maxTokens: limit?.tokens }, { signal }).then(({ ids, over }) => {
    if (over && limit !== undefined) throw limit.tooLong(limit.tokens + 1);
    return ids;
  });
}

/** Options of `tokenEnds`, as an `EncodeJob` has them. */
export type TokenEndsOptions = Pick<EncodeJob, "marked" | "ends"> & Pick<TokeniseOptions, "signal">;

/**
 * The token ids of a text that may be far too long for its use: of more than twice `ends` ids only those at its ends,
 * since a list of millions is too much for one turn of the event loop and for the collector.
 */
export function tokenEnds(
  text: string,
  tokenizer: ModelTokenizer | undefined,
  { marked, ends, signal }: TokenEndsOptions,
): TokenEnds | Promise<TokenEnds> {
  const longTexts = tokenizer?.longTexts;
  if (longTexts !== undefined && text.length > INLINE_LENGTH) {
    return longTexts.encode({ text, marked, ends }, { signal });
  }
  const ids = tokenizer?.encode(text, { marked }) ?? [];
  return { ids, tokens: ids.length };
}

/** The text of ids, special tokens included: at once of few, else from a thread. */
export function textOfIds(
  ids: readonly number[],
  tokenizer: ModelTokenizer,
  signal?: AbortSignal,
): string | Promise<string> {
  const { longTexts } = tokenizer;
  return longTexts === undefined || ids.length <= INLINE_IDS
    ? tokenizer.decode(ids, { skipSpecialTokens: false })
    : longTexts.decode(ids, signal);
}
