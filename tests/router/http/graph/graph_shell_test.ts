import assert from "node:assert/strict";
import { test } from "node:test";
import { errorSchema } from "../../../../router/http/openai/response_schema.ts";
import { EngineError } from "../../../../router/worker/engine_error.ts";
import { parseEvents } from "../fakes.ts";
import { graphApp } from "./graph_app.ts";

const echo = (prompt: string) => ({ pieces: ["[", prompt, "]"], stepMs: 1 });

const batch = {
  model: ["small", "big", "big"],
  rid: ["agent_1", "agent_2", "agent_3"],
  text: ["One", "Two <|answer:agent_1|>", "Both: <|answer:agent_1|> <|answer:agent_2|>"],
  sampling_params: { max_new_tokens: 32, temperature: 0, sampling_seed: 5, ignore_eos: true },
};

test("/generate with slots runs a batch of named requests that read each other", async () => {
  const { app, clock, post, assertIdle, engines, relay } = graphApp({ script: echo });
  await clock.run(async () => {
    const response = await post("/generate", batch);
    assert.equal(response.status, 200);
    const answers = await response.json();
    assert.deepEqual(answers.map((answer: { text: string }) => answer.text), [
      "[One]",
      "[Two [One]]",
      "[Both: [One] [Two [One]]]",
    ]);
    assert.deepEqual(answers[2].meta_info, {
      id: "agent_3",
      finish_reason: { type: "stop", matched: null },
      prompt_tokens: 10,
      completion_tokens: 3,
      cached_tokens: 0,
      e2e_latency: 0.009,
    });
    const [call] = engines.get("small")!.calls;
    assert.deepEqual(call?.request.prompt, { kind: "text", text: "One" });
    assert.deepEqual(call?.request.sampling, {
      max_tokens: 32,
      temperature: 0,
      seed: 5,
      extra: { ignore_eos: true },
    });
    const run = await (await app.request(`/v1/runs/${response.headers.get("x-canopy-run-id")}`)).json();
    assert.equal(run.state, "done");
  });
  assert.equal(relay.requests.length, 0);
  assertIdle();
});

test("one name is numbered as SGLang does it; lists of parameters go text by text; 128 tokens are the default", async () => {
  const { clock, post, engines } = graphApp({ script: echo });
  await clock.run(async () => {
    const response = await post("/generate", {
      model: "small",
      rid: "agent",
      text: ["A", "B <|answer:agent_0|>"],
      sampling_params: [{}, { max_new_tokens: 1, stop: ["x"] }],
      stream: false,
      return_logprob: false,
    });
    assert.equal((await response.json())[1].text, "[B [A]]");
    assert.deepEqual(engines.get("small")!.calls.map((call) => call.request.sampling), [
      { max_tokens: 128 },
      { max_tokens: 1, stop: ["x"] },
    ]);
  });
});

test("a stream of a batch has all the text so far in every event", async () => {
  const { clock, post, assertIdle } = graphApp({ script: echo });
  await clock.run(async () => {
    const events = parseEvents(await (await post("/generate", { ...batch, stream: true })).text());
    assert.equal(events.pop(), "[DONE]");
    const texts = new Map<number, string>();
    const ended: string[] = [];
    for (const event of events as { index: number; text: string; meta_info: Record<string, unknown> }[]) {
      assert.ok(event.text.startsWith(texts.get(event.index) ?? ""));
      texts.set(event.index, event.text);
      assert.equal(event.meta_info["id"], `agent_${event.index + 1}`);
      if (event.meta_info["finish_reason"] !== null) ended.push(event.text);
    }
    assert.deepEqual([...texts.values()].sort(), ended.sort());
    assert.deepEqual(texts.get(2), "[Both: [One] [Two [One]]]");
  });
  assertIdle();
});

test("a text that fails is an abort among the answers; if all fail, so does the request", async () => {
  const error = new EngineError("The worker broke", {
    code: "broken",
    status: 502,
    workerUrl: "http://w1",
    retryable: false,
  });
  const { clock, post } = graphApp({
    script: (prompt) => prompt.startsWith("One") ? { pieces: [], failAt: { piece: 0, error } } : echo(prompt),
  });
  await clock.run(async () => {
    const answers = await (await post("/generate", {
      ...batch,
      rid: [...batch.rid, "agent_4"],
      text: [...batch.text, "Alone"],
      model: "small",
    })).json();
    assert.deepEqual(
      answers.map((answer: { meta_info: { finish_reason: { type: string } } }) =>
        answer.meta_info.finish_reason.type
      ),
      ["abort", "abort", "abort", "stop"],
    );
    assert.match(answers[0].meta_info.finish_reason.message, /The worker broke/);
    assert.equal((await post("/generate", batch)).status, 502);
  });
});

test("/generate without slots is relayed as it came, to the only model if it names none", async () => {
  const models = { only: { model: "org/only", engine: "sglang" } };
  const { clock, post, relay } = graphApp({ models });
  await clock.run(async () => {
    for (
      const body of [{ text: "Hi <|answer:" }, { text: ["a", "b"], rid: ["x", "y"] }, { input_ids: [1] }]
    ) {
      const response = await post("/generate", body);
      assert.deepEqual(await response.json(), { relayed: true });
    }
    assert.deepEqual(await (await post("/generate", { text: "<|answer:a|>", rid: "a" })).json(), {
      error: {
        message: "text is part of a cycle (a → a read each other)",
        type: "invalid_request_error",
        param: "text",
        code: "invalid_value",
      },
    });
  });
  assert.deepEqual(relay.requests.map(({ model }) => model), ["only", "only", "only"]);
  assert.deepEqual(JSON.parse(new TextDecoder().decode(relay.requests[0]!.request.body)), {
    text: "Hi <|answer:",
  });
});

test("a batch that cannot be run is a 400 that names the field in SGLang's words", async () => {
  const { clock, post } = graphApp();
  await clock.run(async () => {
    for (
      const [fields, param] of [
        [{ rid: undefined }, "rid"],
        [{ rid: ["a", "b"] }, "rid"],
        [{ rid: ["agent_1", "agent_1", "agent_3"] }, "rid[1]"],
        [{ rid: ["agent_1", "a b", "agent_3"] }, "rid[1]"],
        [{ rid: ["a", "b", "c"] }, "text[1]"],
        [{ model: undefined }, "model"],
        [{ model: "nope" }, "model"],
        [{ model: "moa" }, "model"],
        [{ model: ["small"] }, "model"],
        [{ model: ["small", "nope", "big"] }, "model[1]"],
        [{ sampling_params: [{}] }, "sampling_params"],
        [{ sampling_params: { max_new_tokens: 0 } }, "sampling_params.max_new_tokens"],
        [{ sampling_params: { n: 2 } }, "sampling_params.n"],
        [{ sampling_params: [{}, { sampling_seed: "x" }, {}] }, "sampling_params[1].sampling_seed"],
        [{ return_logprob: true }, "return_logprob"],
        [{ input_ids: [[1]] }, "input_ids"],
        [{ text: ["<|answer:x|>", 5, ""] }, "text"],
        [{ stream: 1 }, "stream"],
      ] as const
    ) {
      const response = await post("/generate", { ...batch, ...fields });
      const text = await response.text();
      assert.equal(response.status, 400, `${JSON.stringify(fields)}: ${text}`);
      assert.equal(errorSchema.parse(JSON.parse(text)).error.param, param, text);
    }
  });
});
