import assert from "node:assert/strict";
import { test } from "node:test";
import { SystemClock } from "../../../base/clock.ts";
import { CanopyError } from "../../../base/errors.ts";
import { isJsonObject, type JsonObject } from "../../../base/json.ts";
import { Random } from "../../../base/random.ts";
import { EmbeddedServer } from "../../../embedded/http/server.ts";
import type { ChatMessage, RenderOptions } from "../../../ml/tokenizers/chat_message.ts";
import type { ModelTokenizer } from "../../../ml/tokenizers/model_tokenizer.ts";
import { MemoryTransport } from "../../../router/transport/memory.ts";
import { FakeGenerator } from "../fake_generator.ts";
import { tinyTokenizer } from "../tiny_model.ts";

const tokenizer = await tinyTokenizer();
const END = 1913;
const SECOND_END = 1911;
const HELLO = tokenizer.encode("Hello world, again");

function start(
  answer: (typeof FakeGenerator.prototype)["answer"] = () => [...HELLO, END],
  own: ModelTokenizer = tokenizer,
) {
  const generator = new FakeGenerator();
  generator.answer = answer;
  const server = new EmbeddedServer({
    model: "tiny",
    generator,
    tokenizer: own,
    endIds: [END, SECOND_END],
    clock: new SystemClock(),
    random: new Random("server"),
  });
  const transport = new MemoryTransport(() => (request, signal) => server.handle(request, signal));
  const send = async (path: string, body?: JsonObject, signal = new AbortController().signal) =>
    await transport.send({
      method: body === undefined ? "GET" : "POST",
      url: `http://tiny.embedded${path}`,
      headers: { "content-type": "application/json" },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    }, signal);
  const ask = async (path: string, body?: JsonObject) => {
    const { status, body: bytes } = await send(path, body);
    const text = await textOf(bytes);
    const value: unknown = text.startsWith("{") ? JSON.parse(text) : {};
    return { status, text, body: isJsonObject(value) ? value : {} };
  };
  return { generator, send, ask };
}

async function textOf(bytes: AsyncIterable<Uint8Array>): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  for await (const chunk of bytes) text += decoder.decode(chunk, { stream: true });
  return text;
}

function chunksOf(text: string): JsonObject[] {
  assert.ok(text.endsWith("data: [DONE]\n\n"));
  return text.split("\n\n").filter((line) => line.startsWith("data: {")).map((line) =>
    JSON.parse(line.slice(6))
  );
}

const object = (value: unknown): JsonObject => isJsonObject(value) ? value : {};
const first = (value: unknown): JsonObject => Array.isArray(value) ? object(value[0]) : {};

test("a completion has text, ids, the reason of its end and exact usage with cached tokens", async () => {
  const { ask, generator } = start();
  generator.cachedTokens = 2;
  const { status, body } = await ask("/v1/completions", {
    model: "tiny",
    prompt: [39, 68, 75],
    max_tokens: 50,
    return_token_ids: true,
  });
  assert.equal(status, 200);
  const choice = first(body.choices);
  assert.equal(choice.text, "Hello world, again");
  assert.deepEqual(choice.token_ids, [...HELLO, END]);
  assert.deepEqual(choice.prompt_token_ids, [39, 68, 75]);
  assert.deepEqual([choice.finish_reason, choice.stop_reason], ["stop", null]);
  assert.deepEqual(body.usage, {
    prompt_tokens: 3,
    total_tokens: 3 + HELLO.length + 1,
    completion_tokens: HELLO.length + 1,
    prompt_tokens_details: { cached_tokens: 2 },
    completion_tokens_details: { reasoning_tokens: 0 },
  });
});

