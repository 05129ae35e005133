import assert from "node:assert/strict";
import { test } from "node:test";
import { VirtualClock } from "../../../../base/clock.ts";
import { CanopyError } from "../../../../base/errors.ts";
import type { RunInput } from "../../../../router/moa/graph/run_input.ts";
import type { RunEvent } from "../../../../router/moa/run/run.ts";
import { errorSchema } from "../../../../router/http/openai/response_schema.ts";
import { responseEventSchema, responseSchema } from "../../../../router/http/responses/response_schema.ts";
import { fakeApp, fakeGraph } from "../fakes.ts";

function ask(options: Parameters<typeof fakeApp>[0] = {}) {
  const fakes = fakeApp(options);
  const respond = (fields: Record<string, unknown> = {}) =>
    fakes.post("/v1/responses", { model: "moa", input: "Hi", ...fields });
  return { ...fakes, respond };
}

/** The question and the sampling that the run of a request gets. */
async function started(fields: Record<string, unknown>): Promise<RunInput> {
  const { respond, moa } = ask();
  const response = await respond(fields);
  assert.equal(response.status, 200, await response.text());
  return moa.run.input;
}

function* calls(): Generator<RunEvent> {
  const delta = (delta: object): RunEvent => ({
    type: "delta",
    index: 0,
    delta: { type: "delta", text: "", ...delta },
  });
  yield delta({ reasoning: "Hm" });
  yield delta({ text: "Let me look." });
  yield delta({
    toolCalls: [{ index: 0, id: "c1", type: "function", function: { name: "f", arguments: "" } }],
  });
  yield delta({ toolCalls: [{ index: 0, function: { arguments: '{"a"' } }] });
  yield delta({ toolCalls: [{ index: 0, function: { arguments: ":1}" } }] });
  yield delta({ toolCalls: [{ index: 1, type: "function", function: { name: "g", arguments: "{}" } }] });
  yield { type: "end", index: 0, finishReason: "tool_calls" };
}

/** Events of a stream; asserts that names and types agree and that the numbers have no gap. */
function named(text: string) {
  return text.trimEnd().split("\n\n").map((event, at) => {
    const found = /^event: (.+)\ndata: (.+)$/.exec(event);
    assert.ok(found !== null, event);
    const data = responseEventSchema.parse(JSON.parse(found[2]!));
    assert.equal(data.type, found[1]);
    assert.equal(data.sequence_number, at);
    return data;
  });
}

test("a response of a graph has OpenAI's form, the request's fields, and says that nothing is stored", async () => {
  const { respond, moa } = ask({ clock: new VirtualClock({ unixEpochMs: 1_800_000_000_900 }) });
  const response = await respond({ metadata: { a: "b" }, max_output_tokens: 9, temperature: 0.5 });
  assert.equal(response.headers.get("x-canopy-run-id"), moa.run.id);
  const body = responseSchema.parse(await response.json());
  assert.deepEqual({ ...body, id: "" }, {
    id: "",
    object: "response",
    created_at: 1_800_000_000,
    status: "completed",
    background: false,
    error: null,
    incomplete_details: null,
    model: "moa",
    output: [{
      id: body.id.replace("resp_", "msg_") + "0",
      type: "message",
      status: "completed",
      role: "assistant",
      content: [{ type: "output_text", text: "Hello", annotations: [], logprobs: [] }],
    }],
    instructions: null,
    max_output_tokens: 9,
    metadata: { a: "b" },
    parallel_tool_calls: true,
    previous_response_id: null,
    reasoning: { effort: null, summary: null },
    store: false,
    temperature: 0.5,
    text: { format: { type: "text" } },
    tool_choice: "auto",
    tools: [],
    top_p: null,
    top_logprobs: 0,
    truncation: "disabled",
    user: null,
    usage: {
      input_tokens: 100,
      input_tokens_details: { cached_tokens: 64, cache_write_tokens: 0 },
      output_tokens: 20,
      output_tokens_details: { reasoning_tokens: 5, answer_tokens: 5 },
      total_tokens: 120,
    },
  });
  assert.deepEqual(moa.run.input.rootSampling, { max_tokens: 9, temperature: 0.5 });
});

