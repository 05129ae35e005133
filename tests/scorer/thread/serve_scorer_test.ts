import assert from "node:assert/strict";
import { test } from "node:test";
import { SystemClock } from "../../../base/clock.ts";
import { logger } from "../../../base/log.ts";
import { LexicalEmbedder } from "../../../scorer/embedders/lexical_embedder.ts";
import { InlineScorer } from "../../../scorer/thread/inline_scorer.ts";
import { serveScorer } from "../../../scorer/thread/serve_scorer.ts";
import { WorkerScorer } from "../../../scorer/thread/worker_scorer.ts";
import type { StartScorerThread, ToScorerThread } from "../../../scorer/thread/worker_thread.ts";

test("several threads use one scorer: their answers have equal keys there and are told apart, and one that leaves takes only its own", async () => {
  const clock = new SystemClock();
  const embedder = new LexicalEmbedder({ maxTokens: 100 });
  const scorer = new InlineScorer(embedder, { clock, maxQueued: 10 });
  const starting = (prefix: string): StartScorerThread => (_, events) => {
    const serve = serveScorer(scorer, (message) => events.message(message), prefix);
    queueMicrotask(() => events.message({ kind: "ready", facts: embedder.facts }));
    return {
      post: (message: ToScorerThread) => {
        if (message.kind !== "answered" && message.kind !== "unanswered") serve(message);
      },
      keepAlive: () => {},
      terminate: () => {},
    };
  };
  const made = ["1/", "2/"].map((prefix) =>
    new WorkerScorer({
      clock,
      log: logger("scorer"),
      start: starting(prefix),
      embedder: { url: "http://nowhere", model: "m", span: "all", maxTokens: 100 },
      maxQueued: 10,
    })
  );
  const answers = [["the sky is blue", "the sky is blue"], ["the sky is blue", "fish swim deep down"]];
  const compare = async (at: number) => {
    for (const [key, text] of answers[at]!.entries()) {
      const feed = made[at]!.open(`a${key}`);
      feed.append(text);
      feed.end();
    }
    const { value } = await made[at]!.similarity("a0", "a1", "cosine", 60_000);
    return value;
  };
  const [same, other] = await Promise.all([compare(0), compare(1)]);
  assert.ok(same! > 0.99, `${same}`);
  assert.ok(other! < 0.5, `${other}`);
  await made[0]!.close();
  assert.ok((await made[1]!.similarity("a0", "a1", "cosine", 60_000)).value! < 0.5);
  await made[1]!.close();
  await scorer.close();
});
