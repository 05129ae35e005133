import type { AnswerFeed, Scorer } from "../scorer.ts";
import type { FromScorerThread, ToScorerThread } from "./worker_thread.ts";

/** A message for the scorer itself, rather than for its transport. */
export type ToScorer = Exclude<ToScorerThread, { kind: "answered" | "unanswered" }>;

/**
 * Has a scorer do what messages of another thread say; `prefix` tells that thread's answers from those of others, who
 * go on when it closes.
 */
export function serveScorer(
  scorer: Scorer,
  post: (message: FromScorerThread) => void,
  prefix?: string,
): (message: ToScorer) => void {
  const feeds = new Map<number, AnswerFeed>();
  const idOf = (key: number) => `${prefix ?? ""}${key}`;
  return (message) => {
    if (message.kind === "close") {
      const done = () => post({ kind: "closed" });
      if (prefix === undefined) return void scorer.close().then(done, done);
      for (const feed of feeds.values()) feed.close();
      feeds.clear();
      return done();
    }
    for (const { key, opened, text, ended } of message.answers) {
      if (opened) feeds.set(key, scorer.open(idOf(key)));
      const feed = feeds.get(key);
      feed?.append(text);
      if (ended) feed?.end();
    }
    for (const { request, a, b, metric, deadlineMs } of message.comparisons) {
      scorer.similarity(idOf(a), idOf(b), metric, deadlineMs)
        .then((result) => post({ kind: "compared", request, result }));
    }
    for (const key of message.closed) {
      feeds.get(key)?.close();
      feeds.delete(key);
    }
    post({ kind: "taken" });
  };
}
