import assert from "node:assert/strict";
import { test } from "node:test";
import { configSchema } from "../../../cfgs/schema/config.ts";
import { listeningEngines, simulatedConfig } from "../../../cli/bench/eval/simulated_config.ts";
import { postJson } from "../../../cli/kit/client.ts";
import { startRouter } from "../../../cli/kit/router/local_router.ts";
import { withSystem } from "../served.ts";

const CHAT = "/v1/chat/completions";

test("servers and pairs of a configuration have simulated ones in their place, which answer, and all are closed", async () => {
  const config = configSchema.parse({
    server: { log_level: "fatal" },
    models: Object.fromEntries(
      ["sglang", "vllm", "openai"].map((
        engine,
      ) => [engine, { model: "m-4b", engine, workers: ["http://no.where"] }]),
    ),
  });
  const pair = { prefill: "http://no.where:1", decode: "http://no.where:2" };
  const pairs = configSchema.parse({
    models: Object.fromEntries(
      ["sglang-pd", "vllm-pd"].map((engine) => [engine, { model: "m-4b", engine, workers: [pair] }]),
    ),
  });
  await withSystem(async (io) => {
    const started: { close(): Promise<void> }[] = [];
    try {
      const all = { ...config, models: { ...config.models, ...pairs.models } };
      const simulated = await simulatedConfig(all, listeningEngines({ speedup: 1000, started }, io));
      assert.equal(started.length, 7);
      assert.equal(JSON.stringify(simulated).includes("no.where"), false);
      const { router, url } = await startRouter(simulated, io, { host: "127.0.0.1", port: 0 });
      started.push(router);
      await router.ready();
      for (const model of Object.keys(all.models)) {
        const body = { model, messages: [{ role: "user", content: "Hi" }], max_tokens: 3 };
        const answer = await postJson(
          io.transport,
          { url, apiKey: undefined },
          { path: CHAT, body },
          io.stop,
        );
        assert.match(JSON.stringify(answer), /"completion_tokens":3\b/, model);
      }
    } finally {
      for (const one of started.reverse()) await one.close();
    }
  });
});
