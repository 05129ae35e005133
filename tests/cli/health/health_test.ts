import assert from "node:assert/strict";
import { test } from "node:test";
import { VirtualClock } from "../../../base/clock.ts";
import type { IncomingResponse, Transport } from "../../../base/transport.ts";
import { healthCommand } from "../../../cli/health/health.ts";
import { runCommand } from "../../../cli/kit/dispatch.ts";
import { type FakeIo, fakeIo } from "../fake_io.ts";

const health = async (io: FakeIo, ...args: string[]) => ({
  code: await runCommand([healthCommand], ["health", ...args], io),
  out: io.out.text,
  err: io.err.text,
});

/** A server that answers each path with a status, and others not at all. */
function serverOf(statuses: Readonly<Record<string, number>>): Transport {
  return {
    send: ({ url }) => {
      const status = statuses[new URL(url).pathname];
      if (status === undefined) return new Promise<IncomingResponse>(() => {});
      return Promise.resolve({
        status,
        headers: {},
        body: (async function* () {
          yield await Promise.resolve(new TextEncoder().encode("{}"));
        })(),
      });
    },
    close: () => Promise.resolve(),
  };
}

test("canopy health ends with 0 where a server lives, and with --ready only where it takes requests", async () => {
  const transport = serverOf({ "/health": 200, "/readiness": 503 });
  const args = ["--url", "http://s:1"];
  assert.deepEqual(await health(fakeIo({ transport }), ...args), {
    code: 0,
    out: "http://s:1 lives\n",
    err: "",
  });
  const { code, out, err } = await health(fakeIo({ transport }), ...args, "--ready");
  assert.deepEqual([code, out], [1, ""]);
  assert.match(err, /^canopy health: .*503/);
});

test("canopy health says that nobody is there, and that an answer did not come in time", async () => {
  const nobody = await health(fakeIo());
  assert.equal(nobody.code, 1);
  assert.match(nobody.err, /^canopy health: .*http:\/\/127\.0\.0\.1:8000/);
  const clock = new VirtualClock();
  const asked = health(fakeIo({ transport: serverOf({}), clock }), "--url", "http://s", "--timeout", "2.5");
  await clock.advance(2_500);
  const { code, err } = await asked;
  assert.deepEqual([code, err], [1, "canopy health: http://s/health did not answer within 2.5 s\n"]);
});

test("canopy health is ended by Ctrl-C with 130", async () => {
  const io = fakeIo({ transport: serverOf({}) });
  const asked = health(io, "--url", "http://s");
  io.interrupt();
  assert.equal((await asked).code, 130);
});
