import "../../loopback.ts";
import assert from "node:assert/strict";
import { test } from "node:test";
import { SystemClock } from "../../../base/clock.ts";
import { messageOf } from "../../../base/errors.ts";
import { logger } from "../../../base/log.ts";
import { Random } from "../../../base/random.ts";
import type { StoreEntry, StoreLimits } from "../../../router/replicas/key_store.ts";
import { connectValkey } from "../../../router/replicas/connect_valkey.ts";
import { ValkeyStore } from "../../../router/replicas/valkey_store.ts";
import { MinuteView } from "../../../router/shared/minute_window.ts";
import { takePorts } from "../../ports.ts";
import { HANG_MS, until } from "../../until.ts";
import { VALKEY_PROGRAM, ValkeyServer } from "./valkey_server.ts";

const NONE: StoreLimits = {
  requestsPerMinute: undefined,
  tokensPerMinute: undefined,
  maxConcurrent: undefined,
};
const outcomeOf = (entry: StoreEntry | undefined) => entry?.outcome;

test("replicas count together in a real server, and find each other again after it was away", async (t) => {
  if (VALKEY_PROGRAM === undefined) {
    return t.skip("neither valkey-server nor redis-server is installed (Debian: redis-server)");
  }
  const ports = await takePorts();
  const server = new ValkeyServer(ports.base);
  await server.start();
  const life = new AbortController();
  const stores = ["one", "other"].map((replica) =>
    new ValkeyStore({
      clock: new SystemClock(),
      signal: life.signal,
      log: logger("test"),
      random: new Random(replica),
      connection: connectValkey({ url: `valkey://127.0.0.1:${server.port}` }),
      server: "a test's",
      prefix: "canopy-test",
      replica,
      replicas: 1,
      answerMs: HANG_MS,
    })
  );
  const [one, other] = stores;
  assert.ok(one !== undefined && other !== undefined);
  try {
    const areHere = () => one.isHere && other.isHere;
    await until("both replicas know each other", () => areHere() && one.replicas + other.replicas === 4);

    const five = { ...NONE, requestsPerMinute: 5 };
    const begun: (StoreEntry | undefined)[] = [];
    for (const store of [one, other, one, other, one]) begun.push(await store.enter("a", five));
    assert.deepEqual(begun.map(outcomeOf), ["ok", "ok", "ok", "ok", "ok"]);
    for (const store of stores) {
      const refused = await store.enter("a", five);
      assert.equal(refused?.outcome, "requests");
      assert.equal(new MinuteView(refused?.requests ?? []).count(refused?.nowMs ?? 0), 5);
      assert.equal(outcomeOf(await store.enter("another key", five)), "ok");
    }

    one.spend("b", 40);
    other.spend("b", 60);
    /** Whether a request may begin; it ends at once. */
    const tried = async (store: ValkeyStore, hash: string, limits: StoreLimits) => {
      const entry = await store.enter(hash, limits);
      entry?.leave();
      return entry?.outcome;
    };
    await until("tokens of both count for both", async () => {
      const outcomes = [one, other].map((store) => tried(store, "b", { ...NONE, tokensPerMinute: 100 }));
      return (await Promise.all(outcomes)).every((outcome) => outcome === "tokens");
    });

    const twice = { ...NONE, maxConcurrent: 2 };
    const held = await one.enter("c", twice);
    const second = await other.enter("c", twice);
    assert.deepEqual([held, second, await one.enter("c", twice)].map(outcomeOf), ["ok", "ok", "concurrent"]);
    second?.leave();
    await until("what one leaves is free for the other", async () => await tried(one, "c", twice) === "ok");

    await server.stop();
    await until("both notice that it is away", async () => {
      await Promise.all(stores.map((store) => store.enter("d", NONE)));
      return !one.isHere && !other.isHere;
    });
    assert.deepEqual([one.replicas, other.replicas], [2, 2]);
    await server.start();
    await until("both are back", () => areHere() && one.replicas + other.replicas === 4);
    const once = { ...NONE, maxConcurrent: 1 };
    await until(
      "an empty server is told what goes on",
      async () => await tried(other, "c", once) === "concurrent",
    );
    held?.leave();
    await until("and what has ended", async () => await tried(other, "c", once) === "ok");
  } finally {
    life.abort(new Error("The test is over"));
    await server.stop();
    await ports.release();
  }
});

test("a server that wants another password says so, and takes the right one", async (t) => {
  if (VALKEY_PROGRAM === undefined) {
    return t.skip("neither valkey-server nor redis-server is installed (Debian: redis-server)");
  }
  const ports = await takePorts();
  const server = new ValkeyServer(ports.base);
  await server.start("secret");
  const url = `redis://127.0.0.1:${server.port}`;
  const [wrong, right] = ["guess", "secret"].map((password) => connectValkey({ url, password }));
  try {
    const said = (connection = right) =>
      connection?.send(["PING"]).then(String, (error: unknown) => messageOf(error));
    await until("the right one is let in", async () => await said() === "PONG");
    await until("the wrong one is told", async () => /WRONGPASS/.test(await said(wrong) ?? ""));
  } finally {
    wrong?.close();
    right?.close();
    await server.stop();
    await ports.release();
  }
});