test("items become the messages of a chat: instructions first, calls joined to the assistant's message, thoughts left out", async () => {
  const { question } = await started({
    instructions: "Be brief.",
    input: [
      {
        role: "user",
        content: [{ type: "input_text", text: "Look:" }, { type: "input_image", image_url: "data:,x" }],
      },
      { type: "reasoning", id: "rs_1", summary: [], encrypted_content: "x" },
      {
        type: "message",
        id: "msg_1",
        role: "assistant",
        status: "completed",
        content: [{ type: "output_text", text: "I", annotations: [] }, { type: "refusal", refusal: " see" }],
      },
      { type: "function_call", id: "fc_1", call_id: "c1", name: "f", arguments: "{}" },
      { type: "function_call", call_id: "c2", name: "g", arguments: '{"a":1}' },
      { type: "function_call_output", call_id: "c1", output: "one" },
      { type: "function_call_output", call_id: "c2", output: [{ type: "input_text", text: "two" }] },
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
        content: [{ type: "text", text: "Look:" }, { type: "image_url", image_url: { url: "data:,x" } }],
      },
      {
        role: "assistant",
        content: "I see",
        tool_calls: [call("c1", "f", "{}"), call("c2", "g", '{"a":1}')],
      },
      { role: "tool", tool_call_id: "c1", content: "one" },
      { role: "tool", tool_call_id: "c2", content: "two" },
    ],
  });
});

test("tools, their choice, a text's format and fields of the engines reach the root in a chat's words", async () => {
  const parameters = { type: "object", properties: {} };
  const { rootSampling } = await started({
    tools: [{ type: "function", name: "f", parameters, strict: true }],
    tool_choice: { type: "function", name: "f" },
    parallel_tool_calls: false,
    text: { format: { type: "json_schema", name: "n", schema: { type: "object" }, strict: true } },
    reasoning: { effort: "minimal" },
    top_p: 0.9,
    top_k: 7,
    ignore_eos: true,
    prompt_cache_key: "k",
    service_tier: "auto",
  });
  assert.deepEqual(rootSampling, {
    top_p: 0.9,
    top_k: 7,
    extra: {
      ignore_eos: true,
      reasoning_effort: "minimal",
      tools: [{ type: "function", function: { name: "f", parameters, strict: true } }],
      tool_choice: { type: "function", function: { name: "f" } },
      parallel_tool_calls: false,
      response_format: {
        type: "json_schema",
        json_schema: { name: "n", schema: { type: "object" }, strict: true },
      },
    },
  });
});

test("what is thought, said and called are items one after the other, whole and streamed alike", async () => {
  const { respond } = ask({ script: calls });
  const whole = responseSchema.parse(await (await respond()).json());
  assert.deepEqual(whole.output.map(({ type }) => type), [
    "reasoning",
    "message",
    "function_call",
    "function_call",
  ]);
  const [thought, said, first, second] = whole.output;
  assert.ok(thought?.type === "reasoning" && said?.type === "message");
  assert.deepEqual(thought.content, [{ type: "reasoning_text", text: "Hm" }]);
  assert.equal(said.content[0]?.text, "Let me look.");
  assert.ok(first?.type === "function_call" && second?.type === "function_call");
  assert.deepEqual([first.call_id, first.name, first.arguments], ["c1", "f", '{"a":1}']);
  assert.match(second.call_id, /^call_/);

  const events = named(await (await respond({ stream: true })).text());
  const brief = events.map(({ type, output_index }) =>
    `${output_index ?? "-"} ${type.replace("response.", "")}`
  );
  assert.deepEqual(brief, [
    "- created",
    "- in_progress",
    "0 output_item.added",
    "0 content_part.added",
    "0 reasoning_text.delta",
    "0 reasoning_text.done",
    "0 content_part.done",
    "0 output_item.done",
    "1 output_item.added",
    "1 content_part.added",
    "1 output_text.delta",
    "1 output_text.done",
    "1 content_part.done",
    "1 output_item.done",
    "2 output_item.added",
    "2 function_call_arguments.delta",
    "2 function_call_arguments.delta",
    "2 function_call_arguments.done",
    "2 output_item.done",
    "3 output_item.added",
    "3 function_call_arguments.delta",
    "3 function_call_arguments.done",
    "3 output_item.done",
    "- completed",
  ]);
  const final = responseSchema.parse(events.at(-1)?.["response"]);
  const withoutIds = ({ output }: typeof final) =>
    output.map((item) => JSON.stringify(item).replace(/"(id|call_id)":"[a-z]+_\w+"/g, ""));
  assert.deepEqual(withoutIds(final), withoutIds(whole));
  assert.deepEqual(final.usage, whole.usage);
});

