import assert from "node:assert/strict";
import { test } from "node:test";
import { Random } from "../../base/random.ts";
import { makeWorld } from "./world.ts";

/** Requests of each kind. */
const COUNT = 40;
const TAG = /tag-(\d+)\./;

interface Served {
  readonly kind: "relayed" | "run";
  readonly arrival: number;
  /** When a worker got it. */
  placedMs: number | undefined;
  /** When the client had the whole answer. */
  answeredMs: number | undefined;
}

interface Scene {
  readonly name: string;
  readonly replicas: number;
  readonly pairs?: Parameters<typeof makeWorld>[0]["pairs"];
  readonly model: Record<string, unknown>;
}

const scenes: readonly Scene[] = [
  { name: "one worker with one place", replicas: 1, model: { max_in_flight: 1 } },
  { name: "three workers with one place each", replicas: 3, model: { max_in_flight: 1 } },
  { name: "one worker with four places", replicas: 1, model: { max_in_flight: 4 } },
  {
    name: "a pair with a window of one",
    replicas: 1,
    pairs: { engine: "sglang-pd" },
    model: { pair_window: 1 },
  },
  {
    name: "three pairs with a window of one and few places",
    replicas: 3,
    pairs: { engine: "sglang-pd" },
    model: { pair_window: 1, max_in_flight: 2 },
  },
];

/** Sends both kinds in random turns, 1 ms apart: far faster than they are answered. */
async function play({ name, replicas, pairs, model }: Scene): Promise<readonly Served[]> {
  const served: Served[] = [];
  const random = new Random(`fairness/${name}`);
  const world = makeWorld({
    seed: name,
    replicas,
    model,
    ...(pairs === undefined ? {} : { pairs }),
    graphs: { moa: { layers: [{ agents: [{ model: "4b" }] }] } },
    intercept: ({ body }, clock) => {
      const text = typeof body === "string" ? body : new TextDecoder().decode(body);
      const one = served[Number(TAG.exec(text)?.[1] ?? -1)];
      if (one !== undefined) one.placedMs ??= clock.now();
      return undefined;
    },
  });
  const { clock } = world;
  await clock.run(async () => {
    const router = world.router();
    await router.ready();
    const left = { relayed: COUNT, run: COUNT };
    const answers: Promise<void>[] = [];
    for (let arrival = 0; arrival < 2 * COUNT; arrival++) {
      const kind = random.int(left.relayed + left.run) < left.relayed ? "relayed" : "run";
      left[kind]--;
      const one: Served = { kind, arrival, placedMs: undefined, answeredMs: undefined };
      served.push(one);
      const ask = async () => {
        const response = await router.app.request("/v1/chat/completions", {
          method: "POST",
          headers: { "content-type": "application/json" },
          body: JSON.stringify({
            model: kind === "run" ? "moa" : "4b",
            max_tokens: 5 + random.int(40),
            messages: [{ role: "user", content: `Answer tag-${arrival}. please` }],
          }),
        });
        assert.equal(response.status, 200, await response.text());
        one.answeredMs = clock.now();
      };
      answers.push(ask());
      await clock.sleep(1);
    }
    await Promise.all(answers);
    for (const { pool } of router.services.models.values()) {
      assert.ok(pool.workers().every(({ inFlight }) => inFlight === 0));
    }
    await router.close();
  }, { limitMs: 3_600_000 });
  await clock.advance(clock.now() + 30_000);
  assert.equal(clock.pendingTimers, 0, "a timer is left");
  return served;
}

/** Most requests that came later and were yet `at` their goal strictly before one of the other kind, and of the same. */
function overtakings(served: readonly Served[], at: "placedMs" | "answeredMs") {
  const most = { other: 0, same: 0 };
  for (const one of served) {
    const before = served.filter((later) => later.arrival > one.arrival && later[at]! < one[at]!);
    const other = before.filter(({ kind }) => kind !== one.kind).length;
    most.other = Math.max(most.other, other);
    most.same = Math.max(most.same, before.length - other);
  }
  return most;
}

for (const scene of scenes) {
  test(`relayed requests and runs are placed in the order of their arrival: ${scene.name}`, async () => {
    const served = await play(scene);
    assert.ok(served.every(({ placedMs, answeredMs }) => placedMs !== undefined && answeredMs !== undefined));
    assert.deepEqual(overtakings(served, "placedMs"), { other: 0, same: 0 });
    // With one place, the order of places is that of answers.
    if (scene.model["max_in_flight"] === 1 && scene.replicas === 1) {
      assert.deepEqual(overtakings(served, "answeredMs"), { other: 0, same: 0 });
    }
  });
}
