import assert from "node:assert/strict";
import { test } from "node:test";
import type { RunInput } from "../../../../router/moa/graph/run_input.ts";
import type { RunRecord } from "../../../../router/moa/record/run_record.ts";
import type { Script } from "../fake_engine.ts";
import { consensusWorld, played, question, solution } from "./consensus_world.ts";
import { eventsOf } from "../run_harness.ts";

const WRITTEN: Script = { pieces: ["There are ", "42 left.\n", "The answer is 42."], stepMs: 5 };

/** Six leaves that agree after 60 ms at most; `rewrite` writes their answer up. */
function rewritingWorld(rewrite: Script, consensus = {}, graph = {}) {
  return consensusWorld({
    graph,
    consensus: { agree: 3, finish: "rewrite", ...consensus },
    leaf: (place) => ({ pieces: solution(place === 1 ? "7" : "42"), stepMs: 10 * (place + 1) }),
    rewrite,
    names: ["8b", "1b"],
  });
}

function rewriteEvents({ events }: RunRecord): string[] {
  return events.filter(({ agent }) => agent === "rewrite").map(({ type }) => type);
}

test("the smallest model writes the agreed answer up from the texts that agree, and nobody else works meanwhile", async () => {
  const world = rewritingWorld(WRITTEN);
  const { text, record, usage } = await played(world);
  assert.equal(text, "There are 42 left.\nThe answer is 42.");
  assert.equal(record.state, "done");
  assert.equal(record.rootSkipped, true);
  const { rewrite } = record;
  assert.deepEqual([rewrite?.given, rewrite?.reason, rewrite?.agent.model], ["rewrite", undefined, "1b"]);
  const asked = JSON.stringify(rewrite?.agent.prompt);
  assert.equal(asked.match(/The answer is 42\./g)?.length, 3);
  assert.doesNotMatch(asked, /answer is 7/);
  const own = usage.agents.find(({ agent }) => agent === "rewrite");
  assert.deepEqual([own?.calls, own?.completionTokens, own?.wastedTokens], [1, 3, 0]);
  assert.equal(usage.calls, 7);
  assert.deepEqual(rewriteEvents(record).at(-1), "rewrite_ended");
  const started = record.events.findIndex(({ type }) => type === "rewrite_started");
  const later = record.events.slice(started).filter(({ type }) => type === "agent_queued");
  assert.deepEqual(later.map(({ agent }) => agent), ["rewrite"]);
});

test("what is written up streams", async () => {
  const world = rewritingWorld({ ...WRITTEN, stepMs: 1_000 });
  await world.clock.run(async () => {
    const run = world.start({ question });
    const times: number[] = [];
    for await (const event of run.output) if (event.type === "delta") times.push(world.clock.now());
    await run.ended;
    assert.deepEqual(times.map((ms) => ms - times[0]!), [0, 1_000, 2_000]);
  });
  world.assertIdle();
});

const failures: readonly (readonly [string, Script, RegExp])[] = [
  ["fails", { pieces: ["There ", "are"], failAt: { piece: 2, error: new Error("broken") } }, /broken/],
  ["is cut", { pieces: ["There ", "are"], finishReason: "length" }, /cut/],
  [
    "says another answer",
    { pieces: ["There ", "are 7. The answer is 7."] },
    /does not say the agreed answer/,
  ],
  ["says no answer", { pieces: ["There ", "are some left."] }, /does not say the agreed answer/],
  ["takes too long", { pieces: ["There ", "are 42."], hangAt: 1 }, /deadline/],
];

for (const [what, rewrite, reason] of failures) {
  test(`where the model that writes up ${what}, the agreed text is given, and the record says why`, async () => {
    const input: Partial<RunInput> = { whole: true };
    const whole = await played(rewritingWorld(rewrite), input);
    assert.match(whole.text ?? "", /^Step 0[^]*The answer is 42\./);
    assert.equal(whole.record.state, "done");
    assert.equal(whole.record.rewrite?.given, "text");
    assert.match(whole.record.rewrite?.reason ?? "", reason);
    // What a reader has had stays, and the agreed text follows.
    const streamed = await played(rewritingWorld(rewrite));
    assert.match(streamed.text ?? "", /^There [^]*\n\nStep 0[^]*The answer is 42\./);
    assert.equal(streamed.usage.agents.find(({ agent }) => agent === "rewrite")?.wastedTokens ?? 0, 0);
  });
}

test("a model that fails before its first word costs nothing but its time", async () => {
  const { text, record } = await played(
    rewritingWorld({ pieces: [], failAt: { piece: 0, error: new Error("down") } }),
  );
  assert.match(text ?? "", /^Step 0/);
  assert.match(record.rewrite?.reason ?? "", /down/);
});

test("a client that leaves while the answer is written up ends all work; max_tokens and the run's deadline hold", async () => {
  const world = rewritingWorld({ ...WRITTEN, stepMs: 1_000 });
  await world.clock.run(async () => {
    const run = world.start({ question });
    for await (const event of run.output) if (event.type === "delta") break;
    await run.ended;
    assert.equal(run.record().state, "cancelled");
  });
  world.assertIdle();
  const tight = rewritingWorld({ pieces: ["There ", "are"], finishReason: "length" });
  await tight.clock.run(async () => {
    const run = tight.start({ question, rootSampling: { max_tokens: 9 } });
    const events = await eventsOf(run);
    const text = events.map((event) => event.type === "delta" ? event.delta.text : "").join("");
    // Both texts together were longer than the client allows.
    assert.equal(text, "There are");
    const end = events.at(-1);
    assert.equal(end?.type === "end" && end.finishReason, "length");
    await run.ended;
  });
  const overdue = await played(rewritingWorld({ ...WRITTEN, startMs: 5_000 }, {}, { deadline_ms: 1_000 }));
  assert.equal(overdue.record.state, "done");
  assert.match(overdue.text ?? "", /^Step 0/);
  assert.match(overdue.record.rewrite?.reason ?? "", /deadline of 1000 ms/);
});

test("a run whose exit is not reached does not ask the model that writes up", async () => {
  const world = rewritingWorld(WRITTEN, { agree: 9 });
  const { record, usage } = await played(world);
  assert.equal(record.rewrite, undefined);
  assert.equal(usage.calls, 9);
});
