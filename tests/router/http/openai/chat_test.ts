import assert from "node:assert/strict";
import { test } from "node:test";
import { VirtualClock } from "../../../../base/clock.ts";
import { CanopyError } from "../../../../base/errors.ts";
import {
  chatChunkSchema,
  chatCompletionSchema,
  errorSchema,
} from "../../../../router/http/openai/response_schema.ts";
import type { RunEvent } from "../../../../router/moa/run/run.ts";
import { EngineError } from "../../../../router/worker/engine_error.ts";
import { fakeApp, hello, parseEvents } from "../fakes.ts";

const TOTAL = {
  prompt_tokens: 100,
  completion_tokens: 20,
  total_tokens: 120,
  prompt_tokens_details: { cached_tokens: 64 },
  completion_tokens_details: { reasoning_tokens: 5, answer_tokens: 5 },
};

async function refusal(response: Response, status = 400) {
  const text = await response.text();
  assert.equal(response.status, status, text);
  assert.equal(response.headers.get("content-type"), "application/json");
  return errorSchema.parse(JSON.parse(text)).error;
}

test("a chat answer has OpenAI's form, the asked name, the clock's time and the usage of all calls", async () => {
  const { chat, moa } = fakeApp({ clock: new VirtualClock({ unixEpochMs: 1_800_000_000_900 }) });
  const response = await chat();
  assert.equal(response.status, 200);
  assert.equal(response.headers.get("content-type"), "application/json");
  assert.equal(response.headers.get("x-canopy-run-id"), moa.run.id);
  const body = chatCompletionSchema.parse(await response.json());
  assert.deepEqual({ ...body, id: "" }, {
    id: "",
    object: "chat.completion",
    created: 1_800_000_000,
    model: "moa",
    choices: [{
      index: 0,
      message: { role: "assistant", content: "Hello", refusal: null },
      logprobs: null,
      finish_reason: "stop",
    }],
    usage: TOTAL,
  });
});

test("a chat stream is framed byte for byte as OpenAI's, without usage and without comments", async () => {
  const { chat } = fakeApp({ clock: new VirtualClock({ unixEpochMs: 1_800_000_000_000 }) });
  const response = await chat({ stream: true });
  assert.equal(response.headers.get("content-type"), "text/event-stream");
  const text = await response.text();
  const id = /"id":"(chatcmpl-[0-9a-f]{24})"/.exec(text)?.[1];
  const head =
    `data: {"id":"${id}","object":"chat.completion.chunk","created":1800000000,"model":"moa","choices":`;
  assert.equal(
    text,
    head +
      '[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]}\n\n' +
      head + '[{"index":0,"delta":{"content":"Hel"},"logprobs":null,"finish_reason":null}]}\n\n' +
      head + '[{"index":0,"delta":{"content":"lo"},"logprobs":null,"finish_reason":null}]}\n\n' +
      head + '[{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}]}\n\n' +
      "data: [DONE]\n\n",
  );
});

test("include_usage adds one last chunk without choices and null to the others", async () => {
  const { chat } = fakeApp();
  const events = parseEvents(
    await (await chat({ stream: true, stream_options: { include_usage: true } })).text(),
  );
  assert.equal(events.pop(), "[DONE]");
  const chunks = events.map((event) => chatChunkSchema.parse(event));
  const last = chunks.pop();
  assert.deepEqual(last?.choices, []);
  assert.deepEqual(last?.usage, TOTAL);
  assert.ok(chunks.every((chunk) => chunk.usage === null && chunk.choices.length === 1));
});

test("continuous_usage_stats puts the usage so far into every chunk", async () => {
  const { chat } = fakeApp();
  const stream_options = { include_usage: false, continuous_usage_stats: true };
  const events = parseEvents(await (await chat({ stream: true, stream_options })).text());
  assert.equal(events.pop(), "[DONE]");
  for (const event of events) assert.deepEqual(chatChunkSchema.parse(event).usage, TOTAL);
});

