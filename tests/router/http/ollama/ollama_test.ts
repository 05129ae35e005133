import assert from "node:assert/strict";
import { test } from "node:test";
import { CanopyError } from "../../../../base/errors.ts";
import {
  ollamaAnswerSchema,
  ollamaErrorSchema,
  ollamaGeneratedSchema,
  ollamaProcessesSchema,
  ollamaShownSchema,
  ollamaTagsSchema,
  ollamaVersionSchema,
} from "../../../../router/http/ollama/response_schema.ts";
import type { RunEvent } from "../../../../router/moa/run/run.ts";
import { fakeApp, fakeGraph } from "../fakes.ts";

const hi = [{ role: "user", content: "Hi" }];

function ask(options: Parameters<typeof fakeApp>[0] = {}) {
  const fakes = fakeApp(options);
  const chat = (fields: Record<string, unknown> = {}) =>
    fakes.post("/api/chat", { model: "moa:latest", messages: hi, ...fields });
  const generate = (fields: Record<string, unknown> = {}) =>
    fakes.post("/api/generate", { model: "moa:latest", prompt: "Hi", ...fields });
  return { ...fakes, chat, generate };
}

/** Each request is refused with the status and the words. */
async function assertRefused(
  post: (fields: Record<string, unknown>) => Response | Promise<Response>,
  cases: readonly [status: number, words: string, fields: Record<string, unknown>][],
): Promise<void> {
  for (const [status, words, fields] of cases) {
    const response = await post(fields);
    const text = await response.text();
    assert.equal(response.status, status, text);
    assert.ok(ollamaErrorSchema.parse(JSON.parse(text)).error.includes(words), text);
  }
}

function lines(text: string) {
  assert.ok(text.endsWith("\n"));
  return text.trimEnd().split("\n").map((line) => ollamaAnswerSchema.parse(JSON.parse(line)));
}

function* thinksAndCalls(): Generator<RunEvent> {
  const delta = (delta: object): RunEvent => ({
    type: "delta",
    index: 0,
    delta: { type: "delta", text: "", ...delta },
  });
  yield delta({ reasoning: "Hm" });
  yield delta({ text: "Look" });
  yield delta({ toolCalls: [{ index: 0, id: "c1", function: { name: "f", arguments: '{"a"' } }] });
  yield delta({ toolCalls: [{ index: 0, function: { arguments: ":1}" } }] });
  yield { type: "end", index: 0, finishReason: "tool_calls" };
}

test("Open WebUI's look-ups find the version and the graphs, engine models not among them", async () => {
  const { app } = fakeApp({ graphs: [fakeGraph("moa"), fakeGraph("org/tree:9")], app: { version: "1.2.3" } });
  const version = ollamaVersionSchema.parse(await (await app.request("/api/version")).json());
  assert.equal(version.version, "1.2.3");
  const { models } = ollamaTagsSchema.parse(await (await app.request("/api/tags")).json());
  assert.deepEqual(models.map(({ model }) => model), ["moa:latest", "org/tree:9"]);
});

test("a chat is streamed as lines unless stream is false, under the name that was asked for", async () => {
  const { chat, moa } = ask();
  const streamed = await chat();
  assert.equal(streamed.headers.get("content-type"), "application/x-ndjson");
  assert.equal(streamed.headers.get("x-canopy-run-id"), moa.run.id);
  const parts = lines(await streamed.text());
  assert.deepEqual(parts.map(({ message, done }) => [message.content, done]), [
    ["Hel", false],
    ["lo", false],
    ["", true],
  ]);
  const whole = ollamaAnswerSchema.parse(await (await chat({ stream: false })).json());
  assert.equal(whole.message.content, "Hello");
  for (const last of [parts.at(-1)!, whole]) {
    assert.deepEqual([last.model, last.done_reason, last.prompt_eval_count, last.eval_count], [
      "moa:latest",
      "stop",
      100,
      20,
    ]);
  }
  assert.equal((await chat({ model: "moa" })).status, 200);
});

test("what the root thinks and calls comes in Ollama's words, thoughts not where think is false", async () => {
  const { chat } = ask({ script: thinksAndCalls });
  const whole = ollamaAnswerSchema.parse(await (await chat({ stream: false })).json());
  const calls = [{ id: "c1", function: { index: 0, name: "f", arguments: { a: 1 } } }];
  assert.deepEqual(whole.message, { role: "assistant", content: "Look", thinking: "Hm", tool_calls: calls });
  const parts = lines(await (await chat()).text()).map(({ message: { role: _, ...message } }) => message);
  assert.deepEqual(parts, [
    { content: "", thinking: "Hm" },
    { content: "Look" },
    { content: "", tool_calls: calls },
    { content: "" },
  ]);
  const silent = ollamaAnswerSchema.parse(await (await chat({ stream: false, think: false })).json());
  assert.equal(silent.message.thinking, undefined);
});

