import assert from "node:assert/strict";
import { test } from "node:test";
import { VirtualClock } from "../../../base/clock.ts";
import { logger } from "../../../base/log.ts";
import type { ThreadEvents } from "../../../ml/onnx/thread.ts";
import { WorkerScorer } from "../../../scorer/thread/worker_scorer.ts";
import type { FromScorerThread, ToScorerThread } from "../../../scorer/thread/worker_thread.ts";

const facts = { embedder: "onnx", model: "m", details: {} } as const;

type Batch = Extract<ToScorerThread, { kind: "batch" }>;

/** A thread that does nothing by itself. */
class FakeThread {
  readonly sent: ToScorerThread[] = [];
  terminated = false;
  constructor(readonly events: ThreadEvents<FromScorerThread>) {}
  get batches(): Batch[] {
    return this.sent.filter((message) => message.kind === "batch");
  }
  ready(): void {
    this.events.message({ kind: "ready", facts });
  }
  taken(): void {
    this.events.message({ kind: "taken" });
  }
}

function setUp() {
  const clock = new VirtualClock();
  const threads: FakeThread[] = [];
  const scorer = new WorkerScorer({
    clock,
    log: logger("test"),
    maxQueued: 8,
    embedder: {
      files: { folder: "f", path: "f/m.onnx" },
      model: "m",
      span: "all",
      maxTokens: 64,
      maxCachedTokens: 64,
    },
    start: (_, events) => {
      const thread = new FakeThread(events);
      threads.push(thread);
      return {
        post: (message) => thread.sent.push(message),
        keepAlive: () => {},
        terminate: () => void (thread.terminated = true),
      };
    },
  });
  return { clock, threads, scorer };
}

test("text waits for the thread to be ready and to have taken what it was sent, and is then sent joined", () => {
  const { scorer, threads: [thread] } = setUp();
  const [a, b] = [scorer.open("a"), scorer.open("b")];
  a.append("x".repeat(200));
  b.append("y");
  assert.equal(scorer.facts, undefined);
  assert.equal(thread!.sent.length, 0);
  thread!.ready();
  assert.deepEqual(scorer.facts, facts);
  assert.deepEqual(thread!.batches, [{
    kind: "batch",
    answers: [
      { key: 0, opened: true, text: "x".repeat(200), ended: false },
      { key: 1, opened: true, text: "y", ended: false },
    ],
    comparisons: [],
    closed: [],
  }]);
  for (let i = 0; i < 100; i++) a.append("word ");
  b.append("z");
  b.end();
  b.append("ignored");
  assert.equal(thread!.batches.length, 1, "the first batch is not taken yet");
  thread!.taken();
  assert.deepEqual(thread!.batches[1]!.answers, [
    { key: 0, opened: false, text: "word ".repeat(100), ended: false },
    { key: 1, opened: false, text: "z", ended: true },
  ]);
  thread!.taken();
  a.append("few");
  assert.equal(thread!.batches.length, 2, "a few characters are not worth a message");
});

test("a comparison resolves with the thread's result, after its deadline without", async () => {
  const { clock, scorer, threads: [thread] } = setUp();
  thread!.ready();
  for (const id of ["a", "b"]) scorer.open(id).end();
  thread!.taken();
  const [soon, late] = await clock.run(() => {
    const both = Promise.all([
      scorer.similarity("a", "b", "fcs", 300),
      scorer.similarity("b", "a", "cosine", 300),
    ]);
    thread!.taken();
    thread!.taken();
    const requests = thread!.batches.flatMap((batch) => batch.comparisons);
    assert.deepEqual(requests, [
      { request: 0, a: 0, b: 1, metric: "fcs", deadlineMs: 300 },
      { request: 1, a: 1, b: 0, metric: "cosine", deadlineMs: 300 },
    ]);
    thread!.events.message({
      kind: "compared",
      request: 0,
      result: { metric: "fcs", value: 0.5, tokens: [3, 4] },
    });
    return both;
  });
  assert.deepEqual(soon, { metric: "fcs", value: 0.5, tokens: [3, 4] });
  assert.equal(late!.value, undefined);
  assert.match(late!.reason!, /not known within 300 ms/);
  assert.equal(clock.now(), 300);
});

