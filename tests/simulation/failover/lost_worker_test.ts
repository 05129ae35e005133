import assert from "node:assert/strict";
import { test } from "node:test";
import type { Router } from "../../../router/router.ts";
import { ask, eventsOf, makeWarmWorld } from "../warm_world.ts";
import type { World } from "../world.ts";

/** The longest time until the checks of a stopped worker have failed often enough, and it was asked to abort. */
const KNOWN_DEAD_MS = 35_000;

const graphs = {
  moa: { layers: [{ agents: [{ model: "32b" }] }], sampling: { max_tokens: 300, temperature: 0 } },
};

function world(): World {
  return makeWarmWorld({ seed: "stopped", replicas: 2, graphs });
}

/** Stops the process that works, as SIGSTOP does: its sockets stay open, and nothing comes any more. */
function stopBusy({ workers }: World): string {
  const busy = workers.find(({ simulator }) => simulator.running > 0);
  assert.ok(busy, "no worker is busy");
  busy.simulator.freeze();
  busy.simulator.inject({ kind: "hang", count: Infinity });
  return busy.url;
}

async function stream(router: Router): Promise<string> {
  const answer = await router.app.request("/v1/completions", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ model: "32b", prompt: "Hello", max_tokens: 300, stream: true }),
  });
  return await answer.text();
}

test("an agent's answer on a stopped worker goes on elsewhere when the checks say so", async () => {
  const texts: string[] = [];
  for (const stops of [false, true]) {
    const here = world();
    await here.clock.run(async () => {
      const router = await here.router();
      await router.ready();
      const asked = ask(router, "moa", "Why?");
      await here.clock.sleep(1_000);
      if (stops) stopBusy(here);
      const record = await asked;
      assert.equal(record.state, "done");
      texts.push(record.agents[0]!.text);
      assert.equal(eventsOf(record, "agent_resumed").length, stops ? 1 : 0);
      if (stops) assert.ok(record.durationMs! < KNOWN_DEAD_MS + 10_000, `it took ${record.durationMs} ms`);
      await router.close();
    }, { limitMs: 600_000 });
  }
  assert.equal(texts[1], texts[0]);
});

test("a relayed stream on a stopped worker ends with an error that names it when the checks say so", async () => {
  const here = world();
  await here.clock.run(async () => {
    const router = await here.router();
    await router.ready();
    const beganMs = here.clock.now();
    const streamed = stream(router);
    await here.clock.sleep(1_000);
    stopBusy(here);
    const text = await streamed;
    assert.ok(here.clock.now() - beganMs < KNOWN_DEAD_MS, `it took ${here.clock.now() - beganMs} ms`);
    assert.match(
      text,
      /"message":"Worker 32b\.w\d was taken out of service before its answer was whole: [^"]+"/,
    );
    assert.match(text, /"code":"worker_lost"/);
    assert.doesNotMatch(text, /\[DONE\]/);
    await router.close();
  }, { limitMs: 600_000 });
});

test("a relayed request that a stopped worker has not begun to answer goes to another one", async () => {
  const here = world();
  await here.clock.run(async () => {
    const router = await here.router();
    await router.ready();
    for (const { simulator, url } of here.workers) {
      if (url.endsWith("32b-0.sim")) simulator.inject({ kind: "hang", count: Infinity });
    }
    const beganMs = here.clock.now();
    const answers = await Promise.all([stream(router), stream(router)]);
    for (const text of answers) assert.match(text, /\[DONE\]/);
    assert.ok(here.clock.now() - beganMs < KNOWN_DEAD_MS + 10_000);
    await router.close();
  }, { limitMs: 600_000 });
});
