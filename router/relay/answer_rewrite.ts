/** A change to answers on their way to the client. */
export interface AnswerRewrite {
  /** A whole answer; returned as it is when there is nothing to change. */
  answer(bytes: Uint8Array): Uint8Array;
  /** Whole server-sent events. */
  events(bytes: Uint8Array): Uint8Array;
}

/** All of these changes, one after the other; undefined for none. */
export function allRewrites(rewrites: readonly AnswerRewrite[]): AnswerRewrite | undefined {
  if (rewrites.length < 2) return rewrites[0];
  return {
    answer: (bytes) => rewrites.reduce((soFar, one) => one.answer(soFar), bytes),
    events: (bytes) => rewrites.reduce((soFar, one) => one.events(soFar), bytes),
  };
}