test("every choice of n has its role first, its own finish_reason last, and one id", async () => {
  const { chat, moa } = fakeApp({
    *script(): Generator<RunEvent> {
      for (const index of [1, 0]) yield { type: "delta", index, delta: { type: "delta", text: `c${index}` } };
      yield { type: "end", index: 0, finishReason: "length" };
      yield { type: "end", index: 1, finishReason: "stop" };
    },
  });
  const whole = chatCompletionSchema.parse(await (await chat({ n: 2 })).json());
  assert.deepEqual(
    whole.choices.map((choice) => [choice.index, choice.message.content, choice.finish_reason]),
    [
      [0, "c0", "length"],
      [1, "c1", "stop"],
    ],
  );
  assert.equal(moa.run.input.choices, 2);
  const events = parseEvents(await (await chat({ n: 2, stream: true })).text());
  const chunks = events.slice(0, -1).map((event) => chatChunkSchema.parse(event));
  assert.equal(new Set(chunks.map((chunk) => chunk.id)).size, 1);
  for (const index of [0, 1]) {
    const own = chunks.flatMap((chunk) => chunk.choices).filter((choice) => choice.index === index);
    assert.equal(own[0]?.delta.role, "assistant");
    assert.ok(own.slice(0, -1).every((choice) => choice.finish_reason === null));
    assert.notEqual(own.at(-1)?.finish_reason, null);
  }
});

test("log-probabilities come with bytes and alternatives, whole and streamed", async () => {
  const { chat, moa } = fakeApp({
    *script(): Generator<RunEvent> {
      const logprobs = [{ token: "é", logprob: -0.5, top: [{ token: "e", logprob: -1 }] }];
      yield { type: "delta", index: 0, delta: { type: "delta", text: "é", logprobs } };
      const partial = [{ token: "\ufffd", logprob: -2 }];
      yield { type: "delta", index: 0, delta: { type: "delta", text: "", logprobs: partial } };
      yield { type: "end", index: 0, finishReason: "stop" };
    },
  });
  const expected = [
    {
      token: "é",
      logprob: -0.5,
      bytes: [0xc3, 0xa9],
      top_logprobs: [{ token: "e", logprob: -1, bytes: [0x65] }],
    },
    { token: "\ufffd", logprob: -2, bytes: null, top_logprobs: [] },
  ];
  const whole = chatCompletionSchema.parse(await (await chat({ logprobs: true, top_logprobs: 3 })).json());
  assert.deepEqual(whole.choices[0]?.logprobs?.content, expected);
  assert.equal(moa.run.input.rootLogprobs, 3);
  const events = parseEvents(await (await chat({ logprobs: true, stream: true })).text());
  const streamed = events.slice(0, -1).flatMap((event) =>
    chatChunkSchema.parse(event).choices[0]?.logprobs?.content ?? []
  );
  assert.deepEqual(streamed, expected);
  const without = chatCompletionSchema.parse(await (await chat()).json());
  assert.equal(without.choices[0]?.logprobs, null);
});

test("reasoning and tool calls are passed on, and joined in a whole answer", async () => {
  const { chat } = fakeApp({
    *script(): Generator<RunEvent> {
      yield { type: "delta", index: 0, delta: { type: "delta", text: "", reasoning: "hm" } };
      const first = { index: 0, id: "call_1", type: "function", function: { name: "f", arguments: '{"a"' } };
      yield { type: "delta", index: 0, delta: { type: "delta", text: "", toolCalls: [first] } };
      const second = { index: 0, function: { arguments: ":1}" } };
      yield { type: "delta", index: 0, delta: { type: "delta", text: "", toolCalls: [second] } };
      yield { type: "end", index: 0, finishReason: "tool_calls" };
    },
  });
  const whole = chatCompletionSchema.parse(await (await chat()).json());
  assert.deepEqual(whole.choices[0]?.message, {
    role: "assistant",
    content: null,
    refusal: null,
    reasoning_content: "hm",
    tool_calls: [{ id: "call_1", type: "function", function: { name: "f", arguments: '{"a":1}' } }],
  });
  const events = parseEvents(await (await chat({ stream: true })).text()).slice(0, -1);
  const deltas = events.map((event) => chatChunkSchema.parse(event).choices[0]?.delta);
  assert.deepEqual(deltas[1], { reasoning_content: "hm" });
  assert.deepEqual(deltas[3], { tool_calls: [{ index: 0, function: { arguments: ":1}" } }] });
});

