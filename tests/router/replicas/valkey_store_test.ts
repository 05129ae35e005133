import assert from "node:assert/strict";
import { test } from "node:test";
import { VirtualClock } from "../../../base/clock.ts";
import { logger } from "../../../base/log.ts";
import { Random } from "../../../base/random.ts";
import type { StoreLimits } from "../../../router/replicas/key_store.ts";
import { type SendCommand, ValkeyStore } from "../../../router/replicas/valkey_store.ts";

const NONE: StoreLimits = {
  requestsPerMinute: undefined,
  tokensPerMinute: undefined,
  maxConcurrent: undefined,
};

/** A store whose server is this function; `sent` has what it was asked, scripts left out. */
function storeOver(answer: SendCommand) {
  const clock = new VirtualClock();
  const sent: string[][] = [];
  const life = new AbortController();
  const store = new ValkeyStore({
    signal: life.signal,
    clock,
    log: logger("test"),
    random: new Random("store"),
    connection: {
      send: (command) => {
        sent.push(command.filter((part) => part.length < 100));
        return answer(command);
      },
      close: () => {},
    },
    server: "redis://somewhere",
    prefix: "canopy",
    replica: "me",
    replicas: 3,
  });
  return { clock, store, sent, close: () => life.abort(new Error("closed")) };
}

/** A server that lets everything begin, with three replicas there. */
const generous: SendCommand = (command) =>
  Promise.resolve(command[2] === "3" ? ["ok", 61_000, [61, 1], []] : 3);

test("a store says how many replicas there are, and again and again which requests go on", async () => {
  const { clock, store, sent, close } = storeOver(generous);
  await clock.run(async () => {
    await clock.sleep(10);
    assert.deepEqual([store.isHere, store.replicas], [true, 3]);
    const entry = await store.enter("k", { ...NONE, requestsPerMinute: 7 });
    assert.deepEqual([entry?.outcome, entry?.nowMs, entry?.requests], ["ok", 61_000, [{
      second: 61,
      count: 1,
    }]]);
    const asked = sent.at(-1) ?? [];
    const keys = ["canopy:{k}:requests", "canopy:{k}:tokens", "canopy:{k}:running"];
    assert.deepEqual(asked.slice(0, 8), ["EVAL", "3", ...keys, "7", "-1", "-1"]);
    const name = asked[8];
    await clock.sleep(5_000);
    assert.deepEqual(sent.slice(-2), [
      ["EVAL", "1", "canopy:replicas", "15000", "me"],
      ["EVAL", "1", "canopy:{k}:running", "15000", name],
    ]);
    entry?.leave();
    entry?.leave();
    assert.deepEqual(sent.filter(([what]) => what === "ZREM"), [["ZREM", "canopy:{k}:running", name]]);
    await clock.sleep(5_000);
    assert.deepEqual(sent.at(-1), ["EVAL", "1", "canopy:replicas", "15000", "me"]);
    close();
  });
});

test("a server that is silent holds up one request, for a quarter of a second; the next ones are not asked for", async () => {
  let isSilent = false;
  const { clock, store, sent, close } = storeOver((command) =>
    isSilent ? new Promise(() => {}) : generous(command)
  );
  await clock.run(async () => {
    await clock.sleep(10);
    isSilent = true;
    const atMs = clock.now();
    assert.equal(await store.enter("k", NONE), undefined);
    assert.deepEqual([clock.now() - atMs, store.isHere, store.replicas], [250, false, 3]);
    const asked = sent.length;
    assert.equal(await store.enter("k", NONE), undefined);
    store.spend("k", 5);
    assert.equal(clock.now() - atMs, 250);
    assert.equal(sent.length, asked);
    isSilent = false;
    await clock.sleep(7_000);
    assert.equal(store.isHere, true);
    assert.equal((await store.enter("k", NONE))?.outcome, "ok");
    close();
  });
});

test("a server that answers nonsense, or refuses, is as good as away", async () => {
  for (const answer of [() => Promise.resolve(["yes"]), () => Promise.reject(new Error("NOAUTH"))]) {
    const { clock, store, close } = storeOver(answer);
    await clock.run(async () => {
      assert.equal(await store.enter("k", NONE), undefined);
      assert.deepEqual([store.isHere, store.replicas], [false, 3]);
      close();
    });
  }
});

test("a connection that takes its time at the start is no outage; one that never comes is, after three seconds", async () => {
  for (const readyMs of [400, Infinity]) {
    const { clock, store, close } = storeOver(async (command) => {
      if (clock.now() < readyMs) throw new Error("The client is offline");
      return await generous(command);
    });
    await clock.run(async () => {
      await clock.sleep(500);
      assert.equal(store.isHere, readyMs === 400);
      await clock.sleep(3_000);
      assert.equal((await store.enter("k", NONE))?.outcome, readyMs === 400 ? "ok" : undefined);
      close();
    });
  }
});

test("a request that is refused is never among those that go on, not even while it is asked for", async () => {
  const asked = Promise.withResolvers<unknown>();
  const { clock, store, sent, close } = storeOver((command) =>
    command[2] === "3" ? asked.promise : generous(command)
  );
  await clock.run(async () => {
    await clock.sleep(4_900);
    const entering = store.enter("k", { ...NONE, maxConcurrent: 1 });
    await clock.sleep(200);
    asked.resolve(["concurrent", 61_000, [], []]);
    assert.equal((await entering)?.outcome, "concurrent");
    assert.deepEqual(sent.filter((command) => command[2] === "canopy:{k}:running" && command[1] === "1"), []);
    close();
  });
});