test("a streamed completion begins with the prompt's ids, and tells its usage with every chunk", async () => {
  const { send } = start();
  const { body } = await send("/v1/completions", {
    prompt: [39, 68, 75],
    max_tokens: 50,
    stream: true,
    stream_options: { include_usage: true, continuous_usage_stats: true },
    return_token_ids: true,
  });
  const chunks = chunksOf(await textOf(body));
  const choices = chunks.flatMap((chunk) => Array.isArray(chunk.choices) ? chunk.choices.map(object) : []);
  assert.deepEqual(choices[0]?.prompt_token_ids, [39, 68, 75]);
  assert.ok(choices.slice(1).every((choice) => choice.prompt_token_ids === undefined));
  assert.equal(choices.map(({ text }) => text).join(""), "Hello world, again");
  const ids = choices.flatMap(({ token_ids: ids }) => Array.isArray(ids) ? ids : []);
  assert.deepEqual(ids, [...HELLO, END]);
  assert.deepEqual([choices.at(-1)?.finish_reason, choices.at(-1)?.stop_reason], ["stop", null]);
  const counts = chunks.map(({ usage }) => Number(object(usage).completion_tokens));
  assert.deepEqual(counts, counts.toSorted((a, b) => a - b));
  assert.deepEqual([counts[0]! < counts.at(-1)!, counts.at(-1)], [true, ids.length]);
});

test("completions stop after 16 tokens unless told otherwise, chats when the context is full", async () => {
  const { ask, generator } = start(() => Array.from({ length: 1000 }, () => 39));
  const completion = await ask("/v1/completions", { prompt: "Hello" });
  assert.equal(object(completion.body.usage).completion_tokens, 16);
  assert.equal(first(completion.body.choices).finish_reason, "length");
  const chat = await ask("/v1/chat/completions", { messages: [{ role: "user", content: "Hello" }] });
  assert.equal(object(chat.body.usage).total_tokens, generator.facts.maxContextTokens);
});

test("a streamed chat begins with the role, goes on with text and ids, and ends with usage", async () => {
  const { send, generator } = start(() => [...tokenizer.encode("日本 \u{1f600}"), SECOND_END]);
  const { status, headers, body } = await send("/v1/chat/completions", {
    messages: [{ role: "user", content: [{ type: "text", text: "Hel" }, { type: "text", text: "lo" }] }],
    stream: true,
    stream_options: { include_usage: true },
    return_token_ids: true,
    logprobs: true,
    top_logprobs: 2,
    chat_template_kwargs: { enable_thinking: false },
  });
  assert.equal(status, 200);
  assert.match(headers["content-type"] ?? "", /^text\/event-stream/);
  const chunks = chunksOf(await textOf(body));
  const prompt = "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n";
  assert.deepEqual(generator.requests[0]?.promptIds, tokenizer.encode(prompt));
  assert.deepEqual(object(first(chunks[0]?.choices).delta), { role: "assistant", content: "" });
  assert.deepEqual(chunks[0]?.prompt_token_ids, tokenizer.encode(prompt));
  const choices = chunks.slice(1).flatMap((chunk) =>
    Array.isArray(chunk.choices) ? chunk.choices.map(object) : []
  );
  assert.equal(choices.map(({ delta }) => object(delta).content).join(""), "日本 \u{1f600}");
  assert.deepEqual(
    choices.flatMap(({ token_ids: ids }) => Array.isArray(ids) ? ids : []),
    generatedIds("日本 \u{1f600}"),
  );
  assert.deepEqual([choices.at(-1)?.finish_reason, choices.at(-1)?.stop_reason], ["stop", SECOND_END]);
  const scored = choices.flatMap(({ logprobs }) =>
    Array.isArray(object(logprobs).content) ? object(logprobs).content : []
  );
  assert.equal(Array.isArray(scored) ? scored.length : 0, generatedIds("日本 \u{1f600}").length);
  assert.equal(object(chunks.at(-1)?.usage).completion_tokens, generatedIds("日本 \u{1f600}").length);
});

function generatedIds(text: string): number[] {
  return [...tokenizer.encode(text), SECOND_END];
}

test("log-probabilities of completions name tokens, offsets and alternatives; of chats bytes as well", async () => {
  const { ask } = start(() => [39, 68, END]);
  const { body } = await ask("/v1/completions", { prompt: "a", logprobs: 2 });
  const names = [39, 68, END].map((id) => tokenizer.decode([id]));
  assert.deepEqual(first(body.choices).logprobs, {
    text_offset: [0, 1, 2],
    token_logprobs: [-0.039, -0.068, -1.913],
    tokens: names,
    top_logprobs: [-0.039, -0.068, -1.913].map((logprob, index) => ({
      [names[index]!]: logprob,
      [tokenizer.decode([300])]: -0.5,
      [tokenizer.decode([301])]: -1.5,
    })),
  });
  const chat = await ask("/v1/chat/completions", {
    messages: [{ role: "user", content: "a" }],
    logprobs: true,
    max_tokens: 1,
  });
  assert.deepEqual(object(first(chat.body.choices).logprobs).content, [
    { token: names[0], logprob: -0.039, bytes: [...new TextEncoder().encode(names[0])], top_logprobs: [] },
  ]);
});