test("the client's parameters go to the root, in OpenAI's names, engine extras included", async () => {
  const { chat, moa } = fakeApp();
  const tools = [{ type: "function", function: { name: "f" } }];
  const response = await chat({
    max_tokens: 5,
    max_completion_tokens: 7,
    temperature: 0,
    top_p: 0.5,
    top_k: 3,
    min_p: 0.1,
    frequency_penalty: -1,
    presence_penalty: 1,
    repetition_penalty: 1.1,
    seed: 9007199254740991,
    stop: "END",
    logit_bias: { "5": -100 },
    ignore_eos: true,
    chat_template_kwargs: { enable_thinking: false },
    response_format: { type: "json_object" },
    tools,
    tool_choice: "auto",
    parallel_tool_calls: false,
    something_new: { deep: [1, "x"] },
    user: "u",
    metadata: { a: "b" },
    store: true,
  });
  assert.equal(response.status, 200, await response.clone().text());
  assert.deepEqual(moa.run.input.rootSampling, {
    max_tokens: 7,
    temperature: 0,
    top_p: 0.5,
    top_k: 3,
    min_p: 0.1,
    frequency_penalty: -1,
    presence_penalty: 1,
    repetition_penalty: 1.1,
    seed: 9007199254740991,
    stop: ["END"],
    extra: {
      logit_bias: { "5": -100 },
      ignore_eos: true,
      chat_template_kwargs: { enable_thinking: false },
      something_new: { deep: [1, "x"] },
      tools,
      tool_choice: "auto",
      parallel_tool_calls: false,
      response_format: { type: "json_object" },
    },
  });
});

test("null stands for not set, everywhere", async () => {
  const { chat, moa } = fakeApp();
  const nothing = Object.fromEntries(
    [
      "n",
      "stop",
      "max_tokens",
      "max_completion_tokens",
      "seed",
      "temperature",
      "top_p",
      "logprobs",
      "top_logprobs",
    ]
      .concat(["stream", "stream_options", "response_format", "tools", "tool_choice", "logit_bias", "canopy"])
      .concat(["user", "top_k", "min_p", "suffix", "prompt_logprobs", "functions", "anything"])
      .map((name) => [name, null]),
  );
  const messages = [{ role: "user", content: "Hi", name: null }, {
    role: "assistant",
    content: null,
    extra: 1,
  }];
  const response = await chat({ ...nothing, messages });
  assert.equal(response.status, 200, await response.clone().text());
  assert.deepEqual(moa.run.input.rootSampling, {});
  assert.equal(moa.run.input.choices, 1);
  assert.equal(moa.run.input.rootLogprobs, undefined);
  assert.deepEqual(moa.run.input.question, {
    kind: "chat",
    messages: [{ role: "user", content: "Hi" }, { role: "assistant", extra: 1, content: null }],
  });
});

test("stop may be a text, an empty list, or more strings than engines take", async () => {
  const five = ["a", "b", "c", "d", "e"];
  // vLLM takes four: the router looks for the others itself.
  const cases = [["a", ["a"]], [[], undefined], [five, five.slice(0, 4)]];
  for (const [stop, expected] of cases) {
    const { chat, moa } = fakeApp();
    assert.equal((await chat({ stop })).status, 200);
    assert.deepEqual(moa.run.input.rootSampling.stop, expected);
  }
  const { chat, moa } = fakeApp({ models: { big: { capabilities: { maxStopStrings: undefined } } } });
  assert.equal((await chat({ stop: five })).status, 200);
  assert.deepEqual(moa.run.input.rootSampling.stop, five);
});

