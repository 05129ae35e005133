import type { Json, JsonObject } from "../../../../base/json.ts";
import type { TokenLogprob } from "../../../engines/engine.ts";

const utf8 = new TextEncoder();

/** Chat style: one entry per token under `content`. */
export function chatLogprobs(tokens: readonly TokenLogprob[]): JsonObject {
  return {
    content: tokens.map((token): Json => ({
      token: token.token,
      logprob: token.logprob,
      bytes: bytesOf(token.token),
      top_logprobs: (token.top ?? []).map((top): Json => ({
        token: top.token,
        logprob: top.logprob,
        bytes: bytesOf(top.token),
      })),
    })),
    refusal: null,
  };
}

/** A replacement character stands for a part of a character, whose bytes are not known. */
function bytesOf(token: string): number[] | null {
  return token.includes("\ufffd") ? null : [...utf8.encode(token)];
}

/**
 * Completions style: parallel lists; each dictionary holds the chosen token, too.
 * `offset`: characters (code points) of the answer before these tokens.
 */
export function completionLogprobs(tokens: readonly TokenLogprob[], offset: number): JsonObject {
  const offsets: number[] = [];
  for (const { token } of tokens) {
    offsets.push(offset);
    offset += characters(token);
  }
  return {
    tokens: tokens.map(({ token }) => token),
    token_logprobs: tokens.map(({ logprob }) => logprob),
    top_logprobs: tokens.map((token) =>
      Object.fromEntries([...(token.top ?? []), token].map((top) => [top.token, top.logprob]))
    ),
    text_offset: offsets,
  };
}

/** Length in Unicode code points. */
export function characters(text: string): number {
  let count = 0;
  for (const _ of text) count++;
  return count;
}
