import assert from "node:assert/strict";
import { test } from "node:test";
import type { RunLimits } from "../../../../router/moa/graph/run_input.ts";
import type { Script } from "../fake_engine.ts";
import { eventsOf } from "../run_harness.ts";
import { consensusWorld, played, question, type Setting, solution } from "../exit/consensus_world.ts";

const PRICE = { prompt: 1_000, completion: 10_000 };

/** Six leaves, two aggregators and a root without early exit; every piece is a token, every prompt has ten. */
function budgetWorld(leaf: (place: number) => Script, more: Partial<Setting> = {}) {
  return consensusWorld({
    graph: { early_exit: {}, answer_tokens: 10 },
    leaf,
    later: { pieces: ["It is ", "so. ", "The answer is 42."], stepMs: 100 },
    fields: { price: PRICE },
    ...more,
  });
}

const even = (place: number): Script => ({
  pieces: solution(place === 1 ? "7" : "42"),
  stepMs: 10 * (place + 1),
});

async function spentBy(limits: RunLimits, leaf = even, more: Partial<Setting> = {}) {
  const { text, record, usage, answeredMs } = await played(budgetWorld(leaf, more), { budget: limits });
  return { text, record, usage, answeredMs, spent: usage.spent! };
}

test("a budget that is not reached changes nothing, and the usage says what was spent", async () => {
  const { text, record, usage, spent } = await spentBy({ latencyMs: 1e6, tokens: 1e6, cost: 1e6 });
  assert.equal(text, "It is so. The answer is 42.");
  assert.equal(record.rootSkipped, false);
  assert.equal(spent.endedBy, undefined);
  assert.equal(spent.tokens, usage.promptTokens + usage.completionTokens);
  const cost = (usage.promptTokens * PRICE.prompt + usage.completionTokens * PRICE.completion) / 1e6;
  assert.ok(Math.abs(spent.cost! - cost) < 1e-9);
  assert.equal(spent.latencyMs, record.durationMs);
});

test("when its time is over a run answers with what most agents agree on", async () => {
  const { text, record, answeredMs, spent } = await spentBy({ latencyMs: 250 });
  assert.equal(answeredMs, 250);
  assert.equal(spent.endedBy, "latency_ms");
  assert.match(text ?? "", /^Step 0[^]*The answer is 42\./);
  assert.equal(record.state, "done");
  assert.equal(record.rootSkipped, true);
});

test("without any agreement the answer is the whole one that has read most, else the longest that is begun", async () => {
  const differ = (place: number): Script => ({ pieces: solution(String(place)), stepMs: 10 * (place + 1) });
  const whole = await spentBy({ latencyMs: 250 }, differ);
  assert.match(whole.text ?? "", /The answer is \d\. I hope that helps\.$/);
  const world = budgetWorld((place) => ({ pieces: solution("42"), stepMs: 100 * (place + 1) }));
  await world.clock.run(async () => {
    const events = await eventsOf(world.start({ question, budget: { latencyMs: 150 } }));
    const [delta, end] = [events[0], events.at(-1)];
    assert.match(delta?.type === "delta" ? delta.delta.text : "", /^Step 0/);
    assert.equal(end?.type === "end" && end.finishReason, "length");
  });
  world.assertIdle();
});

test("a root that has begun is cut where it is, streamed or whole", async () => {
  const fast = (place: number): Script => ({ pieces: solution(String(place)), stepMs: 1 });
  for (const whole of [false, true]) {
    const world = budgetWorld(fast);
    await world.clock.run(async () => {
      // Leaves take 8 ms, aggregators 300, and the root's second piece comes after 100 more.
      const run = world.start({ question, whole, budget: { latencyMs: 450 } });
      const events = await eventsOf(run);
      const text = events.map((event) => event.type === "delta" ? event.delta.text : "").join("");
      assert.equal(text, "It is so. ");
      const end = events.at(-1);
      assert.equal(end?.type === "end" && end.finishReason, "length");
      await run.ended;
      assert.equal(run.record().rootSkipped, false);
    });
    world.assertIdle();
  }
});

test("where nobody has said anything in time, the first whole answer is the run's", async () => {
  const late = (place: number): Script => ({ pieces: solution("42"), startMs: 500 + 100 * place, stepMs: 1 });
  const { text, answeredMs, spent } = await spentBy({ latencyMs: 50 }, late);
  assert.match(text ?? "", /The answer is 42/);
  assert.ok(answeredMs >= 500 && answeredMs < 520, `${answeredMs}`);
  assert.equal(spent.endedBy, "latency_ms");
});