test("when the thread crashes its answers are unknown, it is started again, and new ones are compared", async () => {
  const { clock, scorer, threads } = setUp();
  await clock.run(async () => {
    threads[0]!.ready();
    const early = scorer.open("a");
    early.append("x".repeat(200));
    scorer.open("b").end();
    const waiting = scorer.similarity("a", "b", "fcs", 10_000);
    threads[0]!.events.crash("out of memory");
    const lost = await waiting;
    assert.equal(lost.value, undefined);
    assert.match(lost.reason!, /crashed: out of memory/);
    assert.equal(scorer.facts, undefined);
    // The feeds stay harmless.
    early.append("more");
    early.end();
    assert.match((await scorer.similarity("a", "b", "fcs", 300)).reason!, /crashed/);
    const late = scorer.open("c");
    late.append("c".repeat(300));
    await clock.sleep(999);
    assert.equal(threads.length, 1);
    await clock.sleep(2);
    assert.equal(threads.length, 2);
    threads[1]!.ready();
    // Of the second answer the first thread had not heard.
    assert.deepEqual(threads[1]!.batches[0]!.answers, [
      { key: 1, opened: true, text: "", ended: true },
      { key: 2, opened: true, text: "c".repeat(300), ended: false },
    ]);
    assert.deepEqual(threads[1]!.batches[0]!.closed, []);
    // It does so again and again: the waits double.
    threads[1]!.events.crash("again");
    await clock.sleep(1_990);
    assert.equal(threads.length, 2);
    await clock.sleep(20);
    assert.equal(threads.length, 3);
    await scorerClosed(scorer, threads[2]!);
  });
});

test("a model that cannot be used is told in every comparison, and is not tried again", async () => {
  const { clock, scorer, threads } = setUp();
  await clock.run(async () => {
    scorer.open("a").end();
    scorer.open("b").end();
    const waiting = scorer.similarity("a", "b", "fcs_u", 300);
    threads[0]!.events.message({
      kind: "failed",
      reason: "Cannot embed with m: it is broken",
      code: "unsupported_export",
      status: 500,
    });
    assert.match((await waiting).reason!, /it is broken/);
    assert.ok(threads[0]!.terminated);
    scorer.open("c").append("text");
    assert.match((await scorer.similarity("a", "c", "fcs_u", 300)).reason!, /it is broken/);
    await clock.sleep(1_000_000);
    assert.equal(threads.length, 1);
    await scorer.close();
  });
});

test("an answer that is closed is forgotten: unsent text is never sent, who waits for it gets no value", async () => {
  const { clock, scorer, threads: [thread] } = setUp();
  await clock.run(async () => {
    thread!.ready();
    const [a, b] = [scorer.open("a"), scorer.open("b")];
    a.append("x".repeat(200));
    thread!.taken();
    b.append("y");
    b.close();
    a.end();
    const waiting = scorer.similarity("a", "b", "fcs", 300);
    assert.match((await waiting).reason!, /b is not open/);
    scorer.open("c").end();
    const other = scorer.similarity("a", "c", "fcs", 300);
    a.close();
    assert.match((await other).reason!, /a is closed/);
    for (let i = 0; i < 4; i++) thread!.taken();
    assert.equal(thread!.batches.some(({ answers }) => answers.some(({ text }) => text === "y")), false);
    assert.deepEqual(thread!.batches.flatMap(({ closed }) => closed), [1, 0]);
    // The same id names another answer afterwards.
    scorer.open("a").end();
    thread!.taken();
    assert.equal(thread!.batches.at(-1)!.answers.at(-1)!.key, 3);
  });
});

test("what waits for the thread is bounded", async () => {
  const { scorer, threads: [thread] } = setUp();
  const [a, b] = [scorer.open("a"), scorer.open("b")];
  for (let i = 0; i < 20; i++) a.append("x".repeat(1024 * 1024));
  b.append("fine");
  thread!.ready();
  assert.deepEqual(thread!.batches[0]!.answers.map(({ key, text }) => [key, text]), [[1, "fine"]]);
  assert.match((await scorer.similarity("a", "b", "fcs", 300)).reason!, /busy/);
});

async function scorerClosed(scorer: WorkerScorer, thread: FakeThread): Promise<void> {
  const closing = scorer.close();
  assert.equal(thread.sent.at(-1)?.kind, "close");
  thread.events.message({ kind: "closed" });
  await closing;
  assert.ok(thread.terminated);
}
