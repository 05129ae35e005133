import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import {
  type CacheGrowth,
  type CacheLayout,
  type Extension,
  KeyValuePool,
} from "../../embedded/key_values.ts";
import { Scheduler, type SchedulerEvent } from "../../embedded/scheduler.ts";
import { requestOf } from "./tiny.ts";

const layout: CacheLayout = [{ type: "float32", heads: 1, headDimensions: 1 }];

/** Its next token follows from all that it has seen, which it reads from the cache; notes each step's length. */
class FakeDecoder {
  readonly steps: number[] = [];
  async step(ids: readonly number[], { from, into }: Extension): Promise<Float32Array> {
    await Promise.resolve();
    this.steps.push(ids.length);
    const before = from?.tokens ?? 0;
    assert.ok(into.capacity >= before + ids.length);
    const [seen] = into.tensors;
    if (from !== undefined && from !== into) seen!.set(from.tensors[0]!.subarray(0, before));
    seen!.set(ids, before);
    into.tokens = before + ids.length;
    return Float32Array.from({ length: 10 }, (_, id) => id === next(seen!.subarray(0, into.tokens)) ? 1 : 0);
  }
}

function next(seen: ArrayLike<number>): number {
  return Array.from(seen).reduce((hash, id) => (hash * 7 + id + 3) % 10, 0);
}

function answerTo(prompt: readonly number[], tokens: number): number[] {
  const ids = [...prompt];
  for (let count = 0; count < tokens; count++) ids.push(next(ids));
  return ids.slice(prompt.length);
}

interface Told {
  readonly key: number;
  readonly event: SchedulerEvent;
}

const growths: readonly CacheGrowth[] = ["copies", "appends"];

function setUp(
  { maxTokens = 10_000, maxRunning = 4, besides = 8, alone = 32, growth = "copies" as CacheGrowth } = {},
) {
  const told: Told[] = [];
  const decoder = new FakeDecoder();
  const ended = new Map<number, () => void>();
  let onNews = (_: Told) => {};
  const pool = new KeyValuePool(layout, growth, maxTokens);
  const scheduler = new Scheduler({
    decoder,
    pool,
    maxContextTokens: pool.maxSequenceTokens,
    maxRunning,
    chunkTokens: { alone, besides },
    news: (key, events) => {
      for (const event of events) {
        told.push({ key, event });
        onNews({ key, event });
        if (event.type === "end" || event.type === "failed") ended.get(key)?.();
      }
    },
  });
  const running = scheduler.run();
  return {
    told,
    decoder,
    scheduler,
    pool,
    add: (key: number, prompt: readonly number[], tokens: number) =>
      new Promise<void>((resolve) => {
        ended.set(key, resolve);
        scheduler.add(key, requestOf(prompt, tokens));
      }),
    onNews: (listen: (news: Told) => void) => void (onNews = listen),
    close: async () => {
      scheduler.close();
      await running;
    },
  };
}

function idsOf(told: readonly Told[], key: number): number[] {
  return told.flatMap((one) => one.key === key && one.event.type === "token" ? [one.event.token.id] : []);
}

const promptOf = (seed: number, length: number): number[] =>
  Array.from({ length }, (_, at) => (seed * 13 + at * at) % 10);

test("sequences get a token each in turn, and a long prompt goes in pieces between them", async () => {
  const { told, decoder, add, close, onNews } = setUp();
  const long = promptOf(3, 100);
  let late: Promise<void> | undefined;
  onNews(({ key, event }) => {
    // Once two answers are on their way a long prompt comes.
    if (key === 2 && event.type === "token") late ??= add(3, long, 2);
  });
  await Promise.all([add(1, promptOf(1, 5), 30), add(2, promptOf(2, 6), 30)]);
  await late;
  for (
    const [key, prompt, tokens] of [[1, promptOf(1, 5), 30], [2, promptOf(2, 6), 30], [3, long, 2]] as const
  ) {
    assert.deepEqual(idsOf(told, key), answerTo(prompt, tokens));
  }
  const before = told.slice(0, told.findIndex(({ key }) => key === 3)).filter(({ key, event }) =>
    key < 3 && event.type === "token"
  );
  // 13 pieces of at most 8 tokens, and meanwhile one token of each.
  assert.ok(before.length >= 2 * 12);
  for (const [index, { key }] of before.slice(3).entries()) assert.equal(key, index % 2 + 1);
  assert.ok(decoder.steps.slice(2).every((length) => length <= 8));
  await close();
});

for (const growth of growths) {
  test(`prompts that are the same are computed once, also when they come together; the cache ${growth}`, async () => {
    const { told, scheduler, add, close } = setUp({ growth });
    const prompt = promptOf(1, 50);
    await Promise.all([1, 2, 3].map((key) => add(key, prompt, 4)));
    const cached = told.flatMap(({ event }) => event.type === "prompt" ? [event.cachedTokens] : []);
    assert.deepEqual(cached, [0, 49, 49]);
    for (const key of [1, 2, 3]) assert.deepEqual(idsOf(told, key), answerTo(prompt, 4));
    const { promptTokens, promptTokensCached, generatedTokens } = scheduler.counts();
    assert.deepEqual([promptTokens, promptTokensCached, generatedTokens], [150, 98, 12]);
    await close();
  });
}

test("an abort ends a sequence with the step that is under way, and what was computed is known", async () => {
  const { told, scheduler, decoder, add, close, onNews } = setUp({ alone: 10 });
  onNews(({ key, event }) => {
    if (key === 1 && event.type === "token") scheduler.abort(1);
  });
  const prompt = promptOf(1, 25);
  void add(1, prompt, 100);
  await add(2, promptOf(5, 3), 2);
  assert.equal(idsOf(told, 1).length, 1);
  assert.ok(decoder.steps.length < 12);
  await add(3, [...prompt, 1], 1);
  const events = told.filter(({ key }) => key === 3).map(({ event }) => event);
  assert.deepEqual(events[0], { type: "prompt", cachedTokens: 25 });
  assert.equal(scheduler.counts().running, 0);
  await close();
});

test("whatever comes, however little memory there is, each answer is its own, and memory stays within its bound", async () => {
  const job = fc.record({
    seed: fc.nat({ max: 2 }),
    length: fc.integer({ min: 1, max: 60 }),
    tokens: fc.nat({ max: 40 }),
  });
  await fc.assert(
    fc.asyncProperty(
      fc.array(job, { minLength: 1, maxLength: 12 }),
      fc.integer({ min: 320, max: 800 }),
      fc.constantFrom(...growths),
      async (jobs, maxTokens, growth) => {
        const { told, add, close, pool, scheduler } = setUp({ maxTokens, growth });
        await Promise.all(
          jobs.map(({ seed, length, tokens }, key) => add(key, promptOf(seed, length), tokens)),
        );
        for (const [key, { seed, length, tokens }] of jobs.entries()) {
          assert.deepEqual(idsOf(told, key), answerTo(promptOf(seed, length), tokens));
          const types = told.filter((one) => one.key === key).map(({ event }) => event.type);
          assert.deepEqual([types[0], types.at(-1), types.length], ["prompt", "end", tokens + 2]);
        }
        assert.ok(pool.usedTokens <= maxTokens);
        assert.equal(scheduler.counts().running + scheduler.counts().waiting, 0);
        await close();
      },
    ),
    { numRuns: 120 },
  );
});