test("reasoning.summary says who said what: concise names the agents, detailed gives their answers", async () => {
  const { respond } = ask();
  for (const [summary, parts] of [["concise", 1], ["auto", 3], ["detailed", 3]] as const) {
    const { output } = responseSchema.parse(await (await respond({ reasoning: { summary } })).json());
    const [first, second] = output;
    assert.ok(first?.type === "reasoning");
    assert.equal(second?.type, "message");
    assert.equal(first.summary.length, parts);
    assert.equal(
      first.summary[0]?.text,
      "**2 of 2 agents answered**\n\n- l1.c1.a1 (small): answered\n- l1.c1.a2 (small): answered",
    );
    if (parts === 3) assert.equal(first.summary[2]?.text, "**l1.c1.a2 (small)**\n\nsecond");
    const events = named(await (await respond({ reasoning: { summary }, stream: true })).text());
    const texts = events.filter(({ type }) => type === "response.reasoning_summary_text.done");
    assert.deepEqual(texts.map(({ text }) => text), first.summary.map(({ text }) => text));
  }
});

test("an answer that is cut is incomplete and says why; one that breaks off in a stream has failed", async () => {
  const { respond, moa } = ask({
    *script(): Generator<RunEvent> {
      yield { type: "delta", index: 0, delta: { type: "delta", text: "Hel" } };
      yield { type: "end", index: 0, finishReason: "length" };
    },
  });
  const cut = responseSchema.parse(await (await respond()).json());
  assert.deepEqual([cut.status, cut.incomplete_details?.reason], ["incomplete", "max_output_tokens"]);
  assert.equal(cut.output[0]?.status, "incomplete");
  assert.equal(named(await (await respond({ stream: true })).text()).at(-1)?.type, "response.incomplete");

  moa.script = function* (): Generator<RunEvent> {
    yield { type: "delta", index: 0, delta: { type: "delta", text: "Hel" } };
    throw new CanopyError("The worker w1 broke off", { code: "worker_failed", status: 502 });
  };
  const last = named(await (await respond({ stream: true })).text()).at(-1);
  assert.equal(last?.type, "response.failed");
  const failed = responseSchema.parse(last?.["response"]);
  assert.deepEqual(failed.error, { code: "server_error", message: "The worker w1 broke off" });
  const [item] = failed.output;
  assert.ok(item?.type === "message" && item.status === "incomplete" && item.content[0]?.text === "Hel");
  const whole = await respond();
  assert.equal(whole.status, 502);
  assert.equal(errorSchema.parse(await whole.json()).error.code, "worker_failed");
});

test("log-probabilities come with the text when include names them", async () => {
  const { respond, moa } = ask({
    *script(): Generator<RunEvent> {
      const logprobs = [{ token: "a", logprob: -0.5, top: [{ token: "b", logprob: -1 }] }];
      yield { type: "delta", index: 0, delta: { type: "delta", text: "a", logprobs } };
      yield { type: "end", index: 0, finishReason: "stop" };
    },
  });
  const fields = { include: ["message.output_text.logprobs"], top_logprobs: 2 };
  const { output } = responseSchema.parse(await (await respond(fields)).json());
  const [item] = output;
  assert.ok(item?.type === "message");
  assert.deepEqual(item.content[0]?.logprobs, [
    { token: "a", logprob: -0.5, bytes: [97], top_logprobs: [{ token: "b", logprob: -1, bytes: [98] }] },
  ]);
  assert.equal(moa.run.input.rootLogprobs, 2);
});

test("what is kept, hosted or a chat's own is refused with a 400 that names the field", async () => {
  const { respond, moa } = ask();
  const image = (part: object) => ({
    input: [{ role: "user", content: [{ type: "input_image", ...part }] }],
  });
  const cases: [string, Record<string, unknown>][] = [
    ["store", { store: true }],
    ["previous_response_id", { previous_response_id: "resp_1" }],
    ["conversation", { conversation: "conv_1" }],
    ["background", { background: true }],
    ["prompt", { prompt: { id: "p" } }],
    ["truncation", { truncation: "auto" }],
    ["context_management", { context_management: [] }],
    ["text.verbosity", { text: { verbosity: "low" } }],
    ["text.format.type", { text: { format: { type: "grammar" } } }],
    ["text.format.name", { text: { format: { type: "json_schema", schema: {} } } }],
    ["reasoning.summary", { reasoning: { summary: "long" } }],
    ["reasoning.mode", { reasoning: { mode: "pro" } }],
    ["include[0]", { include: ["file_search_call.results"] }],
    ["tools[0].type", { tools: [{ type: "web_search" }] }],
    ["tool_choice", { tool_choice: { type: "mcp" } }],
    ["tool_choice", { tool_choice: "required" }],
    ["tool_choice.name", {
      tools: [{ type: "function", name: "f" }],
      tool_choice: { type: "function", name: "g" },
    }],
    ["top_logprobs", { top_logprobs: 2 }],
    ["input", { input: "" }],
    ["input", { input: [] }],
    ["input", { input: [{ role: "system", content: "x" }] }],
    ["input[0].role", { input: [{ role: "tool", content: "x" }] }],
    ["input[0].type", { input: [{ type: "item_reference", id: "x" }] }],
    ["input[0].call_id", { input: [{ type: "function_call_output", output: "x" }] }],
    ["input[0].content[0].type", { input: [{ role: "user", content: [{ type: "image_url" }] }] }],
    ["input[0].content[0].file_id", image({ file_id: "file-1" })],
    ["input[0].content[0].image_url", image({})],
    ["messages", { messages: [] }],
    ["max_tokens", { max_tokens: 3 }],
    ["n", { n: 2 }],
    ["max_output_tokens", { max_output_tokens: 0 }],
    ["temperature", { temperature: 3 }],
    ["canopy.include[0]", { canopy: { include: ["x"] } }],
  ];
  for (const [param, fields] of cases) {
    const response = await respond(fields);
    const text = await response.text();
    assert.equal(response.status, 400, `${param}: ${text}`);
    const { error } = errorSchema.parse(JSON.parse(text));
    assert.equal(error.param, param, text);
    assert.ok(error.message.includes(param), error.message);
  }
  assert.equal(moa.runs.length, 0);
  for (
    const fields of [{ store: false }, { store: null }, { background: false }, { previous_response_id: null }]
  ) {
    assert.equal((await respond(fields)).status, 200);
  }
});