test("messages, options and the format reach the root in a chat's words; results find their calls", async () => {
  const { chat, moa } = ask();
  const tools = [{ type: "function", function: { name: "f", parameters: {} } }];
  const response = await chat({
    messages: [
      { role: "user", content: "Look", images: ["iVBORw0="] },
      { role: "assistant", content: "", tool_calls: [{ function: { name: "f", arguments: { a: 1 } } }] },
      { role: "tool", tool_name: "f", content: "one" },
      { role: "user", content: "Go on" },
    ],
    tools,
    format: { type: "object" },
    keep_alive: "5m",
    options: { temperature: 0.5, num_predict: 9, repeat_penalty: 1.1, num_ctx: 4096, seed: 7, stop: ["END"] },
  });
  assert.equal(response.status, 200, await response.text());
  const { question, rootSampling } = moa.run.input;
  assert.deepEqual(question, {
    kind: "chat",
    messages: [
      {
        role: "user",
        content: [
          { type: "text", text: "Look" },
          { type: "image_url", image_url: { url: "data:image/png;base64,iVBORw0=" } },
        ],
      },
      {
        role: "assistant",
        content: null,
        tool_calls: [{ id: "call_0", type: "function", function: { name: "f", arguments: '{"a":1}' } }],
      },
      { role: "tool", tool_call_id: "call_0", content: "one" },
      { role: "user", content: "Go on" },
    ],
  });
  assert.deepEqual(rootSampling, {
    max_tokens: 9,
    temperature: 0.5,
    repetition_penalty: 1.1,
    seed: 7,
    stop: ["END"],
    extra: {
      tools,
      response_format: {
        type: "json_schema",
        json_schema: { name: "output", schema: { type: "object" }, strict: true },
      },
    },
  });
});

test("errors have Ollama's form, name the field, and end a stream that breaks off", async () => {
  const { chat, moa } = ask();
  const cases: [number, string, Record<string, unknown>][] = [
    [404, "does not exist", { model: "nobody" }],
    [404, "/v1/chat/completions", { model: "small" }],
    [400, "model", { model: 7 }],
    [400, "messages", { messages: "Hi" }],
    [400, "options.mirostat", { options: { mirostat: 1 } }],
    [400, "options.temperature", { options: { temperature: 9 } }],
    [400, "options.num_predict", { options: { num_predict: 0 } }],
    [400, "template", { template: "x" }],
    [400, "think", { think: "much" }],
  ];
  await assertRefused(chat, cases);
  assert.equal(moa.runs.length, 0);
  moa.script = function* (): Generator<RunEvent> {
    yield { type: "delta", index: 0, delta: { type: "delta", text: "Hel" } };
    throw new CanopyError("The worker w1 broke off", { code: "worker_failed", status: 502 });
  };
  const broken = (await (await chat()).text()).trimEnd().split("\n");
  assert.deepEqual(JSON.parse(broken.at(-1)!), { error: "The worker w1 broke off" });
});

test("a prompt is answered in pieces or at once, with its system text, images and options in a chat's words", async () => {
  const { generate, moa } = ask();
  const streamed = await generate();
  assert.equal(streamed.headers.get("content-type"), "application/x-ndjson");
  const parts = (await streamed.text()).trimEnd().split("\n").map((one) =>
    ollamaGeneratedSchema.parse(JSON.parse(one))
  );
  assert.deepEqual(parts.map(({ response, done }) => [response, done]), [
    ["Hel", false],
    ["lo", false],
    ["", true],
  ]);
  assert.deepEqual(moa.run.input.question, { kind: "chat", messages: [{ role: "user", content: "Hi" }] });
  const options = { num_predict: 9, temperature: 0.5, seed: 7, stop: ["END"], top_p: 0.9, num_ctx: 4096 };
  const asked = { stream: false, system: "Be brief", images: ["iVBORw0="], format: "json", options };
  // As old clients write what they do not use.
  const unused = { suffix: "", template: "", raw: false, context: [], keep_alive: "5m" };
  const whole = ollamaGeneratedSchema.parse(await (await generate({ ...asked, ...unused })).json());
  for (const last of [parts.at(-1)!, whole]) {
    assert.deepEqual([last.model, last.done_reason, last.prompt_eval_count, last.eval_count], [
      "moa:latest",
      "stop",
      100,
      20,
    ]);
  }
  assert.equal(whole.response, "Hello");
  const { question, rootSampling } = moa.runs[1]!.input;
  const image = { type: "image_url", image_url: { url: "data:image/png;base64,iVBORw0=" } };
  assert.deepEqual(question, {
    kind: "chat",
    messages: [
      { role: "system", content: "Be brief" },
      { role: "user", content: [{ type: "text", text: "Hi" }, image] },
    ],
  });
  const { num_predict: max_tokens, num_ctx: _, ...same } = options;
  assert.deepEqual(rootSampling, {
    ...same,
    max_tokens,
    extra: { response_format: { type: "json_object" } },
  });
  moa.script = thinksAndCalls;
  const thought = ollamaGeneratedSchema.parse(await (await generate({ stream: false })).json());
  assert.deepEqual([thought.thinking, thought.response], ["Hm", "Look"]);
});

