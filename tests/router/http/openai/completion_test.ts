import assert from "node:assert/strict";
import { test } from "node:test";
import { completionSchema, errorSchema } from "../../../../router/http/openai/response_schema.ts";
import type { RunInput } from "../../../../router/moa/graph/run_input.ts";
import type { RunEvent } from "../../../../router/moa/run/run.ts";
import { fakeApp, parseEvents, settle } from "../fakes.ts";

async function refusal(response: Response, status = 400) {
  const text = await response.text();
  assert.equal(response.status, status, text);
  return errorSchema.parse(JSON.parse(text)).error;
}

/** Says which prompt and choice it answers. */
function* parrot(input: RunInput): Generator<RunEvent> {
  const question = input.question.kind === "text" ? input.question.text : "chat";
  for (let index = 0; index < input.choices; index++) {
    yield { type: "delta", index, delta: { type: "delta", text: `${question}/${index}` } };
    yield { type: "end", index, finishReason: "stop" };
  }
}

function textOf(run: { input: RunInput }): string | undefined {
  return run.input.question.kind === "text" ? run.input.question.text : undefined;
}

test("a completion has OpenAI's form", async () => {
  const { complete, moa } = fakeApp();
  const response = await complete();
  const body = completionSchema.parse(await response.json());
  assert.deepEqual(body.choices, [{ index: 0, text: "Hello", logprobs: null, finish_reason: "stop" }]);
  assert.equal(body.usage?.total_tokens, 120);
  assert.match(body.id, /^cmpl-[0-9a-f]{24}$/);
  assert.equal(textOf(moa.run), "Hi");
});

test("a completion stream is framed byte for byte as OpenAI's", async () => {
  const { complete } = fakeApp();
  const text = await (await complete({ stream: true })).text();
  const first = completionSchema.parse(parseEvents(text)[0]);
  const head =
    `data: {"id":"${first.id}","object":"text_completion","created":${first.created},"model":"moa",`;
  assert.equal(
    text,
    head + '"choices":[{"index":0,"text":"Hel","logprobs":null,"finish_reason":null}]}\n\n' +
      head + '"choices":[{"index":0,"text":"lo","logprobs":null,"finish_reason":null}]}\n\n' +
      head + '"choices":[{"index":0,"text":"","logprobs":null,"finish_reason":"stop"}]}\n\n' +
      "data: [DONE]\n\n",
  );
});

test("lm-eval's generation body works: token-id lists, a long stop list, temperature 0, a seed", async () => {
  const { complete, moa } = fakeApp({ script: parrot });
  const ids = (text: string) => Array.from(text, (letter) => letter.charCodeAt(0));
  const response = await complete({
    prompt: [ids("one"), ids("two")],
    max_tokens: 256,
    temperature: 0,
    stop: ["Question:", "</s>", "<|im_end|>", "\n\n", "Q:", "###"],
    seed: 1234,
    do_sample: false,
  }, { headers: { authorization: "Bearer " } });
  assert.equal(response.status, 200, await response.clone().text());
  const body = completionSchema.parse(await response.json());
  assert.deepEqual(body.choices.map((choice) => [choice.index, choice.text]), [[0, "one/0"], [1, "two/0"]]);
  assert.deepEqual(moa.runs.map(textOf), ["one", "two"]);
  assert.deepEqual(moa.runs[1]?.input.rootSampling.stop, ["Question:", "</s>", "<|im_end|>", "\n\n"]);
  assert.deepEqual(moa.runs[1]?.input.rootSampling.extra, { do_sample: false });
  assert.equal(body.usage?.prompt_tokens, 200);
});