test("several prompts and several answers of each have their own index, and each prompt counts once", async () => {
  const { ask, generator } = start(() => [39, END]);
  generator.cachedTokens = 1;
  const { body } = await ask("/v1/completions", { prompt: [[39, 68], [75]], n: 2, seed: 4, echo: true });
  const choices = Array.isArray(body.choices) ? body.choices.map(object) : [];
  const expected = [[39, 68], [39, 68], [75], [75]].map((ids) => tokenizer.decode(ids) + "H");
  assert.deepEqual(choices.map(({ text }) => text), expected);
  assert.deepEqual(choices.map(({ index }) => index), [0, 1, 2, 3]);
  assert.deepEqual(generator.requests.map(({ sampling }) => sampling.seed), ["4", "4/1", "4", "4/1"]);
  assert.deepEqual([object(body.usage).prompt_tokens, object(body.usage).completion_tokens], [3, 8]);
  assert.deepEqual(object(body.usage).prompt_tokens_details, { cached_tokens: 2 });
});

test("sampling parameters reach the generator, with vLLM's defaults where nothing is said", async () => {
  const { ask, generator } = start();
  await ask("/v1/completions", { prompt: "a", temperature: null, ignore_eos: true });
  await ask("/v1/completions", {
    prompt: "a",
    temperature: 1e-4,
    top_p: 0.5,
    top_k: -1,
    min_p: 0.1,
    repetition_penalty: 1.1,
    presence_penalty: 0.2,
    frequency_penalty: 0.3,
    logit_bias: { "5": 200, "6": -1 },
    seed: 9,
    min_tokens: 2,
    stop_token_ids: [77],
    priority: -3,
    priority_tokens: 4,
    logprobs: 3,
  });
  const [plain, full] = generator.requests;
  assert.deepEqual({ ...plain?.sampling, seed: "" }, {
    temperature: 1,
    topP: 1,
    topK: 0,
    minP: 0,
    repetitionPenalty: 1,
    presencePenalty: 0,
    frequencyPenalty: 0,
    logitBias: new Map(),
    seed: "",
  });
  assert.deepEqual(plain?.stopIds, new Set());
  assert.deepEqual(full?.sampling, {
    temperature: 0.01,
    topP: 0.5,
    topK: 0,
    minP: 0.1,
    repetitionPenalty: 1.1,
    presencePenalty: 0.2,
    frequencyPenalty: 0.3,
    logitBias: new Map([[5, 100], [6, -1]]),
    seed: "9",
  });
  assert.deepEqual([plain?.priority, plain?.priorityTokens], [undefined, undefined]);
  assert.deepEqual([full?.priority, full?.priorityTokens], [-3, 4]);
  assert.deepEqual(full?.stopIds, new Set([END, SECOND_END, 77]));
  assert.deepEqual([full?.minTokens, full?.logprobs, full?.maxTokens], [2, 3, 16]);
});

