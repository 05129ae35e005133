import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "../../properties.ts";
import { SystemClock, VirtualClock } from "../../../base/clock.ts";
import { Random } from "../../../base/random.ts";
import type { Similarity } from "../../../scorer/scorer.ts";
import { InlineScorer } from "../../../scorer/thread/inline_scorer.ts";
import { FakeEmbedder, type FakeEmbedderOptions } from "../fake_embedder.ts";

interface World {
  readonly clock: VirtualClock;
  readonly embedder: FakeEmbedder;
  readonly scorer: InlineScorer;
}

function inWorld<T>(
  main: (world: World) => Promise<T>,
  options: Partial<FakeEmbedderOptions> & { maxQueued?: number } = {},
): Promise<T> {
  const clock = new VirtualClock();
  const embedder = new FakeEmbedder({ clock, ...options });
  const scorer = new InlineScorer(embedder, { clock, maxQueued: options.maxQueued ?? 8 });
  return clock.run(() => main({ clock, embedder, scorer }));
}

function answer(scorer: InlineScorer, id: string, text: string) {
  const feed = scorer.open(id);
  feed.append(text);
  feed.end();
  return feed;
}

test("two answers that have ended are compared, with their tokens and effective dimensions in the order asked for", () =>
  inWorld(async ({ scorer }) => {
    answer(scorer, "a", "abcd");
    answer(scorer, "b", "abc");
    const expected = { metric: "fcs_u", value: 0.75, tokens: [4, 3], effectiveDimensions: [5, 4] };
    assert.deepEqual(await scorer.similarity("a", "b", "fcs_u", 300), expected);
    const swapped = { ...expected, tokens: [3, 4], effectiveDimensions: [4, 5] };
    assert.deepEqual(await scorer.similarity("b", "a", "fcs_u", 300), swapped);
    assert.deepEqual(await scorer.similarity("a", "b", "cosine", 300), {
      metric: "cosine",
      value: 0.75,
      tokens: [4, 3],
      effectiveDimensions: undefined,
    });
  }));

test("what comes in one turn is embedded together, a long text in steps that cut no character in two", () =>
  inWorld(async ({ scorer, embedder, clock }) => {
    const feed = scorer.open("a");
    for (const token of ["one ", "two ", "", "three"]) feed.append(token);
    await clock.sleep(10);
    assert.deepEqual(embedder.calls, ["append one two three"]);
    feed.append("x".repeat(511) + "\u{1f468}" + "y".repeat(600));
    await clock.sleep(10);
    const lengths = embedder.calls.slice(1).map((call) => call.length - "append ".length);
    assert.deepEqual(lengths, [511, 512, 90]);
    assert.ok(embedder.calls[2]!.startsWith("append \u{1f468}"));
  }));

test("answers that have ended are embedded before those that grow, in the order in which they ended", () =>
  inWorld(async ({ scorer, embedder, clock }) => {
    const feeds = ["a", "b", "c", "d"].map((id) => {
      const feed = scorer.open(id);
      feed.append(id);
      return feed;
    });
    feeds[2]!.end();
    feeds[1]!.end();
    await clock.sleep(20);
    assert.deepEqual(embedder.calls, [
      "append c",
      "finish c",
      "append b",
      "finish b",
      "append a",
      "append d",
    ]);
  }));

test("answers that grow take turns, step by step", () =>
  inWorld(async ({ scorer, embedder, clock }) => {
    for (const id of ["a", "b"]) scorer.open(id).append(id.repeat(1_024));
    await clock.sleep(20);
    assert.deepEqual(embedder.calls.map((call) => call[7]), ["a", "b", "a", "b"]);
  }));

