import assert from "node:assert/strict";
import { test } from "node:test";
import OpenAI, { APIError, APIUserAbortError, BadRequestError, NotFoundError } from "openai";
import "../loopback.ts";
import { until } from "../until.ts";

/** A served tree (`moa`), its dense baseline, and the engine models beside it. */
export interface Target {
  readonly baseUrl: string;
  /** A virtual model and the name of a plain engine model. */
  readonly virtualModel: string;
  readonly engineModel: string;
}

const question = [{ role: "user" as const, content: "What is 17 * 23? Show the steps." }];

/** What the official OpenAI client must get from a served tree; run against a router in process and against the binary. */
export function openAIClientSuite(target: () => Target): void {
  const client = () => new OpenAI({ baseURL: `${target().baseUrl}/v1`, apiKey: "none", maxRetries: 0 });

  test("The client lists the virtual model and the engine models and retrieves each by name", async () => {
    const ids = (await client().models.list()).data.map((model) => model.id);
    assert.ok(ids.includes(target().virtualModel));
    assert.ok(ids.includes(target().engineModel));
    for (const id of ids) assert.equal((await client().models.retrieve(id)).id, id);
  });

  test("A chat completion of the tree has a whole answer and the usage of all its calls", async () => {
    const answer = await client().chat.completions.create({
      model: target().virtualModel,
      messages: question,
    });
    assert.equal(answer.object, "chat.completion");
    assert.equal(answer.model, target().virtualModel);
    const choice = answer.choices[0];
    assert.equal(choice?.message.role, "assistant");
    assert.ok((choice?.message.content ?? "").length > 0);
    assert.ok(choice?.finish_reason === "stop" || choice?.finish_reason === "length");
    const usage = answer.usage;
    assert.ok(usage !== undefined && usage.completion_tokens > 0);
    assert.equal(usage.total_tokens, usage.prompt_tokens + usage.completion_tokens);
  });

  test("A streamed chat completion carries the role first, one finish reason, and usage only when asked", async () => {
    const chunks = [];
    const stream = await client().chat.completions.create({
      model: target().virtualModel,
      messages: question,
      stream: true,
      stream_options: { include_usage: true },
    });
    for await (const chunk of stream) chunks.push(chunk);
    assert.equal(chunks[0]?.choices[0]?.delta.role, "assistant");
    assert.equal(chunks.filter((chunk) => chunk.choices[0]?.finish_reason).length, 1);
    assert.equal(new Set(chunks.map((chunk) => chunk.id)).size, 1);
    const last = chunks.at(-1);
    assert.deepEqual(last?.choices, []);
    assert.ok((last?.usage?.completion_tokens ?? 0) > 0);

    const plain = await client().chat.completions.create({
      model: target().virtualModel,
      messages: question,
      stream: true,
    });
    for await (const chunk of plain) {
      assert.equal(chunk.choices.length, 1);
      assert.equal(chunk.usage ?? null, null);
    }
  });

  test("The client's stream helper assembles the same text as the plain request with a seed", async () => {
    const body = { model: target().virtualModel, messages: question, seed: 7, temperature: 0 };
    const plain = await client().chat.completions.create(body);
    const helper = client().chat.completions.stream(body);
    const final = await helper.finalChatCompletion();
    assert.equal(final.choices[0]?.message.content, plain.choices[0]?.message.content);
  });

  test("Two choices are two answers with their own finish reasons", async () => {
    const answer = await client().chat.completions.create({
      model: target().virtualModel,
      messages: question,
      n: 2,
    });
    assert.deepEqual(answer.choices.map((choice) => choice.index).sort(), [0, 1]);
    for (const choice of answer.choices) assert.ok(choice.finish_reason);
  });

  test("max_tokens and stop act on the tree's answer", async () => {
    const short = await client().chat.completions.create({
      model: target().virtualModel,
      messages: question,
      max_completion_tokens: 3,
    });
    assert.equal(short.choices[0]?.finish_reason, "length");
    const whole = await client().chat.completions.create({
      model: target().virtualModel,
      messages: question,
      seed: 3,
    });
    const text = whole.choices[0]?.message.content ?? "";
    const stop = text.slice(10, 14);
    const cut = await client().chat.completions.create({
      model: target().virtualModel,
      messages: question,
      seed: 3,
      stop: [stop],
    });
    assert.equal(cut.choices[0]?.message.content, text.slice(0, text.indexOf(stop)));
    assert.equal(cut.choices[0]?.finish_reason, "stop");
  });

  test("Log-probabilities of a chat answer spell its text", async () => {
    const answer = await client().chat.completions.create({
      model: target().virtualModel,
      messages: question,
      logprobs: true,
      top_logprobs: 2,
      max_tokens: 8,
    });
    const tokens = answer.choices[0]?.logprobs?.content ?? [];
    assert.equal(tokens.length, 8);
    for (const token of tokens) {
      assert.ok(token.logprob <= 0);
      assert.ok(token.top_logprobs.length >= 1);
    }
  });

  test("A text completion answers, echoes when asked, and streams", async () => {
    const prompt = "The capital of France is";
    const plain = await client().completions.create({ model: target().virtualModel, prompt, max_tokens: 6 });
    assert.equal(plain.object, "text_completion");
    const echoed = await client().completions.create({
      model: target().virtualModel,
      prompt,
      max_tokens: 6,
      echo: true,
    });
    assert.ok(echoed.choices[0]?.text.startsWith(prompt));
    let streamed = "";
    const stream = await client().completions.create({
      model: target().virtualModel,
      prompt,
      max_tokens: 6,
      stream: true,
    });
    for await (const chunk of stream) streamed += chunk.choices[0]?.text ?? "";
    assert.ok(streamed.length > 0);
  });

  test("A list of prompts gives one choice each, in order of index", async () => {
    const answer = await client().completions.create({
      model: target().virtualModel,
      prompt: ["One plus one is", "Two plus two is"],
      max_tokens: 4,
      n: 2,
    });
    assert.deepEqual(answer.choices.map((choice) => choice.index).sort(), [0, 1, 2, 3]);
  });

  test("An engine model answers under its own name", async () => {
    const answer = await client().chat.completions.create({
      model: target().engineModel,
      messages: question,
      max_tokens: 5,
    });
    assert.equal(answer.model, target().engineModel);
    assert.equal(answer.usage?.completion_tokens, 5);
  });

  test("Wrong requests raise the client's own error classes with the field at fault", async () => {
    await assert.rejects(
      client().chat.completions.create({ model: "nobody", messages: question }),
      (error) => error instanceof NotFoundError && error.param === "model",
    );
    await assert.rejects(
      client().chat.completions.create({ model: target().virtualModel, messages: question, temperature: 9 }),
      (error) => error instanceof BadRequestError && error.param === "temperature",
    );
    await assert.rejects(
      client().chat.completions.create({ model: target().virtualModel, messages: [] }),
      (error) => error instanceof BadRequestError && error.param === "messages",
    );
    await assert.rejects(
      client().completions.create({ model: target().virtualModel, prompt: "x", logprobs: 1, echo: true }),
      (error) => error instanceof APIError && error.status === 400,
    );
  });

  test("A client that leaves a stream leaves no request running", async () => {
    const controller = new AbortController();
    const stream = await client().chat.completions.create(
      { model: target().virtualModel, messages: question, stream: true },
      { signal: controller.signal },
    );
    let seen = 0;
    await assert.rejects(async () => {
      for await (const _ of stream) if (++seen === 2) controller.abort();
      throw new APIUserAbortError();
    }, APIUserAbortError);
    await idle(target().baseUrl);
  });

  test("A response of the tree has a text, the usage of all calls, and who said what", async () => {
    const response = await client().responses.create({
      model: target().virtualModel,
      instructions: "Be brief.",
      input: "What is 17 * 23? Show the steps.",
      reasoning: { summary: "auto" },
      metadata: { asked: "here" },
    });
    assert.equal(response.object, "response");
    assert.ok(response.status === "completed" || response.status === "incomplete");
    assert.equal(response.model, target().virtualModel);
    assert.ok(response.output_text.length > 0);
    assert.deepEqual(response.metadata, { asked: "here" });
    const { usage } = response;
    assert.ok(usage !== undefined && usage.output_tokens > 0);
    assert.equal(usage.total_tokens, usage.input_tokens + usage.output_tokens);
    const [first] = response.output;
    assert.ok(first?.type === "reasoning");
    const [roster, ...said] = first.summary.map(({ text }) => text);
    assert.match(roster ?? "", /^\*\*\d+ of \d+ agents answered\*\*/);
    assert.ok(said.length > 0 && said.every((text) => text.length > 0));
  });

  test("The client's response stream assembles what the plain request with a seed answers", async () => {
    const body = {
      model: target().virtualModel,
      input: [{ role: "user" as const, content: "What is 17 * 23? Show the steps." }],
      seed: 7,
      temperature: 0,
      reasoning: { summary: "concise" as const },
    };
    const plain = await client().responses.create(body);
    const helper = client().responses.stream(body);
    const types: string[] = [];
    for await (const event of helper) types.push(event.type);
    const final = await helper.finalResponse();
    assert.equal(final.output_text, plain.output_text);
    assert.equal(types[0], "response.created");
    assert.equal(types[1], "response.in_progress");
    assert.equal(types.at(-1), `response.${plain.status}`);
    assert.ok(types.filter((type) => type === "response.output_text.delta").length > 1);
    assert.deepEqual(final.output.map(({ type }) => type), ["reasoning", "message"]);
  });

  test("A response that is cut is incomplete; its turns go on by sending what it gave", async () => {
    const first = await client().responses.create({
      model: target().virtualModel,
      input: "What is 17 * 23?",
      max_output_tokens: 3,
    });
    assert.equal(first.status, "incomplete");
    assert.equal(first.incomplete_details?.reason, "max_output_tokens");
    const second = await client().responses.create({
      model: target().virtualModel,
      input: [
        { role: "user", content: "What is 17 * 23?" },
        ...first.output.filter((item) => item.type === "message"),
        { role: "user", content: "Go on." },
      ],
      store: false,
    });
    assert.ok(second.output_text.length > 0);
  });

  test("What a response would have to keep is refused with the field at fault", async () => {
    for (const fields of [{ store: true }, { previous_response_id: "resp_1" }, { background: true }]) {
      await assert.rejects(
        client().responses.create({ model: target().virtualModel, input: "Hi", ...fields }),
        (error) => error instanceof BadRequestError && error.param === Object.keys(fields)[0],
      );
    }
  });

  test("Open WebUI's calls of Ollama's API find the tree and get its answer line by line", async () => {
    const { baseUrl, virtualModel } = target();
    assert.equal((await fetch(`${baseUrl}/api/version`)).status, 200);
    const { models } = await (await fetch(`${baseUrl}/api/tags`)).json() as { models: { model: string }[] };
    const model = `${virtualModel}:latest`;
    assert.ok(models.some((one) => one.model === model));
    const response = await fetch(`${baseUrl}/api/chat`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ model, messages: question, stream: true, options: { num_predict: 16 } }),
    });
    assert.equal(response.status, 200);
    const lines = (await response.text()).trimEnd().split("\n").map((line) => JSON.parse(line));
    assert.ok(lines.slice(0, -1).every(({ done }) => done === false));
    assert.ok(lines.map(({ message }) => message.content).join("").length > 0);
    const last = lines.at(-1);
    assert.ok(last.done === true && last.eval_count > 0);
    const generated = await fetch(`${baseUrl}/api/generate`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ model, prompt: "Hi", stream: false, options: { num_predict: 16 } }),
    });
    const { response: text, done } = await generated.json() as { response: string; done: boolean };
    assert.ok(done && text.length > 0);
  });

  test("lm-eval's local-completions body gets one text per prompt at its index", async () => {
    const response = await fetch(`${target().baseUrl}/v1/completions`, {
      method: "POST",
      headers: { "content-type": "application/json", authorization: "Bearer" },
      body: JSON.stringify({
        prompt: ["Question: 1 + 1?\nAnswer:", "Question: 2 + 3?\nAnswer:"],
        model: target().virtualModel,
        max_tokens: 16,
        temperature: 0,
        stop: ["Question:", "</s>", "<|im_end|>"],
        seed: 1234,
      }),
    });
    assert.equal(response.status, 200);
    const body = await response.json() as { choices: { index: number; text: string }[] };
    assert.deepEqual(body.choices.map((choice) => choice.index).sort(), [0, 1]);
    for (const choice of body.choices) assert.equal(typeof choice.text, "string");
  });
}

/** Waits until the router's workers have no request in flight. */
async function idle(baseUrl: string): Promise<void> {
  await until("no request is in flight", async () => {
    const text = await (await fetch(`${baseUrl}/metrics`)).text();
    const inFlight = [...text.matchAll(/^canopy_worker_in_flight\{[^}]*\} (\d+)$/gm)].map((match) =>
      Number(match[1])
    );
    assert.ok(inFlight.length > 0, "the router's metrics show its workers");
    return inFlight.every((count) => count === 0);
  });
}
