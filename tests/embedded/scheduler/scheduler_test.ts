import assert from "node:assert/strict";
import { test } from "node:test";
import { fc, often } from "../../properties.ts";
import type { CacheGrowth, CacheLayout, CacheRows } from "../../../embedded/cache/cache_layout.ts";
import { type Extension, KeyValuePool } from "../../../embedded/cache/key_values.ts";
import type { CacheTensors, NextToken } from "../../../embedded/model/decoder_steps.ts";
import { Scheduler, type SchedulerEvent } from "../../../embedded/scheduler/scheduler.ts";
import { SequenceMemory } from "../../../embedded/scheduler/sequence_memory.ts";
import { requestOf } from "../tiny.ts";

const layout: CacheLayout = [
  { type: "float32", heads: 2, headDimensions: 3 },
  { type: "float16", heads: 1, headDimensions: 2 },
];

/** A row's numbers tell its token, its head and its tensor. */
function writeRow({ tensors, slot, rows, first }: CacheRows, row: number, id: number): void {
  for (const [index, { heads, headDimensions }] of layout.entries()) {
    for (let head = 0; head < heads; head++) {
      const start = ((slot * heads + head) * rows + first + row) * headDimensions;
      tensors[index]!.fill(id * 10 + head * 2 + index, start, start + headDimensions);
    }
  }
}

/** The tokens that are there, the same in all heads. */
function readRows({ tensors, slot, rows, first }: CacheRows, tokens: number): number[] {
  const ids = Array.from(
    { length: tokens },
    (_, row) => Math.floor(tensors[1]![(slot * rows + first + row) * 2]! / 10),
  );
  for (const [index, { heads, headDimensions }] of layout.entries()) {
    for (let head = 0; head < heads; head++) {
      const start = ((slot * heads + head) * rows + first) * headDimensions;
      const found = [...tensors[index]!.subarray(start, start + tokens * headDimensions)];
      const expected = ids.flatMap((id) =>
        new Array<number>(headDimensions).fill(id * 10 + head * 2 + index)
      );
      assert.deepEqual(found, expected);
    }
  }
  return ids;
}

/**
 * Its next token follows from all that it has seen, which it reads from the cache; notes how many tokens each step has,
 * and how many sequences each one in a batch. It fails where it sees `POISON` and more than 30 tokens.
 */
class FakeDecoder {
  readonly steps: number[] = [];
  readonly batches: number[] = [];
  async step(ids: readonly number[], { from, into }: Extension): Promise<Float32Array> {
    await Promise.resolve();
    this.steps.push(ids.length);
    const before = from?.tokens ?? 0;
    const all = before + ids.length;
    assert.ok(into.capacity >= all);
    const seen = from === undefined ? [] : readRows(from.place(before), before);
    const place = into.place(all);
    for (const [row, id] of [...seen, ...ids].entries()) writeRow(place, row, id);
    into.tokens = all;
    return logitsAfter([...seen, ...ids]);
  }
  async stepBatch(
    tokens: readonly NextToken[],
    from: CacheTensors,
    into: CacheTensors,
  ): Promise<Float32Array[]> {
    await Promise.resolve();
    this.batches.push(tokens.length);
    const seen = tokens.map(({ id, before }, slot) => {
      const first = from === into ? 0 : from.rows - before;
      assert.ok(before < into.rows);
      return [...readRows({ ...from, slot, first }, before), id];
    });
    for (const [slot, ids] of seen.entries()) {
      const first = from === into ? 0 : into.rows - ids.length;
      for (const [row, id] of ids.entries()) writeRow({ ...into, slot, first }, row, id);
    }
    return seen.map(logitsAfter);
  }
}

const POISON = 1234;

