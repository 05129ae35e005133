import assert from "node:assert/strict";
import { test } from "node:test";
import { fc, often } from "../../properties.ts";
import { openAiRequest } from "./openai/bodies.ts";
import { makeWorld, sizes } from "../../simulation/world.ts";

const BODIES = often(60);

for (const { name: root, engine, version } of sizes) {
  test(`${BODIES} bodies through whole trees with a root on ${engine} ${version} give only 2xx and 4xx`, async () => {
    const layers = [{ agents: [{ model: "4b" }, { model: "8b" }] }, { agents: [{ model: root }] }];
    const graphs = { moa: { sampling: { max_tokens: 4 }, layers } };
    const world = makeWorld({ seed: "bad input", replicas: 1, cost: "instant", graphs });
    let answered = 0;
    await world.clock.run(async () => {
      const router = world.router();
      await router.ready();
      for (const [path, body] of fc.sample(openAiRequest, { numRuns: BODIES })) {
        const response = await router.app.request(path, { method: "POST", body });
        const text = await response.text();
        if (response.status === 200) {
          answered++;
          if (text.startsWith("data: ")) assert.ok(text.endsWith("data: [DONE]\n\n"), `${body}\n${text}`);
        } else assert.ok(response.status >= 400 && response.status < 500, `${body}\n${text}`);
      }
      await router.close();
    });
    // A third is, of many; of so few it may be half as much.
    assert.ok(answered > BODIES / 20, String(answered));
    assert.deepEqual(world.workers.map((worker) => worker.simulator.running), [0, 0, 0]);
  });
}