test("a pair is compared once, whoever asks, and each metric is a pair of its own", () =>
  inWorld(async ({ scorer, embedder }) => {
    answer(scorer, "a", "abcd");
    answer(scorer, "b", "abce");
    const results = await Promise.all([
      scorer.similarity("a", "b", "fcs", 300),
      scorer.similarity("b", "a", "fcs", 300),
      scorer.similarity("a", "b", "fcs_u", 300),
    ]);
    assert.deepEqual(results.map(({ value }) => value), [0.75, 0.75, 0.75]);
    assert.equal((await scorer.similarity("b", "a", "fcs", 0)).value, 0.75);
    assert.equal(embedder.calls.filter((call) => call.startsWith("compare")).length, 2);
  }));

test("an answer can be compared with itself", () =>
  inWorld(async ({ scorer }) => {
    answer(scorer, "a", "abcd");
    assert.equal((await scorer.similarity("a", "a", "fcs", 300)).value, 1);
  }));

test("after the deadline the value is unknown, at that very time, and known to those who ask later", () =>
  inWorld(async ({ scorer, clock }) => {
    answer(scorer, "a", "abcd");
    answer(scorer, "b", "abcd");
    const late = await scorer.similarity("a", "b", "fcs", 300);
    assert.equal(clock.now(), 300);
    assert.deepEqual(late, {
      metric: "fcs",
      value: undefined,
      reason: "not known within 300 ms",
      tokens: [4, 0],
    });
    assert.equal((await scorer.similarity("a", "b", "fcs", 1_000)).value, 1);
    for (const deadlineMs of [NaN, -1, 0]) {
      const { reason } = await scorer.similarity("a", "b", "fcs_u", deadlineMs);
      assert.equal(reason, "not known within 0 ms");
    }
    assert.equal(clock.pendingTimers, 1, "of the comparison that is running");
  }, { callMs: 100 }));

test("comparisons that nobody waits for any more are left out", () =>
  inWorld(async ({ scorer, embedder, clock }) => {
    answer(scorer, "a", "abcd");
    answer(scorer, "b", "abcd");
    answer(scorer, "c", "abcd");
    await clock.sleep(600);
    const first = scorer.similarity("a", "b", "fcs", 1_000);
    await scorer.similarity("a", "c", "fcs", 50);
    assert.equal((await first).value, 1);
    await clock.sleep(1_000);
    assert.equal(embedder.calls.filter((call) => call.startsWith("compare")).length, 1);
  }, { callMs: 100 }));

test("answers beyond the bound of the queue are not compared, and those that only grow do not count", () =>
  inWorld(async ({ scorer, clock }) => {
    const growing = scorer.open("growing");
    growing.append("abcd");
    for (const id of ["a", "b", "c"]) answer(scorer, id, "abcd");
    const { value, reason } = await scorer.similarity("a", "c", "fcs", 300);
    assert.deepEqual([value, reason], [undefined, "the scorer is busy: 2 other answers wait"]);
    assert.equal((await scorer.similarity("a", "b", "fcs", 300)).value, 1);
    growing.end();
    assert.equal((await scorer.similarity("a", "growing", "fcs", 300)).value, 1);
    await clock.sleep(1);
  }, { maxQueued: 2 }));

test("answers that are unknown, closed or of no text are not compared, and the reason is told", () =>
  inWorld(async ({ scorer, embedder }) => {
    const reasonOf = async (a: string, b: string) => (await scorer.similarity(a, b, "fcs", 300)).reason;
    const feed = answer(scorer, "a", "abcd");
    answer(scorer, "b", "");
    assert.equal(await reasonOf("a", "nobody"), "answer nobody is not open");
    assert.equal(await reasonOf("a", "b"), "one of the answers has nothing to compare");
    const asked = scorer.similarity("a", "late", "fcs", 300);
    scorer.open("late");
    assert.equal((await asked).reason, "answer late is not open");
    const waiting = scorer.similarity("a", "late", "fcs", 300);
    feed.close();
    assert.equal((await waiting).reason, "answer a is closed");
    assert.equal(await reasonOf("a", "b"), "answer a is not open");
    feed.close();
    feed.append("more");
    feed.end();
    assert.equal(embedder.openEmbeddings, 1, "only b is kept");
  }));