function logitsAfter(seen: readonly number[]): Float32Array {
  if (seen.includes(POISON) && seen.length > 30) throw new Error("Poisoned");
  return Float32Array.from({ length: 10 }, (_, id) => id === next(seen) ? 1 : 0);
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
  {
    maxTokens = 10_000,
    maxRunning = 4,
    besides = 8,
    alone = 32,
    growth = "copies" as CacheGrowth,
    batch = 0,
    scaledPerCall = false,
  } = {},
) {
  const told: Told[] = [];
  const decoder = Object.assign(new FakeDecoder(), { scaledPerCall });
  const ended = new Map<number, () => void>();
  let onNews = (_: Told) => {};
  const pool = new KeyValuePool(layout, growth, maxTokens);
  const memory = new SequenceMemory({ decoder, pool, maxBatchedTokens: batch });
  const scheduler = new Scheduler({
    decoder,
    memory,
    maxContextTokens: pool.maxSequenceTokens,
    maxRunning,
    chunkTokens: { alone, besides },
    news: (key, events) => {
      for (const event of events) {
        told.push({ key, event });
        onNews({ key, event });
        if (event.type === "end" || event.type === "failed") ended.get(key)?.();
      }
      // An abort.
      if (events.length === 0) ended.get(key)?.();
    },
  });
  const running = scheduler.run();
  return {
    told,
    decoder,
    scheduler,
    memory,
    pool,
    add: (
      key: number,
      prompt: readonly number[],
      tokens: number,
      priority?: number,
      priorityTokens?: number,
    ) =>
      new Promise<void>((resolve) => {
        ended.set(key, resolve);
        scheduler.add(key, { ...requestOf(prompt, tokens), priority, priorityTokens });
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

test("where a step has one scale for all its tokens, a prompt's first token has a step of its own, once", async () => {
  const { told, decoder, add, close } = setUp({ scaledPerCall: true });
  const prompt = promptOf(1, 70);
  await add(1, prompt, 1);
  assert.deepEqual(decoder.steps, [1, 31, 32, 6]);
  // The next prompt finds it in the cache.
  await add(2, [...prompt, 1, 2, 3], 1);
  assert.deepEqual(decoder.steps.slice(4), [3]);
  assert.deepEqual(idsOf(told, 1), answerTo(prompt, 1));
  await add(3, [5], 1);
  assert.deepEqual(decoder.steps.slice(5), [1]);
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

for (const growth of growths) {
  test(`answers side by side share a step from where they meet to where they part; the cache ${growth}`, async () => {
    const { told, decoder, memory, add, close, onNews } = setUp({ growth, batch: 1000 });
    let late: Promise<void> | undefined;
    onNews(({ key, event }) => {
      if (key === 1 && event.type === "token" && idsOf(told, 1).length === 10) {
        late = Promise.all([add(2, promptOf(2, 40), 20), add(3, promptOf(3, 5), 40)]).then(() => {});
      }
    });
    await add(1, promptOf(1, 6), 60);
    await late;
    for (const [key, length, tokens] of [[1, 6, 60], [2, 40, 20], [3, 5, 40]] as const) {
      assert.deepEqual(idsOf(told, key), answerTo(promptOf(key, length), tokens));
    }
    const sizes = decoder.batches.join("");
    assert.match(sizes, /^2+3+2+$/);
    // All but the first tokens, which are their prompts', and those of the first sequence alone.
    assert.ok(decoder.batches.reduce((sum, size) => sum + size, 0) > 80, sizes);
    assert.equal(memory.batch.usedTokens, 0);
    await close();
  });

  test(`who fails in a batch fails alone, and who is aborted leaves it with its step; the cache ${growth}`, async () => {
    const { told, decoder, scheduler, add, close, onNews } = setUp({ growth, batch: 1000 });
    onNews(({ key, event }) => {
      if (key === 3 && event.type === "token" && idsOf(told, 3).length === 12) scheduler.abort(3);
    });
    const poisoned = [POISON, ...promptOf(2, 9)];
    await Promise.all([add(1, promptOf(1, 6), 60), add(2, poisoned, 60), add(3, promptOf(3, 5), 60)]);
    assert.deepEqual(idsOf(told, 1), answerTo(promptOf(1, 6), 60));
    assert.deepEqual(idsOf(told, 2), answerTo(poisoned, 21));
    assert.deepEqual(told.filter(({ key }) => key === 2).at(-1)?.event, {
      type: "failed",
      reason: "The decoder failed: Poisoned",
    });
    assert.deepEqual(idsOf(told, 3), answerTo(promptOf(3, 5), 12));
    assert.ok(decoder.batches.length > 5);
    // What was computed of the one that left is known.
    const ids = [...promptOf(3, 5), ...idsOf(told, 3)];
    await add(4, [...ids, 1], 1);
    const [first] = told.filter(({ key }) => key === 4);
    assert.deepEqual(first?.event, { type: "prompt", cachedTokens: ids.length - 1 });
    // Those that come later share steps as before.
    const before = decoder.batches.length;
    await Promise.all([add(5, promptOf(5, 6), 20), add(6, promptOf(6, 6), 20)]);
    assert.ok(decoder.batches.length - before > 15);
    await close();
  });
}

test("a model that cannot compute in batches is asked to three times", async () => {
  const { told, decoder, add, close } = setUp({ batch: 1000 });
  let asked = 0;
  decoder.stepBatch = () => Promise.reject(new Error(`No batches: ${++asked}`));
  for (let key = 0; key < 10; key += 2) {
    await Promise.all([add(key, promptOf(key, 6), 20), add(key + 1, promptOf(key + 1, 5), 20)]);
    assert.deepEqual(idsOf(told, key), answerTo(promptOf(key, 6), 20));
  }
  assert.equal(asked, 3);
  await close();
});

test("sequences that are too long for what a batch saves are computed one by one", async () => {
  const { told, decoder, add, close } = setUp({ batch: 100 });
  await Promise.all([add(1, promptOf(1, 20), 40), add(2, promptOf(2, 20), 40), add(3, promptOf(3, 200), 40)]);
  for (const [key, length] of [[1, 20], [2, 20], [3, 200]] as const) {
    assert.deepEqual(idsOf(told, key), answerTo(promptOf(key, length), 40));
  }
  assert.deepEqual(new Set(decoder.batches), new Set([2]));
  await close();
});

for (const growth of growths) {
  test(`while an urgent sequence is there those behind it pause, in a batch or not; the cache ${growth}`, async () => {
    const { told, scheduler, add, close, onNews } = setUp({ growth, batch: 1000 });
    let late: Promise<void> | undefined;
    onNews(({ key, event }) => {
      if (event.type !== "token") return;
      if (key === 2 && idsOf(told, 2).length === 10) {
        // The more urgent one comes later.
        late ??= Promise.all([add(3, promptOf(3, 40), 12, -1), add(4, promptOf(4, 30), 6, -2)]).then(
          () => {},
        );
      }
    });
    await Promise.all([add(1, promptOf(1, 6), 40), add(2, promptOf(2, 9), 40)]);
    await late;
    const lengths = [[1, 6, 40], [2, 9, 40], [3, 40, 12], [4, 30, 6]] as const;
    for (const [key, length, tokens] of lengths) {
      assert.deepEqual(idsOf(told, key), answerTo(promptOf(key, length), tokens));
    }
    const keys = told.flatMap(({ key, event }) => event.type === "token" ? [key] : []);
    // Nobody else has a token from the first one of an urgent answer to its last.
    const [from, to] = [keys.findIndex((key) => key > 2), keys.findLastIndex((key) => key > 2)];
    assert.deepEqual(keys.slice(from, to + 1), [...new Array(6).fill(4), ...new Array(12).fill(3)]);
    assert.ok(from <= 22 && to < keys.length - 50, `${keys}`);
    assert.equal(scheduler.counts().running, 0);
    await close();
  });
}

test("a sequence may be urgent for its first tokens only: then it goes on as any other", async () => {
  const { told, add, close, onNews } = setUp({ batch: 1000 });
  let late: Promise<void> | undefined;
  onNews(({ key, event }) => {
    if (key === 1 && event.type === "token" && idsOf(told, 1).length === 10) {
      late ??= add(2, promptOf(2, 20), 20, -1, 5);
    }
  });
  await add(1, promptOf(1, 6), 40);
  await late;
  for (const [key, length, tokens] of [[1, 6, 40], [2, 20, 20]] as const) {
    assert.deepEqual(idsOf(told, key), answerTo(promptOf(key, length), tokens));
  }
  const keys = told.flatMap(({ key, event }) => event.type === "token" ? [key] : []);
  const from = keys.indexOf(2);
  assert.deepEqual(keys.slice(from, from + 5), [2, 2, 2, 2, 2]);
  assert.equal(keys.slice(from + 5, from + 15).filter((key) => key === 1).length, 5, `${keys}`);
  await close();
});

test("a model whose neighbour has an urgent sequence pauses, but for what is as urgent, and goes on when it is told", async () => {
  const { told, scheduler, add, close } = setUp();
  scheduler.yieldTo(-2);
  const ordinary = add(1, promptOf(1, 6), 5);
  await add(2, promptOf(2, 6), 5, -2);
  assert.deepEqual(idsOf(told, 1), []);
  const cut = add(3, promptOf(3, 6), 5, -1);
  for (let turn = 0; turn < 20; turn++) await Promise.resolve();
  assert.deepEqual(idsOf(told, 3), [], "it is less urgent than the neighbour's");
  scheduler.yieldTo(-1);
  await cut;
  assert.deepEqual(idsOf(told, 1), []);
  scheduler.yieldTo(undefined);
  await ordinary;
  assert.deepEqual(idsOf(told, 1), answerTo(promptOf(1, 6), 5));
  await close();
});

const job = fc.record({
  seed: fc.nat({ max: 2 }),
  length: fc.integer({ min: 1, max: 60 }),
  tokens: fc.nat({ max: 60 }),
  /** It comes when so much has been told, or when all is done. */
  after: fc.nat({ max: 150 }),
  /** It is aborted at this token of its answer. */
  abortAt: fc.option(fc.integer({ min: 1, max: 60 }), { freq: 4 }),
  poisoned: fc.integer({ min: 0, max: 9 }).map((value) => value === 0),
  priority: fc.constantFrom(undefined, undefined, 0, 10, -1, -2),
  priorityTokens: fc.option(fc.nat({ max: 20 }), { nil: undefined }),
});

test("whatever comes, however little memory there is, each answer is its own, and memory stays within its bound", async () => {
  const batchSizes = new Set<number>();
  await fc.assert(
    fc.asyncProperty(
      fc.array(job, { minLength: 1, maxLength: 12 }),
      fc.integer({ min: 420, max: 2500 }),
      fc.constantFrom(...growths),
      fc.constantFrom(0, 70, Infinity),
      fc.integer({ min: 1, max: 8 }),
      async (jobs, maxTokens, growth, batch, maxRunning) => {
        const { told, decoder, add, close, onNews, memory, pool, scheduler } = setUp({
          maxTokens,
          growth,
          batch,
          maxRunning,
        });
        const prompts = jobs.map(({ seed, length, poisoned }) => [
          ...poisoned ? [POISON] : [],
          ...promptOf(seed, length),
        ]);
        const coming = jobs.map(({ after }, key) => ({ key, after })).sort((a, b) => a.after - b.after);
        const counts = jobs.map(() => 0);
        const ends: Promise<void>[] = [];
        const come = () => {
          const { key } = coming.shift()!;
          const { tokens, priority, priorityTokens } = jobs[key]!;
          ends.push(add(key, prompts[key]!, tokens, priority, priorityTokens));
        };
        onNews(({ key, event }) => {
          assert.ok(pool.usedTokens <= maxTokens);
          if (event.type === "token" && ++counts[key]! === jobs[key]!.abortAt) scheduler.abort(key);
          while (coming.length > 0 && coming[0]!.after <= told.length) come();
        });
        while (coming.length > 0 || ends.length > 0) {
          if (coming.length > 0) come();
          await Promise.all(ends.splice(0));
        }
        for (const [key, { tokens, abortAt }] of jobs.entries()) {
          const prompt = prompts[key]!;
          const types = told.filter((one) => one.key === key).map(({ event }) => event.type);
          const fails = prompt[0] === POISON && prompt.length + Math.max(0, tokens - 1) > 30;
          const all = fails ? Math.max(0, 31 - prompt.length) : tokens;
          assert.deepEqual(idsOf(told, key), answerTo(prompt, Math.min(all, abortAt ?? all)), `${key}`);
          if (abortAt !== null && abortAt <= all) continue;
          assert.equal(types.at(-1), fails ? "failed" : "end");
          if (!fails) assert.deepEqual([types[0], types.length], ["prompt", tokens + 2]);
        }
        const { running, waiting } = scheduler.counts();
        assert.equal(running + waiting + memory.batch.usedTokens, 0);
        for (const size of decoder.batches) batchSizes.add(size);
        await close();
      },
    ),
    { numRuns: often(100) },
  );
  assert.ok(batchSizes.has(2) && batchSizes.has(3), `batches of ${[...batchSizes]}`);
});