test("of tokens or cost as many agents start as fit, and none of what is spent lies beyond the limit", async () => {
  for (const limits of [{ tokens: 60 }, { cost: 0.3 }]) {
    const { text, record, usage, spent } = await spentBy(limits);
    const started = record.agents.filter(({ startedAtMs }) => startedAtMs !== undefined).length;
    assert.ok(started >= 1 && started < 6, `${started}`);
    assert.match(text ?? "", /The answer is (42|7)/);
    assert.equal(record.state, "done");
    assert.equal(spent.endedBy, Object.keys(limits)[0]);
    if (limits.tokens !== undefined) assert.ok(spent.tokens <= limits.tokens, `${spent.tokens}`);
    else assert.ok(spent.cost! <= limits.cost!, `${spent.cost}`);
    assert.ok(usage.promptTokens + usage.completionTokens <= spent.tokens);
    const refused = record.events.filter(({ type }) => type === "budget_refused");
    assert.ok(refused.length > 0);
  }
});

test("an agent that writes more than was expected ends the run at the limit", async () => {
  const endless = (): Script => ({ pieces: Array.from({ length: 500 }, () => "on and "), stepMs: 1 });
  const { spent, record } = await spentBy({ tokens: 60 }, endless);
  assert.ok(spent.tokens >= 60 && spent.tokens <= 66, `${spent.tokens}`);
  assert.equal(record.state, "done");
});

test("a single agent always starts, and the budget's end is one while an answer is written up", async () => {
  const { record } = await spentBy({ tokens: 1 });
  assert.equal(record.state, "done");
  assert.equal(record.agents.filter(({ startedAtMs }) => startedAtMs !== undefined).length, 1);
  const consensus = { agree: 3, finish: "rewrite" };
  const slow: Script = { pieces: ["The answer is 42."], startMs: 5_000 };
  const more = { graph: { early_exit: { scope: "run", consensus } }, rewrite: slow };
  const { text, record: written, answeredMs } = await spentBy({ latencyMs: 1_000 }, even, more);
  assert.equal(answeredMs, 1_000);
  assert.match(text ?? "", /^Step 0/);
  assert.equal(written.rewrite?.given, "text");
});

test("what a client's own limits forbid is not given: stops and max_tokens hold for the best answer, too", async () => {
  const world = budgetWorld(even);
  const rootSampling = { stop: ["Step 2"], max_tokens: 100 };
  const { text } = await played(world, { budget: { latencyMs: 250 }, rootSampling });
  assert.match(text ?? "", /^Step 0[^]*Step 1[^]*\n$/);
  const tight = await played(budgetWorld(even), {
    budget: { latencyMs: 250 },
    rootSampling: { max_tokens: 2 },
  });
  assert.ok((tight.text ?? "").length < 60);
});

test("the best answer comes to a slow reader, whatever the root has thought before", async () => {
  const fast = (place: number): Script => ({ pieces: solution(String(place)), stepMs: 1 });
  // Thoughts have no text: more of them than wait for a reader.
  const thoughts = { pieces: Array.from({ length: 200 }, () => ""), stepMs: 1 };
  const world = budgetWorld(fast, { later: thoughts });
  await world.clock.run(async () => {
    const run = world.start({ question, budget: { latencyMs: 450 } });
    await world.clock.sleep(1000);
    const events = await eventsOf(run);
    const text = events.map((event) => event.type === "delta" ? event.delta.text : "").join("");
    assert.match(text, /^Step 0[^]*The answer is \d/);
    assert.equal(events.filter(({ type }) => type === "end").length, 1);
    await run.ended;
  });
  world.assertIdle();
});

test("a budget that is spent while a slow reader has the whole answer before it ends nothing", async () => {
  const fast = (place: number): Script => ({ pieces: solution(String(place)), stepMs: 1 });
  const later: Script = { pieces: Array.from({ length: 64 }, () => "so "), stepMs: 1 };
  const world = budgetWorld(fast, { later });
  await world.clock.run(async () => {
    const run = world.start({ question, budget: { latencyMs: 450 } });
    await world.clock.sleep(1000);
    const events = await eventsOf(run);
    const ends = events.filter(({ type }) => type === "end");
    assert.deepEqual(ends.map((end) => end.type === "end" && end.finishReason), ["stop"]);
    await run.ended;
    assert.equal(run.usage().spent?.endedBy, undefined);
  });
  world.assertIdle();
});