test("a list of prompts gives one run each, with choices at prompt * n + i", async () => {
  const { complete, moa } = fakeApp({ script: parrot });
  const response = await complete({ prompt: ["a", "b", "c"], n: 2 });
  assert.equal(response.headers.get("x-canopy-run-id"), "run_1,run_2,run_3");
  const body = completionSchema.parse(await response.json());
  assert.deepEqual(body.choices.map((choice) => choice.text), ["a/0", "a/1", "b/0", "b/1", "c/0", "c/1"]);
  assert.deepEqual(body.choices.map((choice) => choice.index), [0, 1, 2, 3, 4, 5]);
  assert.equal(moa.runs.length, 3);
  const events = parseEvents(await (await complete({ prompt: ["a", "b"], n: 2, stream: true })).text());
  const texts = ["", "", "", ""];
  for (const event of events.slice(0, -1)) {
    for (const choice of completionSchema.parse(event).choices) texts[choice.index] += choice.text;
  }
  assert.deepEqual(texts, ["a/0", "a/1", "b/0", "b/1"]);
});

test("more prompts than places run one after the other, and leave places to others", async () => {
  const prompts = Array.from({ length: 20 }, (_, at) => `p${at}`);
  const config = { server: { max_running: 2, max_queued: 1 } };
  let live = 0;
  let most = 0;
  const { complete } = fakeApp({
    config: { models: {}, ...config },
    async *script(input): AsyncGenerator<RunEvent> {
      most = Math.max(most, ++live);
      await settle();
      yield* parrot(input);
      live--;
    },
  });
  const [one, two] = await Promise.all([complete({ prompt: prompts }), complete({ prompt: prompts })]);
  for (const response of [one, two]) {
    const body = completionSchema.parse(await response.json());
    assert.deepEqual(body.choices.map((choice) => choice.text), prompts.map((prompt) => `${prompt}/0`));
  }
  assert.equal(most, 2);
});

test("the failure of one prompt fails the request and stops the other runs", async () => {
  const { complete, moa } = fakeApp({
    // deno-lint-ignore require-yield
    async *script(input): AsyncGenerator<RunEvent> {
      if (textOf({ input }) === "bad") throw new Error("broken");
      await new Promise(() => {});
    },
  });
  const response = await complete({ prompt: ["good", "bad", "good"] });
  assert.equal(response.status, 500);
  await settle();
  assert.deepEqual(moa.runs.map((run) => run.state), ["cancelled", "failed", "cancelled"]);
});

test("echo repeats the prompt's text before each answer, whole and streamed", async () => {
  const { complete } = fakeApp();
  const body = completionSchema.parse(
    await (await complete({ echo: true, prompt: ["One ", "Two "] })).json(),
  );
  assert.deepEqual(body.choices.map((choice) => choice.text), ["One Hello", "Two Hello"]);
  const events = parseEvents(await (await complete({ echo: true, prompt: "One ", stream: true })).text());
  const texts = events.slice(0, -1).map((event) => completionSchema.parse(event).choices[0]?.text);
  assert.deepEqual(texts, ["One Hel", "lo", ""]);
});

test("log-probabilities come as parallel lists with the chosen token in every dictionary", async () => {
  const { complete, moa } = fakeApp({
    *script(): Generator<RunEvent> {
      const top = [{ token: "x", logprob: -0.1 }];
      for (const token of ["😀a", "b"]) {
        const logprobs = [{ token, logprob: -1, top }];
        yield { type: "delta", index: 0, delta: { type: "delta", text: token, logprobs } };
      }
      yield { type: "end", index: 0, finishReason: "length" };
    },
  });
  const expected = {
    tokens: ["😀a", "b"],
    token_logprobs: [-1, -1],
    top_logprobs: [{ x: -0.1, "😀a": -1 }, { x: -0.1, b: -1 }],
    text_offset: [0, 2],
  };
  const body = completionSchema.parse(await (await complete({ logprobs: 1 })).json());
  assert.deepEqual(body.choices[0]?.logprobs, expected);
  assert.equal(moa.run.input.rootLogprobs, 1);
  const events = parseEvents(await (await complete({ logprobs: 0, stream: true })).text());
  const offsets = events.slice(0, -1).flatMap((event) =>
    completionSchema.parse(event).choices[0]?.logprobs?.text_offset ?? []
  );
  assert.deepEqual(offsets, [0, 2]);
});