const chat = { messages: [{ role: "user", content: "a" }] };
const refused: [string, JsonObject, string | null][] = [
  ["/v1/completions", {}, "prompt"],
  ["/v1/completions", { prompt: "" }, "prompt"],
  ["/v1/completions", { prompt: [] }, "prompt"],
  ["/v1/completions", { prompt: [1920] }, "prompt[0]"],
  ["/v1/completions", { prompt: [-1] }, "prompt[0]"],
  ["/v1/completions", { prompt: Array.from({ length: 512 }, () => 5) }, "prompt"],
  ["/v1/completions", { prompt: "a", temperature: -1 }, "temperature"],
  ["/v1/completions", { prompt: "a", temperature: "hot" }, "temperature"],
  ["/v1/completions", { prompt: "a", top_p: 0 }, "top_p"],
  ["/v1/completions", { prompt: "a", top_p: 1.1 }, "top_p"],
  ["/v1/completions", { prompt: "a", top_k: -2 }, "top_k"],
  ["/v1/completions", { prompt: "a", min_p: 2 }, "min_p"],
  ["/v1/completions", { prompt: "a", repetition_penalty: 0 }, "repetition_penalty"],
  ["/v1/completions", { prompt: "a", presence_penalty: 3 }, "presence_penalty"],
  ["/v1/completions", { prompt: "a", frequency_penalty: -3 }, "frequency_penalty"],
  ["/v1/completions", { prompt: "a", logit_bias: { "1920": 1 } }, "logit_bias"],
  ["/v1/completions", { prompt: "a", logit_bias: { a: 1 } }, "logit_bias.a"],
  ["/v1/completions", { prompt: "a", seed: 1.5 }, "seed"],
  ["/v1/completions", { prompt: "a", stop: 5 }, "stop"],
  ["/v1/completions", { prompt: "a", max_tokens: 0 }, "max_tokens"],
  ["/v1/completions", { prompt: "a", min_tokens: 17 }, "min_tokens"],
  ["/v1/completions", { prompt: "a", n: 0 }, "n"],
  ["/v1/completions", { prompt: "a", n: 2, temperature: 0 }, "n"],
  ["/v1/completions", { prompt: "a", logprobs: 21 }, "logprobs"],
  ["/v1/completions", { prompt: "a", stream_options: {} }, "stream_options"],
  ["/v1/completions", { prompt: "a", structured_outputs: { choice: ["a"] } }, "structured_outputs"],
  ["/v1/chat/completions", {}, "messages"],
  ["/v1/chat/completions", { messages: [] }, "messages"],
  ["/v1/chat/completions", { messages: [{ content: "a" }] }, "messages[0].role"],
  [
    "/v1/chat/completions",
    { messages: [{ role: "user", content: [{ type: "image_url" }] }] },
    "messages[0].content[0]",
  ],
  ["/v1/chat/completions", { ...chat, top_logprobs: 2 }, "top_logprobs"],
  ["/v1/chat/completions", { ...chat, response_format: { type: "json_object" } }, "response_format"],
  ["/v1/chat/completions", { ...chat, tools: [{ type: "function" }] }, "tools"],
  ["/tokenize", {}, "prompt"],
];

test("a seed of 64 bits counts to its last digit", async () => {
  const { generator, ask } = start();
  for (const seed of ["9223372036854775807", "9223372036854775806"]) {
    const sent: JsonObject = { model: "tiny", prompt: "x", seed: JSON.rawJSON(seed) };
    assert.equal((await ask("/v1/completions", sent)).status, 200);
  }
  assert.deepEqual(generator.requests.map(({ sampling }) => sampling.seed), [
    "9223372036854775807",
    "9223372036854775806",
  ]);
});

test("bad values get OpenAI's 400, which names the field", async () => {
  const { ask, generator } = start();
  for (const [path, request, param] of refused) {
    const { status, body } = await ask(path, request);
    const error = object(body.error);
    assert.deepEqual(
      [status, error.param, error.type],
      [400, param, "invalid_request_error"],
      JSON.stringify(request),
    );
    assert.ok(String(error.message).length > 10, JSON.stringify(body));
  }
  assert.equal(generator.requests.length, 0);
  assert.equal((await ask("/v1/completions", { model: "other", prompt: "a" })).status, 404);
  assert.equal((await ask("/v1/embeddings", {})).status, 404);
});

test("a client that leaves ends its sequences, whether it reads a stream or waits for the whole", async () => {
  for (const stream of [true, false]) {
    const leaving = new AbortController();
    let written = 0;
    const { send, generator } = start(function* () {
      for (let token = 0; token < 400; token++) {
        yield 39;
        if (!stream && ++written === 10) leaving.abort(new Error("gone"));
      }
    });
    const sent = send("/v1/completions", { prompt: "a", max_tokens: 400, n: 2, stream }, leaving.signal);
    if (stream) {
      await assert.rejects(async () => {
        for await (const _ of (await sent).body) leaving.abort(new Error("gone"));
      }, /gone/);
    } else {
      await assert.rejects(sent, /gone/);
    }
    while (generator.running > 0) await new Promise((resolve) => setTimeout(resolve, 1));
    assert.equal(generator.cut, 2);
  }
});

