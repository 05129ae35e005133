import assert from "node:assert/strict";
import { test } from "node:test";
import type { JsonObject } from "../../../base/json.ts";
import { type Transport, TransportError } from "../../../base/transport.ts";
import { runCommand } from "../../../cli/kit/dispatch.ts";
import { topCommand } from "../../../cli/top/top.ts";
import { type FakeIo, fakeIo } from "../fake_io.ts";
import { withServedDemo, withSystem } from "../served.ts";

const top = async (io: FakeIo, ...args: string[]) => ({
  code: await runCommand([topCommand], ["top", ...args], io),
  out: io.out.text,
  err: io.err.text,
});

test("canopy top prints workers with their state and load once where there is no terminal", async () => {
  await withServedDemo((url) =>
    withSystem(async (io) => {
      const { code, out, err } = await top(io, "--url", url);
      assert.equal(err, "");
      assert.equal(code, 0);
      assert.ok(
        out.startsWith(
          `${url} · 0 requests in flight, 0 queued · 0 runs go on · 3 of 3 workers are well\n\n`,
        ),
        out,
      );
      assert.match(out, /^4b\.w1 +4b +vllm +healthy +0 +0 +0$/m);
      assert.match(out, /^32b\.w1 +32b +sglang +healthy /m);
    })
  );
});

const worker = (id: string, more: JsonObject = {}) => ({
  id,
  url: "http://e",
  model: "m",
  engine: "sglang",
  worker_type: "decode",
  health: "healthy",
  breaker: "closed",
  in_flight: 2,
  served: 10,
  failures: 0,
  last_error: null,
  ...more,
});

test("canopy top draws again on a terminal until Ctrl-C: ill workers with their reason, rates, runs that go on", async () => {
  let looks = 0;
  const held: { io?: FakeIo } = {};
  const answers: Record<string, () => string> = {
    "/workers": () => {
      if (++looks === 2) held.io?.interrupt();
      return JSON.stringify({
        workers: [
          worker("a", { served: 10 * looks }),
          worker("b", { health: "unhealthy", breaker: "half_open", last_error: "no route\nto host" }),
        ],
      });
    },
    "/v1/runs?limit=100": () =>
      JSON.stringify({
        data: [
          {
            id: "run_1",
            graph: "moa",
            state: "running",
            created: 0,
            usage: { calls: 13, completion_tokens: 77 },
          },
          {
            id: "run_2",
            graph: "moa",
            state: "done",
            created: 0,
            usage: { calls: 13, completion_tokens: 99 },
          },
        ],
      }),
  };
  const transport: Transport = {
    send: ({ url }) => {
      const answer = answers[url.slice("http://s".length)];
      const text = answer?.() ?? "{}";
      return Promise.resolve({
        status: answer === undefined ? 404 : 200,
        headers: {},
        body: bytesOf(text),
      });
    },
    close: () => Promise.resolve(),
  };
  const io = held.io = fakeIo({ transport, terminal: true, columns: 120, env: { NO_COLOR: "1" } });
  // Nothing here waits for anything but turns of the loop, until the command sleeps on its virtual clock.
  const ended = top(io, "--url", "http://s", "--every", "2");
  for (let turn = 0; turn < 50; turn++) await new Promise((resolve) => setImmediate(resolve));
  const { clock } = io;
  assert.ok("advance" in clock && typeof clock.advance === "function");
  await clock.advance(2000);
  const { code, out } = await ended;
  assert.equal(code, 0);
  assert.match(out, /^http:\/\/s · 1 runs go on · 1 of 2 workers are well$/m);
  assert.match(out, /^a +m +sglang decode +healthy +2 +10 +0$/m);
  assert.match(out, /^a +m +sglang decode +healthy +2 +20 +5\.0 +0$/m);
  assert.match(out, /^b +m +sglang decode +unhealthy, breaker half open /m);
  assert.match(out, /^b: no route to host$/m);
  assert.match(out, /^run_1 +moa +\d+ s +13 +77$/m);
  assert.doesNotMatch(out, /run_2/);
});

async function* bytesOf(text: string): AsyncGenerator<Uint8Array> {
  yield await Promise.resolve(new TextEncoder().encode(text));
}

/** `canopy top` on a terminal, looking every two seconds at what the transport gives; `looks`: times that they pass. */
async function watched(held: { io?: FakeIo }, transport: Transport, looks: number): ReturnType<typeof top> {
  const io = held.io = fakeIo({ transport, terminal: true, columns: 120, env: { NO_COLOR: "1" } });
  const ended = top(io, "--url", "http://s", "--every", "2");
  const { clock } = io;
  assert.ok("advance" in clock && typeof clock.advance === "function");
  for (let look = 1; look <= looks; look++) {
    for (let turn = 0; turn < 50; turn++) await new Promise((resolve) => setImmediate(resolve));
    await clock.advance(2000 * look);
  }
  return await ended;
}

test("canopy top waits for a server that is started anew, and has no rates of what it counts from there", async () => {
  const held: { io?: FakeIo } = {};
  let looks = 0;
  const transport: Transport = {
    send: ({ url }) => {
      if (url.endsWith("/workers")) looks++;
      if (looks === 2) return Promise.reject(new TransportError("connect_failed", url));
      if (looks === 5) held.io?.interrupt();
      const served = looks === 3 ? 1_000 : looks;
      const text = JSON.stringify(url.endsWith("/workers") ? { workers: [worker("a", { served })] } : {});
      return Promise.resolve({
        status: 200,
        headers: {},
        body: bytesOf(text),
      });
    },
    close: () => Promise.resolve(),
  };
  const { code, out, err } = await watched(held, transport, 5);
  assert.deepEqual([code, err], [0, ""]);
  assert.match(out, /^Cannot reach a server at http:\/\/s/m);
  for (const row of ["1", "1000", "4", "5 +0\\.5"]) {
    assert.match(out, new RegExp(`^a +m +sglang decode +healthy +2 +${row} +0$`, "m"));
  }
});

test("canopy top ends well with Ctrl-C in the middle of a look, too", async () => {
  const held: { io?: FakeIo } = {};
  let looks = 0;
  const transport: Transport = {
    send: async ({ url }, signal) => {
      if (url.endsWith("/workers") && ++looks === 2) held.io?.interrupt();
      await Promise.resolve();
      signal.throwIfAborted();
      const text = JSON.stringify(url.endsWith("/workers") ? { workers: [worker("a")] } : {});
      return {
        status: 200,
        headers: {},
        body: bytesOf(text),
      };
    },
    close: () => Promise.resolve(),
  };
  const { code, err } = await watched(held, transport, 1);
  assert.deepEqual([code, err, looks], [0, "", 2]);
});