test("stops beyond what the root's engine takes end the text all the same, and the run with it", async () => {
  const { complete, moa } = fakeApp({
    *script(input): Generator<RunEvent> {
      for (const text of ["one #", "# two", " ##", "# three"]) {
        for (let index = 0; index < input.choices; index++) {
          yield { type: "delta", index, delta: { type: "delta", text } };
        }
      }
      throw new Error("The root was read on after its last stop");
    },
  });
  const stop = ["a", "b", "c", "d", "###", "unseen"];
  const body = completionSchema.parse(await (await complete({ stop, n: 2 })).json());
  assert.deepEqual(body.choices.map((choice) => [choice.text, choice.finish_reason]), [
    ["one ## two ", "stop"],
    ["one ## two ", "stop"],
  ]);
  assert.deepEqual(moa.run.input.rootSampling.stop, ["a", "b", "c", "d"]);
  await settle();
  assert.equal(moa.run.state, "done");
  const events = parseEvents(await (await complete({ stop, stream: true })).text());
  assert.equal(events.pop(), "[DONE]");
  const choices = events.flatMap((event) => completionSchema.parse(event).choices);
  assert.deepEqual(choices.map((choice) => choice.text), ["one ", "## two", " ", ""]);
  assert.equal(choices.at(-1)?.finish_reason, "stop");
});

test("text that was held back for a stop that never came is sent at the end", async () => {
  const { complete } = fakeApp({
    *script(): Generator<RunEvent> {
      yield { type: "delta", index: 0, delta: { type: "delta", text: "x ##" } };
      yield { type: "end", index: 0, finishReason: "length" };
    },
  });
  const stop = ["a", "b", "c", "d", "###"];
  const body = completionSchema.parse(await (await complete({ stop })).json());
  assert.deepEqual(body.choices[0], { index: 0, text: "x ##", logprobs: null, finish_reason: "length" });
});

test("best_of equal to n, an empty suffix and other usual values pass", async () => {
  const { complete } = fakeApp({ script: parrot });
  for (
    const fields of [{ best_of: 1 }, { n: 2, best_of: 2 }, { suffix: "" }, { logprobs: false }, {
      echo: false,
    }]
  ) {
    assert.equal((await complete(fields)).status, 200, JSON.stringify(fields));
  }
});

test("what cannot be honoured is refused with a 400 that names the field", async () => {
  const cases: [Record<string, unknown>, string][] = [
    [{ prompt: undefined }, "prompt"],
    [{ prompt: null }, "prompt"],
    [{ prompt: "" }, "prompt"],
    [{ prompt: [] }, "prompt"],
    [{ prompt: {} }, "prompt"],
    [{ prompt: [[]] }, "prompt[0]"],
    [{ prompt: ["a", ""] }, "prompt[1]"],
    [{ prompt: ["a", 1] }, "prompt[1]"],
    [{ prompt: [1, "a"] }, "prompt[1]"],
    [{ prompt: [[1], "a"] }, "prompt[1]"],
    [{ prompt: [1, -1] }, "prompt[1]"],
    [{ prompt: [[1], [256]] }, "prompt[1][0]"],
    [{ prompt: [true] }, "prompt[0]"],
    [{ prompt: Array(1025).fill("a") }, "prompt"],
    [{ suffix: "x" }, "suffix"],
    [{ best_of: 2 }, "best_of"],
    [{ echo: true, logprobs: 1 }, "echo"],
    [{ logprobs: 21 }, "logprobs"],
    [{ logprobs: true }, "logprobs"],
    [{ messages: [] }, "messages"],
    [{ tools: [] }, "tools"],
    [{ prompt_embeds: "x" }, "prompt_embeds"],
  ];
  const { complete, moa } = fakeApp();
  for (const [fields, param] of cases) {
    const error = await refusal(await complete(fields));
    assert.equal(error.param, param, JSON.stringify(fields));
    assert.ok(error.message.includes(param.split(/[.[]/)[0]!), error.message);
  }
  assert.equal(moa.runs.length, 0);
});

test("token ids are refused with the model's name when its tokenizer is not known", async () => {
  const { complete } = fakeApp({ models: { big: { tokenizer: undefined } } });
  const error = await refusal(await complete({ prompt: [1, 2] }));
  assert.equal(error.param, "prompt");
  assert.match(error.message, /big/);
});
