import assert from "node:assert/strict";
import { test } from "node:test";
import { CanopyError } from "../../../../base/errors.ts";
import {
  anthropicErrorSchema,
  anthropicMessageSchema,
  messageEventSchema,
  tokenCountSchema,
} from "../../../../router/http/anthropic/response_schema.ts";
import type { RunInput } from "../../../../router/moa/graph/run_input.ts";
import type { RunEvent } from "../../../../router/moa/run/run.ts";
import { byteTokenizer, fakeApp } from "../fakes.ts";

const hi = [{ role: "user", content: "Hi" }];

function ask(options: Parameters<typeof fakeApp>[0] = {}) {
  const fakes = fakeApp(options);
  const say = (fields: Record<string, unknown> = {}, headers: Record<string, string> = {}) =>
    fakes.post("/v1/messages", { model: "moa", max_tokens: 64, messages: hi, ...fields }, {
      headers: { "anthropic-version": "2023-06-01", ...headers },
    });
  return { ...fakes, say };
}

async function started(fields: Record<string, unknown>): Promise<RunInput> {
  const { say, moa } = ask();
  const response = await say(fields);
  assert.equal(response.status, 200, await response.text());
  return moa.run.input;
}

async function refusal(response: Response, status: number) {
  const text = await response.text();
  assert.equal(response.status, status, text);
  return anthropicErrorSchema.parse(JSON.parse(text)).error;
}

function delta(delta: object): RunEvent {
  return { type: "delta", index: 0, delta: { type: "delta", text: "", ...delta } };
}

function* calls(): Generator<RunEvent> {
  yield delta({ reasoning: "Hm" });
  yield delta({ text: "Look." });
  yield delta({
    toolCalls: [{ index: 0, id: "c1", type: "function", function: { name: "f", arguments: "" } }],
  });
  yield delta({ toolCalls: [{ index: 0, function: { arguments: '{"a"' } }] });
  yield delta({ toolCalls: [{ index: 0, function: { arguments: ":1}" } }] });
  yield delta({ toolCalls: [{ index: 1, type: "function", function: { name: "g", arguments: "" } }] });
  yield { type: "end", index: 0, finishReason: "tool_calls" };
}

/** Events of a stream; asserts that names and types agree. */
function named(text: string) {
  return text.trimEnd().split("\n\n").map((event) => {
    const found = /^event: (.+)\ndata: (.+)$/.exec(event);
    assert.ok(found !== null, event);
    const data = messageEventSchema.parse(JSON.parse(found[2]!));
    assert.equal(data.type, found[1]);
    return data;
  });
}

test("a message of a graph has Anthropic's form, and its usage tells cached input apart", async () => {
  const { say, moa } = ask();
  const response = await say();
  assert.equal(response.headers.get("x-canopy-run-id"), moa.run.id);
  assert.equal(response.headers.get("request-id"), response.headers.get("x-request-id"));
  const body = anthropicMessageSchema.parse(await response.json());
  assert.deepEqual({ ...body, id: "" }, {
    id: "",
    type: "message",
    role: "assistant",
    model: "moa",
    content: [{ type: "text", text: "Hello", citations: null }],
    stop_reason: "end_turn",
    stop_sequence: null,
    usage: {
      input_tokens: 36,
      cache_creation_input_tokens: 0,
      cache_read_input_tokens: 64,
      output_tokens: 20,
      output_tokens_details: { thinking_tokens: 5 },
      service_tier: "standard",
    },
  });
});

test("blocks become the messages of a chat: results of tools first, thoughts left out, images as data", async () => {
  const source = { type: "base64", media_type: "image/png", data: "AA==" };
  const { question } = await started({
    system: [{ type: "text", text: "Be brief.", cache_control: { type: "ephemeral" } }],
    messages: [
      { role: "user", content: [{ type: "text", text: "Look:" }, { type: "image", source }] },
      {
        role: "assistant",
        content: [
          { type: "thinking", thinking: "Hm", signature: "" },
          { type: "text", text: "I see" },
          { type: "tool_use", id: "c1", name: "f", input: { a: 1 } },
          { type: "tool_use", id: "c2", name: "g", input: {} },
        ],
      },
      {
        role: "user",
        content: [
          { type: "text", text: "Go on." },
          { type: "tool_result", tool_use_id: "c1", content: [{ type: "text", text: "one" }] },
          { type: "tool_result", tool_use_id: "c2", content: "two", is_error: true },
          { type: "document", source: { type: "text", media_type: "text/plain", data: "page" } },
        ],
      },
    ],
  });
  const call = (id: string, name: string, sent: string) => ({
    id,
    type: "function",
    function: { name, arguments: sent },
  });
  assert.deepEqual(question, {
    kind: "chat",
    messages: [
      { role: "system", content: "Be brief." },
      {
        role: "user",
        content: [
          { type: "text", text: "Look:" },
          { type: "image_url", image_url: { url: "data:image/png;base64,AA==" } },
        ],
      },
      {
        role: "assistant",
        content: "I see",
        tool_calls: [call("c1", "f", '{"a":1}'), call("c2", "g", "{}")],
      },
      { role: "tool", tool_call_id: "c1", content: "one" },
      { role: "tool", tool_call_id: "c2", content: "Error: two" },
      { role: "user", content: [{ type: "text", text: "Go on." }, { type: "text", text: "page" }] },
    ],
  });
});

