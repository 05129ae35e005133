import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "../../properties.ts";
import { VirtualClock } from "../../../base/clock.ts";
import { Breaker, type BreakerPermit } from "../../../router/pool/breaker.ts";
import type { PlacementOutcome } from "../../../router/worker/placement.ts";

const FAILURES = 3;
const OPEN_MS = 1_000;

function breaker(clock: VirtualClock): Breaker {
  return new Breaker({ clock, failures: FAILURES, openMs: OPEN_MS });
}

function fail(subject: Breaker, times: number): void {
  for (let i = 0; i < times; i++) subject.end(subject.begin(), "failed");
}

test("a breaker opens after so many failures in a row, and a success in between starts the count again", () => {
  const subject = breaker(new VirtualClock());
  fail(subject, FAILURES - 1);
  subject.end(subject.begin(), "ok");
  fail(subject, FAILURES - 1);
  assert.equal(subject.state, "closed");
  fail(subject, 1);
  assert.equal(subject.state, "open");
  assert.equal(subject.admits, false);
});

test("rejections and aborts never count, however many there are", () => {
  const subject = breaker(new VirtualClock());
  for (let i = 0; i < 100; i++) subject.end(subject.begin(), i % 2 === 0 ? "rejected" : "aborted");
  assert.equal(subject.state, "closed");
});

test("after its time an open breaker lets one probe through, whose result decides", async () => {
  const clock = new VirtualClock();
  const subject = breaker(clock);
  fail(subject, FAILURES);
  await clock.advance(OPEN_MS - 1);
  assert.equal(subject.state, "open");
  await clock.advance(OPEN_MS);
  assert.equal(subject.state, "half_open");
  const probe = subject.begin();
  assert.equal(subject.admits, false, "one probe at a time");
  subject.end(probe, "aborted");
  assert.equal(subject.admits, true, "a probe that was aborted showed nothing: the next one may try");
  subject.end(subject.begin(), "failed");
  assert.equal(subject.state, "open");
  await clock.advance(2 * OPEN_MS);
  subject.end(subject.begin(), "ok");
  assert.equal(subject.state, "closed");
});

test("outcomes of requests that were sent before a change of state do not undo it", async () => {
  const clock = new VirtualClock();
  const subject = breaker(clock);
  const old = [subject.begin(), subject.begin(), subject.begin()];
  fail(subject, FAILURES);
  subject.end(old[0]!, "ok");
  assert.equal(subject.state, "open");
  await clock.advance(OPEN_MS);
  subject.end(old[1]!, "failed");
  assert.equal(subject.state, "half_open");
  subject.end(subject.begin(), "ok");
  subject.end(old[2]!, "failed");
  fail(subject, FAILURES - 1);
  assert.equal(subject.state, "closed");
});

/** The rules as a plain table over numbers, written without looking at the time as the breaker does. */
class Model {
  state: "closed" | "open" | "half_open" = "closed";
  generation = 0;
  streak = 0;
  msUntilProbe = 0;
  probeOut = false;

  pass(ms: number): void {
    this.msUntilProbe -= ms;
    if (this.state === "open" && this.msUntilProbe <= 0) this.become("half_open");
  }
  become(state: "closed" | "open" | "half_open"): void {
    this.state = state;
    this.generation++;
    this.streak = 0;
    this.probeOut = false;
    if (state === "open") this.msUntilProbe = OPEN_MS;
  }
  begin(): number {
    if (this.state === "half_open") this.probeOut = true;
    return this.generation;
  }
  end(generation: number, outcome: PlacementOutcome): void {
    if (generation !== this.generation) return;
    const table = {
      closed: { ok: "reset", failed: "count", rejected: "none", aborted: "none" },
      open: { ok: "close", failed: "none", rejected: "none", aborted: "none" },
      half_open: { ok: "close", failed: "open", rejected: "free", aborted: "free" },
    } as const;
    const action = table[this.state][outcome];
    if (action === "reset") this.streak = 0;
    if (action === "count" && ++this.streak === FAILURES) this.become("open");
    if (action === "close") this.become("closed");
    if (action === "open") this.become("open");
    if (action === "free") this.probeOut = false;
  }
}

test("over any interleaving of requests and time a breaker is in the state that its table says", async () => {
  const step = fc.oneof(
    fc.record({ kind: fc.constant("begin" as const) }),
    fc.record({
      kind: fc.constant("end" as const),
      which: fc.nat(20),
      outcome: fc.constantFrom<PlacementOutcome>("ok", "failed", "failed", "failed", "rejected", "aborted"),
    }),
    fc.record({ kind: fc.constant("pass" as const), ms: fc.constantFrom(1, 499, 500, 1_000) }),
  );
  await fc.assert(fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
    const clock = new VirtualClock();
    const subject = breaker(clock);
    const model = new Model();
    const running: { permit: BreakerPermit; generation: number }[] = [];
    for (const action of steps) {
      if (action.kind === "begin") running.push({ permit: subject.begin(), generation: model.begin() });
      else if (action.kind === "pass") {
        await clock.advance(clock.now() + action.ms);
        model.pass(action.ms);
      } else {
        const [ended] = running.splice(action.which % Math.max(1, running.length), 1);
        if (ended === undefined) continue;
        subject.end(ended.permit, action.outcome);
        model.end(ended.generation, action.outcome);
      }
      assert.equal(subject.state, model.state);
      assert.equal(
        subject.admits,
        model.state === "closed" || (model.state === "half_open" && !model.probeOut),
      );
    }
  }));
});

test("with several successes asked for, as many probes in a row close it", async () => {
  const clock = new VirtualClock();
  const breaker = new Breaker({ clock, failures: 1, openMs: 100, successes: 2 });
  const send = (outcome: "ok" | "failed") => breaker.end(breaker.begin(), outcome);
  send("failed");
  await clock.advance(100);
  send("ok");
  assert.equal(breaker.state, "half_open");
  assert.equal(breaker.admits, true, "the next probe may go");
  send("failed");
  assert.equal(breaker.state, "open");
  await clock.advance(200);
  send("ok");
  send("ok");
  assert.equal(breaker.state, "closed");
});