test("a refusal of a message by the run names the item that the client sent, in its sentence too", async () => {
  const { respond, moa } = ask();
  const field = "messages[1].content[0]";
  moa.refuse = new CanopyError(`${field} is of type "image_url"`, {
    code: "unsupported_content",
    status: 400,
    param: field,
  });
  const response = await respond({
    instructions: "x",
    input: [{ role: "user", content: [{ type: "input_image", image_url: "data:,x" }] }],
  });
  const { error } = errorSchema.parse(await response.json());
  assert.equal(error.param, "input[0].content[0]");
  assert.equal(error.message, 'input[0].content[0] is of type "image_url"');
});

test("reasoning.effort chooses a graph's level of effort, and an unknown level is refused by its name here", async () => {
  const graph = fakeGraph("moa");
  const levels = { ...graph, efforts: { low: fakeGraph("moa", "small"), medium: graph, high: graph } };
  const { respond } = ask({ graphs: [levels] });
  assert.equal((await respond({ reasoning: { effort: "low" } })).status, 200);
  const refused = await respond({ reasoning: { effort: "xhigh" } });
  const { error } = errorSchema.parse(await refused.json());
  assert.deepEqual([refused.status, error.param], [400, "reasoning.effort"]);
});

test("canopy.include adds what is known of the run to a response, and to none without it", async () => {
  const { respond } = ask();
  const asked = responseSchema.parse(await (await respond({ canopy: { include: ["panel"] } })).json());
  assert.ok(asked.canopy?.["panel"] !== undefined);
  const plain = responseSchema.parse(await (await respond({ reasoning: { summary: "concise" } })).json());
  assert.equal(plain.canopy, undefined);
});

test("a response of an engine model is relayed as it came", async () => {
  const { respond, relay } = ask();
  const response = await respond({ model: "small", previous_response_id: "resp_1" });
  assert.deepEqual(await response.json(), { relayed: true });
  assert.equal(relay.requests[0]?.request.path, "/v1/responses");
});

test("log-probabilities of thoughts and of calls, which engines send beside them, tear neither apart", async () => {
  const scored = function* (): Generator<RunEvent> {
    let tokens = 0;
    for (const event of calls()) {
      const logprobs = [{ token: `t${tokens++}`, logprob: -1 }];
      yield event.type === "end" ? event : { ...event, delta: { ...event.delta, logprobs } };
      // A token whose text is held back.
      if (event.type === "delta") yield { ...event, delta: { type: "delta", text: "", logprobs } };
    }
  };
  for (const stream of [false, true]) {
    const { respond } = ask({ script: scored });
    const response = await respond({ stream, include: ["message.output_text.logprobs"] });
    const text = await response.text();
    const last = stream ? named(text).at(-1)?.["response"] : JSON.parse(text);
    const { output } = responseSchema.parse(last);
    assert.deepEqual(output.map(({ type }) => type), [
      "reasoning",
      "message",
      "function_call",
      "function_call",
    ]);
    const [, said, f, g] = output;
    assert.deepEqual(f?.type === "function_call" && [f.name, f.arguments], ["f", '{"a":1}']);
    assert.deepEqual(g?.type === "function_call" && [g.name, g.arguments], ["g", "{}"]);
    const logprobs = said?.type === "message" ? said.content[0]?.logprobs : undefined;
    assert.deepEqual(logprobs?.map(({ token }) => token), ["t1", "t1"]);
  }
});