test("an answer that is opened twice is the second one, and the first feed has no effect on it", () =>
  inWorld(async ({ scorer, embedder }) => {
    const first = answer(scorer, "a", "xxxx");
    const waiting = scorer.similarity("a", "a", "fcs", 300);
    answer(scorer, "a", "abcd");
    assert.equal((await waiting).reason, "answer a was opened again");
    first.close();
    answer(scorer, "b", "abcd");
    assert.equal((await scorer.similarity("a", "b", "fcs", 300)).value, 1);
    assert.equal(embedder.openEmbeddings, 2);
  }));

test("a model that fails makes its answer unknown, and no other", () =>
  inWorld(async ({ scorer, embedder }) => {
    for (const text of ["abcd", "bad", "abcd"]) answer(scorer, `${embedder.calls.length}${text}`, text);
    answer(scorer, "good", "abcd");
    answer(scorer, "bad", "bad");
    const { reason } = await scorer.similarity("good", "bad", "fcs", 300);
    assert.equal(reason, "answer bad could not be embedded: out of memory");
    assert.equal((await scorer.similarity("0abcd", "good", "fcs", 300)).value, 1);
    assert.equal(embedder.openEmbeddings, 2);
  }, {
    onCall: (call) => {
      if (call.endsWith("bad")) throw new Error("out of memory");
    },
  }));

test("a comparison that fails, or gives what is no similarity, is unknown", () =>
  inWorld(async ({ scorer }) => {
    answer(scorer, "a", "a");
    const texts = ["throw", "NaN", "Infinity", "1.5", "-0.5", "1.000000001", "-0.000000001"];
    for (const text of texts) answer(scorer, text, text);
    const of = (id: string, metric: "fcs" | "cosine" = "fcs") => scorer.similarity("a", id, metric, 300);
    assert.equal((await of("throw")).reason, "they could not be compared: wrong shape");
    for (const text of ["NaN", "Infinity", "1.5", "-0.5"]) {
      const { value, reason } = await of(text);
      assert.deepEqual([value, reason], [undefined, `the embedder gave ${text}, which is no similarity`]);
    }
    assert.equal((await of("1.000000001")).value, 1);
    assert.equal((await of("-0.000000001")).value, 0);
    assert.equal((await of("-0.5", "cosine")).value, -0.5);
  }, {
    similarityOf: (_, b) => {
      if (b === "throw") throw new Error("wrong shape");
      return Number(b);
    },
  }));

test("an embedder that hangs holds up no deadline and not the end", () =>
  inWorld(async ({ scorer, embedder, clock }) => {
    answer(scorer, "a", "abcd");
    answer(scorer, "b", "abcd");
    assert.equal((await scorer.similarity("a", "b", "fcs", 300)).value, undefined);
    assert.equal(clock.now(), 300);
    const waiting = scorer.similarity("a", "b", "fcs", Infinity);
    await scorer.close();
    assert.equal((await waiting).reason, "the scorer is closed");
    assert.equal(clock.now(), 5_300);
    assert.ok(embedder.closed);
  }, { callMs: Infinity }));

test("closing answers all who wait, drops all features, and what comes later is unknown", () =>
  inWorld(async ({ scorer, embedder }) => {
    answer(scorer, "a", "abcd");
    const feed = answer(scorer, "b", "abcd");
    const waiting = scorer.similarity("a", "b", "fcs", 300);
    await scorer.close();
    await scorer.close();
    assert.equal((await waiting).reason, "the scorer is closed");
    assert.equal(embedder.openEmbeddings, 0);
    assert.equal(scorer.facts, undefined);
    feed.append("x");
    answer(scorer, "c", "abcd").close();
    assert.equal((await scorer.similarity("a", "c", "fcs", 300)).reason, "the scorer is closed");
    assert.ok(!embedder.calls.includes("overlap"));
  }));

