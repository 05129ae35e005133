import assert from "node:assert/strict";
import { test } from "node:test";
import { configureSync, type LogRecord, resetSync } from "@logtape/logtape";
import { VirtualClock } from "../../../base/clock.ts";
import { CanopyError } from "../../../base/errors.ts";
import { logger } from "../../../base/log.ts";
import type { SchedulerEvent } from "../../../embedded/scheduler/scheduler.ts";
import { Precedence } from "../../../embedded/scheduler/precedence.ts";
import { WorkerGenerator } from "../../../embedded/thread/worker_generator.ts";
import type { FromDecoder, ToDecoder } from "../../../embedded/thread/worker_thread.ts";
import type { ThreadEvents } from "../../../ml/onnx/thread.ts";
import { collect, requestOf } from "../tiny.ts";

const counts = {
  running: 0,
  waiting: 0,
  cachedTokens: 0,
  cacheCapacityTokens: 100,
  promptTokens: 0,
  promptTokensCached: 0,
  generatedTokens: 0,
};
const facts = {
  model: "m",
  file: "m.onnx",
  vocabSize: 10,
  maxContextTokens: 50,
  threads: 1,
  fallbacks: [],
  arithmetic: { cpu: "any", products: "none" },
} as const;
const never = new AbortController().signal;

/** A thread that does nothing by itself. */
class FakeThread {
  readonly sent: ToDecoder[] = [];
  terminated = false;
  keptAlive = false;
  constructor(readonly events: ThreadEvents<FromDecoder>) {}
  ready(): void {
    this.events.message({ kind: "ready", facts, counts });
  }
  news(key: number, ...events: SchedulerEvent[]): void {
    this.events.message({ kind: "news", key, events, counts });
  }
}

function startFake(
  clock: VirtualClock,
  threads: FakeThread[],
  precedence?: Precedence,
): Promise<WorkerGenerator> {
  return WorkerGenerator.start({
    clock,
    precedence,
    log: logger("test"),
    maxSequences: 2,
    decoder: { model: "m", path: "m.onnx", threads: 1, cacheBytes: 1, maxContextTokens: 50, maxRunning: 4 },
    start: (_, events) => {
      const thread = new FakeThread(events);
      threads.push(thread);
      return {
        post: (message) => thread.sent.push(message),
        keepAlive: (on) => void (thread.keptAlive = on),
        terminate: () => void (thread.terminated = true),
      };
    },
  });
}

async function setUp() {
  const clock = new VirtualClock();
  const threads: FakeThread[] = [];
  const starting = startFake(clock, threads);
  assert.ok(threads[0]!.keptAlive, "the process waits for a model that loads");
  threads[0]!.ready();
  const generator = await starting;
  return { clock, threads, generator, first: threads[0]! };
}

function fails(code: string, status: number) {
  return (error: unknown): boolean => {
    assert.ok(CanopyError.is(error));
    assert.deepEqual([error.code, error.status], [code, status]);
    return true;
  };
}

test("events come in order, and the process waits for the thread while somebody waits for an answer", async () => {
  const { generator, first } = await setUp();
  assert.equal(first.keptAlive, false);
  const outcome = collect(generator.generate(requestOf([1, 2], 3), never));
  assert.ok(first.keptAlive);
  assert.deepEqual(first.sent, [{ kind: "generate", key: 0, request: requestOf([1, 2], 3) }]);
  assert.equal(generator.counts().waiting, 1);
  const token = { id: 4, logprob: -1, top: [] };
  first.news(0, { type: "prompt", cachedTokens: 1 }, { type: "token", token });
  first.news(0, { type: "token", token }, { type: "end", reason: "stop" });
  assert.deepEqual(await outcome, { cachedTokens: 1, ids: [4, 4], logprobs: [-1, -1], reason: "stop" });
  assert.equal(first.keptAlive, false);
  assert.equal(first.sent.length, 1, "what has come to its end is not aborted");
});

test("a model whose numbers are wrong is told of in one line with the remedy", async () => {
  const records: LogRecord[] = [];
  configureSync({
    reset: true,
    sinks: { test: (record) => void records.push(record) },
    loggers: [
      { category: "canopy", lowestLevel: "warning", sinks: ["test"] },
      { category: ["logtape", "meta"], lowestLevel: "error", sinks: ["test"] },
    ],
  });
  try {
    for (const agreement of [0.95, 0.4]) {
      const threads: FakeThread[] = [];
      const starting = startFake(new VirtualClock(), threads);
      const check = { against: "model.onnx", agreement, least: 0.8 };
      threads[0]!.events.message({ kind: "ready", facts: { ...facts, check }, counts });
      await starting;
    }
  } finally {
    resetSync();
  }
  assert.equal(records.length, 1);
  assert.match(
    records[0]!.message.join(""),
    /^m: m\.onnx does not give the numbers of model\.onnx .*: set its onnx/,
  );
});

