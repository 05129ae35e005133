import assert from "node:assert/strict";
import { test } from "node:test";
import { VirtualClock } from "../../../base/clock.ts";
import { Drain } from "../../../router/http/gate/drain.ts";
import { errorSchema } from "../../../router/http/openai/response_schema.ts";
import type { RunEvent } from "../../../router/moa/run/run.ts";
import { fakeApp, parseEvents, pushed, settle } from "./fakes.ts";

const DELTA: RunEvent = { type: "delta", index: 0, delta: { type: "delta", text: "x" } };
const END: RunEvent = { type: "end", index: 0, finishReason: "stop" };

async function gauge(app: ReturnType<typeof fakeApp>["app"], name: string): Promise<number> {
  const text = await (await app.request("/metrics")).text();
  return Number(new RegExp(`^${name} (\\d+)$`, "m").exec(text)?.[1]);
}

test("a client that leaves before the answer cancels the run and frees its place", async () => {
  for (const stream of [true, false]) {
    const { script } = pushed();
    const { chat, moa, app } = fakeApp({ script });
    const client = new AbortController();
    const response = chat({ stream }, { signal: client.signal });
    await settle();
    assert.equal(moa.run.state, "running");
    assert.equal(await gauge(app, "canopy_places_in_use"), 1);
    client.abort();
    assert.equal((await response).status, 499);
    await settle();
    assert.equal(moa.run.state, "cancelled");
    assert.equal(await gauge(app, "canopy_places_in_use"), 0);
    assert.equal(await gauge(app, "canopy_requests_in_flight"), 0);
  }
});

test("a client that leaves inside a stream cancels the run, by its signal or by closing the body", async () => {
  for (const how of ["signal", "cancel"] as const) {
    const { script, events } = pushed();
    const { chat, moa, app } = fakeApp({ script });
    events.tryPush(DELTA);
    const client = new AbortController();
    const response = await chat({ stream: true }, { signal: client.signal });
    const reader = response.body!.getReader();
    await reader.read();
    if (how === "signal") client.abort();
    else await reader.cancel();
    await settle();
    assert.equal(moa.run.state, "cancelled");
    assert.equal(await gauge(app, "canopy_places_in_use"), 0);
    assert.equal(await gauge(app, "canopy_requests_in_flight"), 0);
  }
});

test("a client that never reads stops the root, not memory", async () => {
  let made = 0;
  const { chat, moa } = fakeApp({
    *script(): Generator<RunEvent> {
      while (true) {
        made++;
        yield DELTA;
      }
    },
  });
  const response = await chat({ stream: true });
  await settle();
  const before = made;
  assert.ok(before <= 20, `${before} events were made with nobody reading`);
  const reader = response.body!.getReader();
  for (let at = 0; at < 50; at++) await reader.read();
  await settle();
  assert.ok(made <= 50 + before + 2, `${made} events for 50 reads`);
  await reader.cancel();
  await settle();
  assert.equal(moa.run.state, "cancelled");
});

test("requests beyond the places wait in order; beyond the queue they get 429 with Retry-After", async () => {
  const { script, events } = pushed();
  const { chat, app, moa } = fakeApp({
    script,
    config: { models: {}, server: { max_running: 1, max_queued: 1 } },
  });
  const first = chat();
  await settle();
  const second = chat();
  await settle();
  assert.equal(await gauge(app, "canopy_requests_queued"), 1);
  const third = await chat();
  assert.equal(third.status, 429);
  assert.equal(third.headers.get("retry-after"), "1");
  assert.equal(third.headers.get("x-should-retry"), null);
  assert.equal(errorSchema.parse(await third.json()).error.code, "queue_full");
  assert.equal(moa.runs.length, 1);
  moa.script = () => [DELTA, END];
  events.tryPush(DELTA);
  events.tryPush(END);
  events.close();
  assert.equal((await first).status, 200);
  assert.equal((await second).status, 200);
  assert.equal(moa.runs.length, 2);
});

test("a queued client that leaves frees its place in the queue", async () => {
  const { script } = pushed();
  const { chat, app, moa } = fakeApp({
    script,
    config: { models: {}, server: { max_running: 1, max_queued: 1 } },
  });
  const running = new AbortController();
  const first = chat({}, { signal: running.signal });
  await settle();
  const leaving = new AbortController();
  const second = chat({}, { signal: leaving.signal });
  await settle();
  leaving.abort();
  assert.equal((await second).status, 499);
  assert.equal(await gauge(app, "canopy_requests_queued"), 0);
  assert.equal(moa.runs.length, 1);
  running.abort();
  await first;
});

