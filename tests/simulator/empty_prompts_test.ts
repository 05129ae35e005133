import assert from "node:assert/strict";
import { test } from "node:test";
import { makeWorld } from "../simulation/world.ts";

const BODIES: readonly [string, object][] = [
  ["/generate", { model: "32b", text: "" }],
  ["/generate", { model: "32b", text: ["a", ""], rid: ["x", "y"] }],
  ["/generate", { model: "32b", text: [[]] }],
  ["/generate", { model: "32b", text: ["a", 1] }],
  ["/generate", { model: "32b", input_ids: [] }],
  ["/v1/completions", { model: "32b", prompt: "" }],
  ["/v1/completions", { model: "32b", prompt: ["a", ""] }],
  ["/v1/completions", { model: "32b", prompt: [[1], []] }],
  ["/v1/completions", { model: "4b", prompt: "" }],
  ["/v1/completions", { model: "4b", prompt: ["a", ""] }],
  ["/v1/completions", { model: "4b", prompt: [[1], []] }],
];

test("simulated engines refuse an empty prompt as real ones do: it used to keep them busy without end", async () => {
  const world = makeWorld({ seed: "empty", replicas: 1, cost: "instant", graphs: {} });
  await world.clock.run(async () => {
    const router = world.router();
    await router.ready();
    for (const [path, body] of BODIES) {
      const sent = JSON.stringify({ ...body, max_tokens: 2, sampling_params: { max_new_tokens: 2 } });
      const response = await router.app.request(path, { method: "POST", body: sent });
      assert.equal(response.status, 400, `${path} ${sent}: ${await response.text()}`);
    }
    await router.close();
  });
  assert.deepEqual(world.workers.map(({ simulator }) => simulator.running), [0, 0, 0]);
});