test("when the thread crashes its sequences fail with 502, and it is started again, later each time", async () => {
  const { clock, generator, threads, first } = await setUp();
  const failing = collect(generator.generate(requestOf([1], 3), never));
  first.events.crash("out of memory");
  await assert.rejects(failing, fails("engine_crashed", 502));
  // What comes meanwhile waits for the next thread.
  const outcome = collect(generator.generate(requestOf([2], 3), never));
  await clock.advance(clock.now() + 999);
  assert.equal(threads.length, 1);
  await clock.advance(clock.now() + 1);
  assert.equal(threads.length, 2);
  threads[1]!.ready();
  assert.equal(threads[1]!.sent.length, 1);
  threads[1]!.news(1, { type: "prompt", cachedTokens: 0 }, { type: "end", reason: "length" });
  assert.deepEqual((await outcome).reason, "length");
  threads[1]!.events.crash("again");
  await clock.advance(clock.now() + 1_000);
  assert.equal(threads.length, 3, "a thread that worked starts the count anew");
  threads[2]!.events.crash("again");
  await clock.advance(clock.now() + 1_999);
  assert.equal(threads.length, 3);
  await clock.advance(clock.now() + 1);
  assert.equal(threads.length, 4);
  await closeWith(generator, threads[3]!);
});

/** A thread that does as it is told. */
async function closeWith(generator: WorkerGenerator, thread: FakeThread): Promise<void> {
  const closed = generator.close();
  assert.deepEqual(thread.sent.at(-1), { kind: "close" });
  thread.events.message({ kind: "closed" });
  await closed;
  assert.ok(thread.terminated);
}

test("a model that cannot be used is refused at the start, and nothing is tried again", async () => {
  const threads: FakeThread[] = [];
  const starting = WorkerGenerator.start({
    clock: new VirtualClock(),
    log: logger("test"),
    maxSequences: 2,
    decoder: { model: "m", path: "m.onnx", threads: 1, cacheBytes: 1, maxContextTokens: 50, maxRunning: 4 },
    start: (_, events) => {
      threads.push(new FakeThread(events));
      return { post: () => {}, keepAlive: () => {}, terminate: () => {} };
    },
  });
  threads[0]!.events.message({ kind: "failed", reason: "It has no cache", code: "unsupported_export" });
  await assert.rejects(starting, fails("unsupported_export", 500));
  assert.equal(threads.length, 1);
});

test("more sequences than may wait are refused with 503, and one that fails fails alone", async () => {
  const { generator, first } = await setUp();
  const one = collect(generator.generate(requestOf([1], 3), never));
  const other = collect(generator.generate(requestOf([2], 3), never));
  await assert.rejects(
    collect(generator.generate(requestOf([3], 3), never)),
    fails("engine_overloaded", 503),
  );
  first.news(0, { type: "failed", reason: "its numbers are of no use" });
  await assert.rejects(one, fails("model_failed", 502));
  first.news(1, { type: "prompt", cachedTokens: 0 }, { type: "end", reason: "length" });
  await other;
});

test("an urgent sequence is told to the threads of the other models, and its end however it comes", async () => {
  const precedence = new Precedence();
  const clock = new VirtualClock();
  const threads: FakeThread[] = [];
  const starting = [startFake(clock, threads, precedence), startFake(clock, threads, precedence)];
  const [one, other] = threads;
  for (const thread of threads) thread.ready();
  const [generator] = await Promise.all(starting);
  const yields = () => other!.sent.flatMap((message) => message.kind === "yield" ? [message.to] : []);
  const urgent = { ...requestOf([1], 3), priority: -1 };
  const ends = [
    () => one!.news(0, { type: "end", reason: "length" }),
    () => one!.news(1, { type: "failed", reason: "its numbers are of no use" }),
    () => one!.events.crash("out of memory"),
  ];
  for (const [index, end] of ends.entries()) {
    const outcome = collect(generator!.generate(urgent, never)).catch(() => {});
    assert.deepEqual(yields(), [...new Array(index).fill([-1, undefined]).flat(), -1]);
    end();
    await outcome;
    assert.equal(yields().at(-1), undefined);
  }
  const outcome = collect(generator!.generate({ ...urgent, priorityTokens: 2 }, never)).catch(() => {});
  const token = { id: 4, logprob: -1, top: [] };
  one!.ready();
  one!.news(3, { type: "prompt", cachedTokens: 0 }, { type: "token", token });
  assert.equal(yields().at(-1), -1);
  one!.news(3, { type: "token", token });
  assert.equal(yields().at(-1), undefined, "only its first tokens were urgent");
  one!.news(3, { type: "token", token }, { type: "end", reason: "length" });
  await outcome;
  assert.equal(yields().length, 8);
  assert.deepEqual(one!.sent.filter(({ kind }) => kind === "yield"), [], "its own it knows");
});

test("an abort is told to the thread at once; closing ends all that run", async () => {
  const { generator, first } = await setUp();
  const controller = new AbortController();
  const reason = new Error("enough");
  const aborted = collect(generator.generate(requestOf([1], 3), controller.signal));
  const running = collect(generator.generate(requestOf([2], 3), never));
  controller.abort(reason);
  await assert.rejects(aborted, reason);
  assert.deepEqual(first.sent.at(-1), { kind: "abort", key: 0 });
  const ended = assert.rejects(running, fails("engine_closed", 503));
  await closeWith(generator, first);
  await ended;
  await assert.rejects(collect(generator.generate(requestOf([2], 3), never)), fails("engine_closed", 503));
});