test("whatever is asked and whatever fails: every question is answered in time, right or unknown, and nothing is kept", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.integer(),
      (seed) =>
        inFaultyWorld(`${seed}`, async ({ scorer, clock, embedder }, random) => {
          const texts = new Map<string, string>();
          const questions: Promise<void>[] = [];
          const ask = async (a: string, b: string) => {
            const deadlineMs = random.int(40);
            const askedAtMs = clock.now();
            const { value, reason }: Similarity = await scorer.similarity(a, b, "fcs", deadlineMs);
            assert.ok(clock.now() - askedAtMs <= deadlineMs);
            assert.equal(value === undefined, reason !== undefined);
            if (value !== undefined) assert.equal(value, texts.get(a) === texts.get(b) ? 1 : 0);
          };
          const feeds = Array.from({ length: 6 }, (_, index) => {
            const id = `${index}`;
            return { id, feed: scorer.open(id) };
          });
          for (const { id, feed } of feeds) {
            texts.set(id, random.pick(["aaaa", "bbbb"])), feed.append(texts.get(id)!);
          }
          for (let step = 0; step < 30; step++) {
            const { id, feed } = random.pick(feeds);
            const roll = random.int(10);
            if (roll < 4) feed.end();
            else if (roll < 8) questions.push(ask(id, random.pick(feeds).id));
            else if (roll === 8) feed.close();
            await clock.sleep(random.int(4));
          }
          await Promise.all(questions);
          for (const { feed } of feeds) feed.close();
          await clock.sleep(1_000);
          assert.equal(embedder.openEmbeddings, 0);
          assert.ok(!embedder.calls.includes("overlap"));
          await scorer.close();
          assert.equal(clock.pendingTimers, 0);
        }),
    ),
    { numRuns: 150 },
  );
});

function inFaultyWorld(
  seed: string,
  main: (world: World, random: Random) => Promise<void>,
): Promise<void> {
  const random = new Random(seed);
  const faults = random.stream("faults");
  return inWorld((world) => main(world, random), {
    callMs: random.int(5),
    concurrency: 1 + random.int(3),
    maxQueued: 1 + random.int(4),
    onCall: () => {
      if (faults.int(8) === 0) throw new Error("broken");
    },
    similarityOf: (a, b) => faults.int(8) === 0 ? NaN : a === b ? 1 : 0,
  });
}

test("an embedder that takes several answers at once gets them, and each of its answers one call at a time", async () => {
  for (const [concurrency, endsAtMs] of [[1, 5], [2, 3]] as const) {
    await inWorld(async ({ scorer, clock, embedder }) => {
      answer(scorer, "a", "abcd");
      answer(scorer, "b", "abcd");
      assert.equal((await scorer.similarity("a", "b", "fcs", 300)).value, 1);
      // Each an append, then its end, of 1 ms; then the comparison.
      assert.equal(clock.now(), endsAtMs);
      assert.ok(!embedder.calls.includes("overlap"));
    }, { concurrency });
  }
});

test("work that keeps the thread busy lets others have their turn", async () => {
  const clock = new SystemClock();
  const busy = () => {
    for (const endMs = clock.now() + 3; clock.now() < endMs;);
  };
  const noWait = {
    now: () => clock.now(),
    unixEpochMs: 0,
    sleep: () => Promise.resolve(),
    timer: () => () => {},
  };
  const embedder = new FakeEmbedder({ clock: noWait, onCall: busy });
  const scorer = new InlineScorer(embedder, { clock, maxQueued: 64 });
  for (let i = 0; i < 20; i++) answer(scorer, `${i}`, "text");
  await clock.sleep(0);
  const stepsBefore = embedder.calls.length;
  assert.ok(stepsBefore < 30, `${stepsBefore} of 40 steps were done before anybody else had a turn`);
  await scorer.close();
});
