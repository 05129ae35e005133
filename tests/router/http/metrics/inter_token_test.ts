import assert from "node:assert/strict";
import { test } from "node:test";
import { fieldOf, listField, numberAt, textField } from "../../../../page/state/json_fields.ts";
import { readMetrics, sumOfSamples } from "../../../../page/state/metrics_text.ts";
import { makeWorld } from "../../../simulation/world.ts";

const NAME = "canopy_inter_token_seconds";

test("the time between two tokens is that of the root's answers, streamed or not, by graph", async () => {
  const layers = [{ agents: [{ model: "4b" }, { model: "8b" }] }, { agents: [{ model: "32b" }] }];
  const graphs = { moa: { layers, sampling: { max_tokens: 30 } }, other: { layers } };
  const world = makeWorld({ seed: "tokens", replicas: 1, graphs });
  await world.clock.run(async () => {
    const { app, close } = world.router();
    let tokens = 0;
    let seconds = 0;
    for (const stream of [true, false]) {
      const answer = await app.request("/v1/chat/completions", {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ model: "moa", stream, messages: [{ role: "user", content: "Which way?" }] }),
      });
      await answer.text();
      const id = answer.headers.get("x-canopy-run-id") ?? "";
      const record: unknown = await (await app.request(`/v1/runs/${id}`)).json();
      const root = listField(record, "agents").at(-1);
      const usage = listField(record, "usage", "agents").find((one) =>
        textField(one, "agent") === textField(root, "id")
      );
      tokens += (numberAt(usage, "completion_tokens") ?? 0) - 1;
      seconds += ((numberAt(root, "ended_at_ms") ?? 0) - (numberAt(root, "first_token_at_ms") ?? 0)) / 1_000;
      assert.equal(fieldOf(record, "state"), "done");
    }
    const samples = readMetrics(await (await app.request("/metrics")).text());
    const of = (graph: string, part: string) => sumOfSamples(samples, `${NAME}_${part}`, { graph });
    assert.ok(tokens > 20);
    assert.equal(of("moa", "count"), tokens);
    assert.ok(Math.abs(of("moa", "sum") - seconds) < 1e-6, `${of("moa", "sum")} of ${seconds} s`);
    assert.equal(of("other", "count"), 0);
    await close();
  });
});