test("without a prompt nothing is asked: clients load and unload a model so", async () => {
  const { generate, moa } = ask();
  for (const [keep_alive, done_reason] of [["5m", "load"], [0, "unload"]] as const) {
    const line = ollamaGeneratedSchema.parse(
      JSON.parse(await (await generate({ prompt: "", keep_alive })).text()),
    );
    const whole = ollamaGeneratedSchema.parse(
      await (await generate({ prompt: null, stream: false, keep_alive })).json(),
    );
    for (const { done, done_reason: reason, response } of [line, whole]) {
      assert.deepEqual([done, reason, response], [true, done_reason, ""]);
    }
  }
  assert.equal(moa.runs.length, 0);
});

test("a chat without a message asks nothing either", async () => {
  const { chat, moa } = ask();
  for (const messages of [[], null]) {
    for (const [keep_alive, done_reason] of [["5m", "load"], [0, "unload"]] as const) {
      const line = JSON.parse(await (await chat({ messages, keep_alive })).text());
      const whole = await (await chat({ messages, stream: false, keep_alive })).json();
      for (const answer of [line, whole].map((one) => ollamaAnswerSchema.parse(one))) {
        assert.deepEqual([answer.done, answer.done_reason], [true, done_reason]);
        assert.deepEqual(answer.message, { role: "assistant", content: "" });
      }
    }
  }
  assert.equal(moa.runs.length, 0);
});

test("a graph is shown by its names, and listed as loaded while its root can answer", async () => {
  const { post, app } = fakeApp({ graphs: [fakeGraph("moa"), fakeGraph("alone", "nobody")] });
  for (const body of [{ model: "moa" }, { name: "moa:latest", verbose: true }]) {
    const shown = ollamaShownSchema.parse(await (await post("/api/show", body)).json());
    assert.deepEqual(shown.capabilities, ["completion", "tools"]);
    assert.deepEqual([shown.model_info["general.basename"], shown.model_info["canopy.agents"]], ["moa", 3]);
    assert.match(shown.modelfile, /^# moa is a graph of 3 agents\.\nFROM moa:latest\n$/);
  }
  const { models } = ollamaProcessesSchema.parse(await (await app.request("/api/ps")).json());
  assert.deepEqual(models.map(({ model }) => model), ["moa:latest"]);
  assert.ok(Date.parse(models[0]!.expires_at) > Date.parse("2100-01-01"));
  const cases = [[{}, 400], [{ model: "nobody" }, 404], [{ model: "small" }, 404], [
    { model: "moa", x: 1 },
    400,
  ]] as const;
  for (const [body, status] of cases) {
    const response = await post("/api/show", body);
    assert.equal(response.status, status);
    ollamaErrorSchema.parse(await response.json());
  }
});

test("what a generation cannot have is refused by its name, a fault of its parts by the client's", async () => {
  const { generate, moa } = ask();
  const cases: [number, string, Record<string, unknown>][] = [
    [404, "does not exist", { model: "nobody" }],
    [404, "/v1/chat/completions", { model: "small" }],
    [400, "model", { model: null }],
    [400, "prompt", { prompt: 7 }],
    [400, "suffix must be left out", { suffix: "end" }],
    [400, "template must be left out", { template: "{{ .Prompt }}" }],
    [400, "raw must be left out", { raw: true }],
    [400, "context must be left out", { context: [1] }],
    [400, "messages", { messages: hi }],
    [400, "options.mirostat", { options: { mirostat: 1 } }],
    [400, "options.top_p", { options: { top_p: 9 } }],
    [400, "options.num_predict", { options: { num_predict: 0 } }],
    [400, "images[0]", { images: [7] }],
  ];
  await assertRefused(generate, cases);
  assert.equal(moa.runs.length, 0);
});
