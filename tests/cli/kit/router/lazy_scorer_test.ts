import assert from "node:assert/strict";
import { test } from "node:test";
import { VirtualClock } from "../../../../base/clock.ts";
import { logger } from "../../../../base/log.ts";
import { LazyScorer } from "../../../../cli/kit/router/lazy_scorer.ts";
import type { Scorer } from "../../../../scorer/scorer.ts";
import { FakeScorer } from "../../../router/moa/fake_scorer.ts";

test("a scorer is made for the first answer, and gets what came before it was there", async () => {
  const inner = new FakeScorer();
  const made = Promise.withResolvers<Scorer>();
  let makes = 0;
  const lazy = new LazyScorer(() => {
    makes++;
    return made.promise;
  }, means());
  assert.equal(makes, 0);
  const [a, b, gone] = [lazy.open("a"), lazy.open("b"), lazy.open("gone")];
  a.append("one ");
  a.append("two");
  a.end();
  b.append("three");
  gone.append("x");
  gone.close();
  assert.equal((await lazy.similarity("a", "b", "fcs", 10)).reason, "the scorer is not there yet");
  const facts = () => lazy.facts;
  assert.equal(facts(), undefined);
  made.resolve(inner);
  await made.promise;
  await Promise.resolve();
  b.append(" four");
  b.end();
  assert.deepEqual([...inner.fed.keys()], ["a", "b"]);
  assert.deepEqual([inner.text("a"), inner.text("b")], ["one two", "three four"]);
  assert.equal((await lazy.similarity("a", "b", "fcs", 10)).value, 0.9);
  assert.equal(facts()?.embedder, "lexical");
  lazy.open("c").append("later");
  assert.equal(inner.text("c"), "later");
  a.close();
  assert.equal(inner.fed.get("a")?.state, "closed");
  assert.equal(makes, 1);
  await lazy.close();
});

test("a scorer that cannot be made says so, and fails open", async () => {
  const lazy = new LazyScorer(() => Promise.reject(new Error("no weights")), means());
  const feed = lazy.open("a");
  feed.append("x");
  await Promise.resolve();
  await Promise.resolve();
  feed.append("y");
  feed.end();
  feed.close();
  const { value, reason } = await lazy.similarity("a", "b", "fcs", 10);
  assert.deepEqual([value, reason], [undefined, "there is no scorer: no weights"]);
  await lazy.close();
});

test("a scorer that nobody needed is never made", async () => {
  const lazy = new LazyScorer(() => assert.fail("made"), means());
  await lazy.close();
  lazy.open("late").append("x");
});

test("a scorer that could not be made is tried again by answers that come half a minute later", async () => {
  const clock = new VirtualClock();
  const inner = new FakeScorer();
  let makes = 0;
  const lazy = new LazyScorer(
    () => ++makes < 3 ? Promise.reject(new Error("nobody listens")) : Promise.resolve(inner),
    means(clock),
  );
  const reason = async () => (await lazy.similarity("a", "b", "fcs", 10)).reason;
  const ask = async (id: string) => {
    lazy.open(id).append("said");
    await clock.advance(clock.now());
  };
  await ask("a");
  await ask("b");
  assert.equal(makes, 1, "not for each answer");
  assert.equal(await reason(), "there is no scorer: nobody listens");
  await clock.advance(30_000);
  assert.equal(makes, 1, "not without an answer");
  await ask("c");
  assert.equal(makes, 2);
  assert.equal(await reason(), "there is no scorer: nobody listens");
  await clock.advance(60_000);
  await ask("d");
  await ask("e");
  assert.equal(makes, 3);
  assert.deepEqual([inner.text("d"), inner.text("e")], ["said", "said"]);
  assert.equal((await lazy.similarity("d", "e", "fcs", 10)).value, 0.9);
  await lazy.close();
});

function means(clock = new VirtualClock()) {
  return { clock, log: logger("test") };
}