test("sampling, tools, their choice and the output's form reach the root in a chat's words", async () => {
  const schema = { type: "object", properties: {} };
  const { rootSampling } = await started({
    stop_sequences: ["END"],
    temperature: 0.5,
    top_p: 0.9,
    top_k: 7,
    tools: [{ name: "f", description: "does", input_schema: schema, cache_control: { type: "ephemeral" } }],
    tool_choice: { type: "tool", name: "f", disable_parallel_tool_use: true },
    output_config: { effort: "minimal", format: { type: "json_schema", schema } },
    metadata: { user_id: "u" },
    service_tier: "auto",
    min_p: 0.1,
    ignore_eos: true,
  });
  assert.deepEqual(rootSampling, {
    max_tokens: 64,
    temperature: 0.5,
    top_p: 0.9,
    top_k: 7,
    min_p: 0.1,
    stop: ["END"],
    extra: {
      ignore_eos: true,
      reasoning_effort: "minimal",
      tools: [{ type: "function", function: { name: "f", parameters: schema, description: "does" } }],
      tool_choice: { type: "function", function: { name: "f" } },
      parallel_tool_calls: false,
      response_format: { type: "json_schema", json_schema: { name: "output", schema, strict: true } },
    },
  });
  for (const [type, choice] of [["any", "required"], ["auto", "auto"], ["none", "none"]]) {
    const tools = [{ name: "f", input_schema: schema }];
    const input = await started({ tools, tool_choice: { type } });
    assert.equal(input.rootSampling.extra?.["tool_choice"], choice);
  }
});

test("what is said and called are blocks one after the other, what is thought where thinking is enabled", async () => {
  const { say } = ask({ script: calls });
  const plain = anthropicMessageSchema.parse(await (await say()).json());
  assert.deepEqual(plain.content.map(({ type }) => type), ["text", "tool_use", "tool_use"]);
  assert.equal(plain.stop_reason, "tool_use");
  const thinking = { type: "enabled", budget_tokens: 1024 };
  const whole = anthropicMessageSchema.parse(await (await say({ thinking })).json());
  const [thought, said, first, second] = whole.content;
  assert.deepEqual(thought, { type: "thinking", thinking: "Hm", signature: "" });
  assert.deepEqual(said, { type: "text", text: "Look.", citations: null });
  assert.deepEqual(first, { type: "tool_use", id: "c1", name: "f", input: { a: 1 } });
  assert.ok(second?.type === "tool_use" && second.id.startsWith("toolu_"));
  assert.deepEqual(second.input, {});

  const events = named(await (await say({ thinking, stream: true })).text());
  const brief = events.map((event) => {
    const inner = event["delta"] ?? event["content_block"];
    const type = typeof inner === "object" && inner !== null && "type" in inner ? ` ${inner.type}` : "";
    return `${event["index"] ?? "-"} ${event.type}${type}`;
  });
  assert.deepEqual(brief, [
    "- message_start",
    "- ping",
    "0 content_block_start thinking",
    "0 content_block_delta thinking_delta",
    "0 content_block_delta signature_delta",
    "0 content_block_stop",
    "1 content_block_start text",
    "1 content_block_delta text_delta",
    "1 content_block_stop",
    "2 content_block_start tool_use",
    "2 content_block_delta input_json_delta",
    "2 content_block_delta input_json_delta",
    "2 content_block_stop",
    "3 content_block_start tool_use",
    "3 content_block_stop",
    "- message_delta",
    "- message_stop",
  ]);
  assert.deepEqual(events.at(-2)?.["usage"], whole.usage);
  const hidden = named(await (await say({ stream: true })).text());
  assert.ok(hidden.every((event) => !JSON.stringify(event).includes("thinking_delta")));
});