test("a wait for a place ends with 503 and Retry-After after queue_timeout_ms", async () => {
  const clock = new VirtualClock();
  const { script } = pushed();
  const { chat } = fakeApp({
    clock,
    script,
    config: { models: {}, server: { max_running: 1, max_queued: 1, queue_timeout_ms: 2000 } },
  });
  const running = new AbortController();
  const first = chat({}, { signal: running.signal });
  await settle();
  const second = chat();
  await clock.advance(1999);
  let answered = false;
  void Promise.resolve(second).then(() => answered = true);
  await settle();
  assert.equal(answered, false);
  await clock.advance(2000);
  const response = await second;
  assert.equal(response.status, 503);
  assert.ok(Number(response.headers.get("retry-after")) >= 1);
  assert.equal(errorSchema.parse(await response.json()).error.code, "queue_timeout");
  assert.equal(clock.pendingTimers, 0);
  running.abort();
  await first;
});

test("a drain refuses new requests, lets running ones finish, and is then over", async () => {
  const clock = new VirtualClock();
  const drain = new Drain({ clock, timeoutMs: 30_000 });
  const { script, events } = pushed();
  const { chat, app } = fakeApp({ clock, script, app: { drain } });
  assert.equal((await app.request("/readiness")).status, 200);
  const running = chat({ stream: true });
  await settle();
  const drained = drain.drain();
  let over = false;
  void drained.then(() => over = true);
  const readiness = await app.request("/readiness");
  assert.equal(readiness.status, 503);
  assert.equal((await app.request("/health")).status, 200);
  const refused = await chat();
  assert.equal(refused.status, 503);
  assert.equal(refused.headers.get("connection"), "close");
  assert.equal(refused.headers.get("retry-after"), "1");
  assert.equal(errorSchema.parse(await refused.json()).error.code, "draining");
  events.tryPush(DELTA);
  events.tryPush(END);
  events.close();
  const response = await running;
  await settle();
  assert.equal(over, false, "the answer is not read yet");
  assert.equal(parseEvents(await response.text()).at(-1), "[DONE]");
  await drained;
  assert.equal(clock.pendingTimers, 0);
});

test("a drain cuts what has not finished in time, with an error event in streams", async () => {
  const clock = new VirtualClock();
  const drain = new Drain({ clock, timeoutMs: 30_000 });
  const { script, events } = pushed();
  const { chat, moa } = fakeApp({ clock, script, app: { drain } });
  events.tryPush(DELTA);
  const streaming = await chat({ stream: true });
  const drained = drain.drain();
  await clock.advance(29_999);
  assert.equal(moa.run.state, "running");
  await clock.advance(30_000);
  await drained;
  assert.equal(moa.run.state, "cancelled");
  const last = parseEvents(await streaming.text()).at(-1);
  assert.equal(errorSchema.parse(last).error.code, "draining");
});

test("a stop cuts running requests at once", async () => {
  const clock = new VirtualClock();
  const drain = new Drain({ clock, timeoutMs: 30_000 });
  const { script } = pushed();
  const { chat, moa } = fakeApp({ clock, script, app: { drain } });
  const running = chat();
  await settle();
  await drain.stop();
  assert.equal(moa.run.state, "cancelled");
  assert.equal((await running).status, 503);
  assert.equal(clock.pendingTimers, 0);
});

test("a drain of an idle router is over at once, and asking twice gives the same drain", async () => {
  const drain = new Drain({ clock: new VirtualClock(), timeoutMs: 30_000 });
  assert.equal(drain.drain(), drain.drain());
  await drain.drain();
  assert.equal(drain.draining, true);
});

test("no abort listener stays on a client's signal after its request", async () => {
  const { app } = fakeApp();
  const request = new Request("http://localhost/v1/chat/completions", {
    method: "POST",
    body: JSON.stringify({ model: "moa", messages: [{ role: "user", content: "Hi" }] }),
    signal: new AbortController().signal,
  });
  const { signal } = request;
  let added = 0;
  let removed = 0;
  signal.addEventListener = (...args: Parameters<AbortSignal["addEventListener"]>) => {
    added++;
    AbortSignal.prototype.addEventListener.apply(signal, args);
  };
  signal.removeEventListener = (...args: Parameters<AbortSignal["removeEventListener"]>) => {
    removed++;
    AbortSignal.prototype.removeEventListener.apply(signal, args);
  };
  assert.equal((await app.request(request)).status, 200);
  assert.ok(added > 0);
  assert.equal(removed, added);
});