test("what cannot be honoured is refused with a 400 that names the field", async () => {
  const cases: [Record<string, unknown>, string][] = [
    [{ messages: undefined }, "messages"],
    [{ messages: [] }, "messages"],
    [{ messages: "Hi" }, "messages"],
    [{ messages: [{ role: "wizard", content: "x" }] }, "messages[0].role"],
    [{ messages: [{ role: "user" }] }, "messages[0].content"],
    [{ messages: [{ role: "user", content: 5 }] }, "messages[0].content"],
    [{ messages: [{ role: "user", content: [{ type: "text" }] }] }, "messages[0].content[0].text"],
    [{ n: 0 }, "n"],
    [{ n: 17 }, "n"],
    [{ n: "2" }, "n"],
    [{ temperature: 2.5 }, "temperature"],
    [{ top_p: 0 }, "top_p"],
    [{ max_tokens: 0 }, "max_tokens"],
    [{ max_completion_tokens: 1.5 }, "max_completion_tokens"],
    [{ stop: [1] }, "stop"],
    [{ stop: "" }, "stop"],
    [{ logit_bias: { "1": 101 } }, "logit_bias.1"],
    [{ stream: "yes" }, "stream"],
    [{ stream_options: { include_usage: true } }, "stream_options"],
    [{ stream: true, stream_options: { include_usage: 1 } }, "stream_options.include_usage"],
    [{ top_logprobs: 2 }, "top_logprobs"],
    [{ logprobs: true, top_logprobs: 21 }, "top_logprobs"],
    [{ logprobs: 5 }, "logprobs"],
    [{ response_format: { type: "json_schema" } }, "response_format.json_schema"],
    [{ tool_choice: "required" }, "tool_choice"],
    [{ tools: [{ type: "function" }] }, "tools[0].function"],
    [
      {
        tools: [{ type: "function", function: { name: "f" } }],
        tool_choice: { type: "function", function: { name: "g" } },
      },
      "tool_choice.function.name",
    ],
    [{ tools: [{}] }, "tools[0].type"],
    [{ functions: [] }, "functions"],
    [{ prompt: "x" }, "prompt"],
    [{ rid: "x" }, "rid"],
    [{ prompt_logprobs: 1 }, "prompt_logprobs"],
    [{ modalities: ["audio"] }, "modalities"],
    [{ add_generation_prompt: false }, "add_generation_prompt"],
    [{ canopy: { include: ["everything"] } }, "canopy.include[0]"],
    [{ canopy: true }, "canopy"],
    [{ canopy: { included: ["usage"] } }, "canopy.included"],
    [{ seed: 0.5 }, "seed"],
    [{ seed: "7" }, "seed"],
    [{ custom: 2 ** 60 }, "custom"],
  ];
  const { chat, moa } = fakeApp();
  for (const [fields, param] of cases) {
    const error = await refusal(await chat(fields));
    assert.equal(error.param, param, JSON.stringify(fields));
    assert.ok(error.message.includes(param.split(/[.[]/)[0]!), error.message);
    assert.equal(error.type, "invalid_request_error");
  }
  assert.equal(moa.runs.length, 0);
});

test("a seed may be any whole number of 64 bits, and is carried exactly; beyond that it is refused", async () => {
  const { app, moa } = fakeApp();
  const ask = (seed: string) =>
    app.request("/v1/chat/completions", {
      method: "POST",
      body: `{"model":"moa","messages":[{"role":"user","content":"x"}],"seed": ${seed}}`,
    });
  const seeds = ["9223372036854775807", "-9223372036854775808", "9007199254740993"];
  for (const seed of seeds) assert.equal((await ask(seed)).status, 200, seed);
  assert.deepEqual(moa.runs.map((run) => run.input.rootSampling.seed), seeds.map(BigInt));
  for (const seed of ["9223372036854775808", "1e300"]) {
    const error = await refusal(await ask(seed));
    assert.equal(error.param, "seed");
    assert.match(error.message, /from -2\^63 to 2\^63 - 1/);
  }
});

test("log-probabilities are refused when the root's engine has none", async () => {
  const { chat } = fakeApp({ models: { big: { capabilities: { logprobs: false } } } });
  const error = await refusal(await chat({ logprobs: true }));
  assert.equal(error.param, "logprobs");
  assert.match(error.message, /big/);
});

test("a field that would kill the root's engine never starts a run", async () => {
  const { chat, moa } = fakeApp({
    config: {
      models: { small: { model: "s", engine: "vllm" }, big: { model: "b", engine: "sglang" } },
    },
  });
  const error = await refusal(await chat({ stop_token_ids: [-1] }));
  assert.equal(error.param, "stop_token_ids[0]");
  assert.equal(moa.runs.length, 0);
});

test("deep nesting is refused with the field's name before anything recurses into it", async () => {
  const { app } = fakeApp();
  const deep = "[".repeat(20_000) + "]".repeat(20_000);
  for (const field of ["messages", "tools", "anything"]) {
    const body = `{"model":"moa","messages":[{"role":"user","content":"x"}],"${field}":${deep}}`;
    const error = await refusal(await app.request("/v1/chat/completions", { method: "POST", body }));
    assert.equal(error.param, field);
  }
});

test("canopy.include adds the breakdown, the panel and the trace to the answer", async () => {
  const { chat, moa } = fakeApp();
  const body = chatCompletionSchema.parse(
    await (await chat({ canopy: { include: ["usage", "panel", "trace"] } })).json(),
  );
  const canopy: Record<string, unknown> = body.canopy ?? {};
  assert.equal(canopy["run_id"], moa.run.id);
  assert.deepEqual(
    canopy["panel"],
    ["first", "second"].map((text, at) => ({
      agent: `l1.c1.a${at + 1}`,
      model: "small",
      state: "done",
      text,
      finish_reason: "stop",
      error: null,
    })),
  );
  assert.deepEqual(canopy["trace"], [
    { at_ms: 0, type: "run_started" },
    { at_ms: 5, type: "agent_done", agent: "l1.c1.a1", data: { tokens: 8 } },
    { at_ms: 9, type: "run_done" },
  ]);
  const usage = canopy["usage"];
  assert.ok(typeof usage === "object" && usage !== null && "models" in usage);
  assert.deepEqual(usage.models, [
    {
      model: "small",
      calls: 2,
      prompt_tokens: 60,
      completion_tokens: 15,
      cached_tokens: 64,
      reasoning_tokens: 0,
      wasted_tokens: 3,
      warm_tokens: 0,
      cut_tokens: 0,
      spliced_tokens: 0,
      spliced_cached_tokens: null,
      spliced_cached_share: null,
      saved_tokens_estimate: 0,
    },
    {
      model: "big",
      calls: 1,
      prompt_tokens: 40,
      completion_tokens: 5,
      cached_tokens: null,
      reasoning_tokens: 5,
      wasted_tokens: 0,
      warm_tokens: 24,
      cut_tokens: 0,
      spliced_tokens: 0,
      spliced_cached_tokens: null,
      spliced_cached_share: null,
      saved_tokens_estimate: 0,
    },
  ]);
  const plain = chatCompletionSchema.parse(await (await chat()).json());
  assert.equal("canopy" in plain, false);
});

test("in a stream the canopy object is on the last chunk, with the usage only if that was asked for", async () => {
  const { chat } = fakeApp();
  for (const include_usage of [true, false]) {
    const fields = { stream: true, canopy: { include: ["panel"] } };
    const response = await chat(include_usage ? { ...fields, stream_options: { include_usage } } : fields);
    const events = parseEvents(await response.text());
    assert.equal(events.pop(), "[DONE]");
    const last = chatChunkSchema.parse(events.pop());
    assert.ok(last.canopy !== undefined);
    assert.deepEqual(last.choices, []);
    assert.equal("usage" in last, include_usage);
  }
});

test("an error before the root's first output has its true status, in streams too", async () => {
  const broken = new EngineError("Worker http://w broke", {
    code: "worker_failed",
    status: 502,
    workerUrl: "http://w",
    retryable: true,
  });
  const { chat } = fakeApp({
    // deno-lint-ignore require-yield
    *script(): Generator<RunEvent> {
      throw broken;
    },
  });
  for (const stream of [true, false]) {
    const response = await chat({ stream });
    assert.equal(response.headers.get("x-should-retry"), "false");
    const error = await refusal(response, 502);
    assert.deepEqual(error, {
      message: "Worker http://w broke",
      type: "server_error",
      param: null,
      code: "worker_failed",
    });
  }
});

test("an error after the first output is the stream's last event, without [DONE]", async () => {
  const { chat } = fakeApp({
    *script(): Generator<RunEvent> {
      yield { type: "delta", index: 0, delta: { type: "delta", text: "Hel" } };
      throw new CanopyError("The root failed", { code: "run_failed", status: 502 });
    },
  });
  const response = await chat({ stream: true, stream_options: { include_usage: true } });
  assert.equal(response.status, 200);
  const events = parseEvents(await response.text());
  assert.deepEqual(events.at(-1), {
    error: { message: "The root failed", type: "server_error", param: null, code: "run_failed" },
  });
  assert.equal(events.length, 3);
});

test("a request that cannot fit the graph gets the run's own 400", async () => {
  const { chat, moa } = fakeApp();
  moa.refuse = new CanopyError("The prompt has 9000 tokens, the context 8192", {
    code: "context_length_exceeded",
    status: 400,
    param: "messages",
  });
  const error = await refusal(await chat());
  assert.equal(error.code, "context_length_exceeded");
  assert.equal(error.param, "messages");
});

test("a run that ends without finishing its choices is an error, not an answer", async () => {
  const { chat } = fakeApp({
    *script(): Generator<RunEvent> {
      yield { type: "delta", index: 0, delta: { type: "delta", text: "Hel" } };
    },
  });
  assert.equal((await refusal(await chat(), 502)).code, "run_incomplete");
});

test("an unexpected error is a 500 that tells nothing of the inside", async () => {
  const { chat, moa } = fakeApp();
  moa.refuse = new TypeError("secret detail");
  const error = await refusal(await chat(), 500);
  assert.equal(error.code, "internal_error");
  assert.ok(!error.message.includes("secret"));
});

test("the request id is taken from four headers or made, returned, and passed on with the trace context", async () => {
  for (const name of ["x-request-id", "x-correlation-id", "x-trace-id", "request-id"]) {
    const { chat, moa } = fakeApp({ script: hello });
    const response = await chat({}, { headers: { [name]: "my-id", traceparent: "00-a-b-01" } });
    assert.equal(response.headers.get("x-request-id"), "my-id");
    assert.deepEqual(moa.run.input.headers, { "x-request-id": "my-id", traceparent: "00-a-b-01" });
  }
  const { chat } = fakeApp();
  const bad = await chat({}, { headers: { "x-request-id": "has blanks in it" } });
  assert.match(bad.headers.get("x-request-id") ?? "", /^req_[0-9a-f]{24}$/);
  const error = await chat({ n: 0 });
  assert.match(error.headers.get("x-request-id") ?? "", /^req_[0-9a-f]{24}$/);
});

test("a conversation of more messages, or a field of more parts, than are read is refused by its number", async () => {
  const { chat } = fakeApp();
  const messages = (count: number) => Array.from({ length: count }, () => ({ role: "user", content: "Hi" }));
  assert.equal((await chat({ messages: messages(2048) })).status, 200);
  assert.match(
    (await refusal(await chat({ messages: messages(2049) }))).message,
    /at most 2048 messages, it holds 2049/,
  );
  const parts = Array.from({ length: 40_000 }, () => ({ type: "text", text: "Hi" }));
  const { param, message } = await refusal(await chat({ messages: [{ role: "user", content: parts }] }));
  assert.equal(param, "messages");
  assert.match(message, /more than 32768 lists and objects/);
});