test("a stop sequence is named where the engine names it or the router stops there; a cut answer is max_tokens", async () => {
  const { say, moa } = ask({
    *script(): Generator<RunEvent> {
      yield delta({ text: "one" });
      yield { type: "end", index: 0, finishReason: "stop", stopReason: "two" };
    },
  });
  const stop_sequences = ["two"];
  const stopped = anthropicMessageSchema.parse(await (await say({ stop_sequences })).json());
  assert.deepEqual([stopped.stop_reason, stopped.stop_sequence], ["stop_sequence", "two"]);
  moa.script = function* (): Generator<RunEvent> {
    yield delta({ text: "one f two" });
    yield { type: "end", index: 0, finishReason: "length" };
  };
  const many = ["a1", "b1", "c1", "d1", "f"];
  const own = anthropicMessageSchema.parse(await (await say({ stop_sequences: many })).json());
  assert.deepEqual([own.stop_reason, own.stop_sequence], ["stop_sequence", "f"]);
  const cut = anthropicMessageSchema.parse(await (await say()).json());
  assert.equal(cut.stop_reason, "max_tokens");
});

test("a message with a call says tool_use: engines end a call that was asked for by its name with stop", async () => {
  const script = function* (): Generator<RunEvent> {
    yield delta({ toolCalls: [{ index: 0, id: "c1", function: { name: "f", arguments: "{}" } }] });
    yield { type: "end", index: 0, finishReason: "stop" };
  };
  const asked = {
    tools: [{ name: "f", input_schema: {} }],
    tool_choice: { type: "tool", name: "f" },
  };
  const { say } = ask({ script });
  const whole = anthropicMessageSchema.parse(await (await say(asked)).json());
  assert.deepEqual([whole.stop_reason, whole.content[0]?.type], ["tool_use", "tool_use"]);
  const events = named(await (await say({ ...asked, stream: true })).text());
  const ended = events.find(({ type }) => type === "message_delta");
  assert.deepEqual(ended?.["delta"], { stop_reason: "tool_use", stop_sequence: null });
});

test("arguments that are no JSON are a 502 unless the answer was cut in them", async () => {
  const { say, moa } = ask();
  const script = (finishReason: "tool_calls" | "length") =>
    function* (): Generator<RunEvent> {
      yield delta({ toolCalls: [{ index: 0, id: "c", function: { name: "f", arguments: '{"a' } }] });
      yield { type: "end", index: 0, finishReason };
    };
  moa.script = script("tool_calls");
  assert.equal((await refusal(await say(), 502)).type, "api_error");
  moa.script = script("length");
  const cut = anthropicMessageSchema.parse(await (await say()).json());
  assert.deepEqual([cut.content, cut.stop_reason], [[], "max_tokens"]);
});

test("errors have Anthropic's form on this route, in a stream as its last event", async () => {
  const { say, moa, app } = ask();
  assert.equal((await refusal(await say({ model: "nobody" }), 404)).type, "not_found_error");
  assert.equal(
    (await refusal(await app.request("/v1/messages", { method: "POST", body: "{" }), 400)).type,
    "invalid_request_error",
  );
  moa.refuse = new CanopyError("full", { code: "queue_full", status: 429 });
  const full = await say();
  assert.ok(full.headers.has("retry-after"));
  assert.equal((await refusal(full, 429)).type, "rate_limit_error");
  moa.refuse = undefined;
  moa.script = function* (): Generator<RunEvent> {
    yield delta({ text: "Hel" });
    throw new CanopyError("The worker w1 broke off", { code: "worker_failed", status: 502 });
  };
  const last = named(await (await say({ stream: true })).text()).at(-1);
  assert.deepEqual(last, { type: "error", error: { type: "api_error", message: "The worker w1 broke off" } });
});

test("x-api-key is a key on Anthropic's routes alone, and owns the runs that it starts", async () => {
  const { say, app, post, moa } = ask({ config: { models: {}, server: { api_keys: ["k1"] } } });
  assert.equal((await refusal(await say(), 401)).type, "authentication_error");
  assert.equal((await refusal(await say({}, { "x-api-key": "k2" }), 401)).type, "authentication_error");
  assert.equal((await say({}, { "x-api-key": "k1" })).status, 200);
  assert.equal((await say({}, { authorization: "Bearer k1" })).status, 200);
  const [first, second] = moa.runs;
  assert.ok(first?.input.owner !== undefined && first.input.owner === second?.input.owner);
  const chat = { model: "moa", messages: hi };
  assert.equal((await post("/v1/chat/completions", chat, { headers: { "x-api-key": "k1" } })).status, 401);
  assert.equal((await app.request("/v1/models", { headers: { "x-api-key": "k1" } })).status, 401);
});