test("a stop string ends the sequence on the engine as well", async () => {
  const { ask, generator } = start(() => [...HELLO, ...Array.from({ length: 100 }, () => 39)]);
  const { body } = await ask("/v1/completions", { prompt: "a", max_tokens: 100, stop: [" wor", "zzz"] });
  const choice = first(body.choices);
  assert.deepEqual([choice.text, choice.finish_reason, choice.stop_reason], ["Hello", "stop", " wor"]);
  assert.equal(generator.cut, 1);
  assert.equal(generator.running, 0);
});

test("a model that fails is told with its own error: as a status, or as the last event of a stream", async () => {
  const failure = new CanopyError("The thread crashed", { code: "engine_crashed", status: 502 });
  const { ask, send } = start(() => [39, failure]);
  const whole = await ask("/v1/completions", { prompt: "a" });
  assert.deepEqual([whole.status, object(whole.body.error).code], [502, "engine_crashed"]);
  const { body } = await send("/v1/completions", { prompt: "a", stream: true });
  const chunks = chunksOf(await textOf(body));
  assert.equal(first(chunks[0]?.choices).text, "H");
  assert.equal(object(chunks.at(-1)?.error).code, "engine_crashed");
});

test("models, health, metrics and the tokenizer are asked for as of vLLM", async () => {
  const { ask } = start();
  const models = first((await ask("/v1/models")).body.data);
  assert.deepEqual([models.id, models.max_model_len], ["tiny", 512]);
  assert.deepEqual(models.computes, { file: "fake.onnx", cpu: "any", products: "none" });
  assert.equal((await ask("/health")).status, 200);
  const { text } = await ask("/metrics");
  assert.match(text, /^vllm:cache_config_info\{.*block_size="1"/m);
  assert.match(text, /^vllm:prefix_cache_hits_total\{[^}]*\} 10$/m);
  assert.match(text, /^vllm:kv_cache_usage_perc\{[^}]*\} 0.5$/m);
  const tokens = (await ask("/tokenize", { prompt: "Hello", return_token_strs: true })).body;
  assert.deepEqual([tokens.tokens, tokens.max_model_len], [tokenizer.encode("Hello"), 512]);
  assert.deepEqual((await ask("/detokenize", { tokens: HELLO })).body, { prompt: "Hello world, again" });
  const rendered = (await ask("/tokenize", chat)).body;
  assert.deepEqual(
    rendered.tokens,
    tokenizer.encode("<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n"),
  );
});

test("continue_final_message ends the prompt behind the last message, whatever it says", async () => {
  const trims = {
    vocabSize: tokenizer.vocabSize,
    hasChatTemplate: true,
    encode: (text: string) => tokenizer.encode(text),
    decode: (ids: readonly number[]) => tokenizer.decode(ids),
    // As Llama's template does.
    renderChat: (messages: readonly ChatMessage[], options?: RenderOptions) =>
      tokenizer.renderChat(
        messages.map((message) => ({ ...message, content: String(message.content).trim() })),
        options,
      ),
  };
  // The template gives the last answer an empty thought.
  const before = "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n";
  for (
    const [content, rest, own] of [
      ["It is", "It is", tokenizer],
      // These letters stand in the mark of a turn's end, too.
      ["im", "im", tokenizer],
      ["", "", tokenizer],
      ["It is ", "It is ", tokenizer],
      ["It is ", "It is", trims],
    ] as const
  ) {
    const { tokens } = (await start(undefined, own).ask("/tokenize", {
      messages: [...chat.messages, { role: "assistant", content }],
      continue_final_message: true,
      add_generation_prompt: false,
    })).body;
    const text = tokenizer.decode(Array.isArray(tokens) ? tokens.map(Number) : [], {
      skipSpecialTokens: false,
    });
    assert.equal(text, `${before}${rest}`);
  }
  const { status, body } = await start(undefined, { ...trims, renderChat: () => "nothing" }).ask(
    "/tokenize",
    {
      ...chat,
      continue_final_message: true,
    },
  );
  assert.deepEqual([status, object(body.error).param], [400, "continue_final_message"]);
});