test("what cannot be honoured is refused with a 400 whose sentence names the field", async () => {
  const { say, moa } = ask();
  const user = (...content: object[]) => ({ messages: [{ role: "user", content }] });
  const cases: [string, Record<string, unknown>][] = [
    ["max_tokens is required", { max_tokens: undefined }],
    ["max_tokens", { max_tokens: 0 }],
    ["messages", { messages: [] }],
    ["messages[0].role", { messages: [{ role: "tool", content: "x" }] }],
    ["messages[1]", { messages: [...hi, { role: "assistant", content: "The answer is" }] }],
    ["messages[0].content[0].type", user({ type: "server_tool_use" })],
    [
      "messages[0].content[1].source.type",
      user({ type: "text", text: "x" }, { type: "image", source: { type: "file" } }),
    ],
    ["messages[0].content[0].source.type", user({ type: "document", source: { type: "base64" } })],
    ["messages[0].content[0].tool_use_id", user({ type: "tool_result", content: "x" })],
    ["tools[0].type", { tools: [{ type: "web_search_20250305", name: "web_search" }] }],
    ["tools[0].input_schema", { tools: [{ name: "f" }] }],
    ["tool_choice.name", {
      tools: [{ name: "f", input_schema: {} }],
      tool_choice: { type: "tool", name: "g" },
    }],
    ["tool_choice.type", { tool_choice: { type: "some" } }],
    ["thinking.type", { thinking: { type: "much" } }],
    ["output_config.format.type", { output_config: { format: { type: "xml" } } }],
    ["stop_sequences[0]", { stop_sequences: [""] }],
    ["stop", { stop: ["x"] }],
    ["n", { n: 2 }],
    ["container", { container: "c" }],
    ["mcp_servers", { mcp_servers: [{ url: "x" }] }],
    ["speed", { speed: "fast" }],
    ["temperature", { temperature: 3 }],
  ];
  for (const [words, fields] of cases) {
    const error = await refusal(await say(fields), 400);
    assert.equal(error.type, "invalid_request_error");
    assert.ok(error.message.startsWith(words), `${words}: ${error.message}`);
  }
  assert.equal(moa.runs.length, 0);
});

test("tokens of a conversation are counted by the root's tokenizer, where it has a chat template", async () => {
  const tokenizer = {
    ...byteTokenizer,
    hasChatTemplate: true,
    renderChat: (messages: readonly object[], options: object = {}) => JSON.stringify([messages, options]),
  };
  const body = { model: "moa", messages: hi, system: "s", tools: [{ name: "f", input_schema: {} }] };
  const { post } = fakeApp({ models: { big: { tokenizer } } });
  const counted = await post("/v1/messages/count_tokens", body);
  const { input_tokens } = tokenCountSchema.parse(await counted.json());
  const tools = [{ type: "function", function: { name: "f", parameters: {} } }];
  const messages = [{ role: "system", content: "s" }, { role: "user", content: "Hi" }];
  assert.equal(input_tokens, JSON.stringify([messages, { templateArguments: { tools } }]).length);

  const image = { type: "image", source: { type: "url", url: "http://x/y.png" } };
  const seen = await post("/v1/messages/count_tokens", {
    ...body,
    messages: [{ role: "user", content: [{ type: "text", text: "x" }, image] }],
  });
  assert.match((await refusal(seen, 400)).message, /^messages\[0\]\.content\[1\] is no text/);
  const unknown = await fakeApp().post("/v1/messages/count_tokens", body);
  assert.match((await refusal(unknown, 501)).message, /models\.big\.tokenizer/);
});

test("a message for an engine model is relayed as it came", async () => {
  const { say, post, relay } = ask();
  assert.deepEqual(await (await say({ model: "small", container: "c" })).json(), { relayed: true });
  assert.equal(relay.requests[0]?.request.path, "/v1/messages");
  const counted = await post("/v1/messages/count_tokens", { model: "small", messages: hi });
  assert.deepEqual(await counted.json(), { relayed: true });
  assert.equal(relay.requests[1]?.request.path, "/v1/messages/count_tokens");
});
