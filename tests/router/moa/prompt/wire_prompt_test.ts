import assert from "node:assert/strict";
import { test } from "node:test";
import { CanopyError } from "../../../../base/errors.ts";
import type { ChatMessage } from "../../../../ml/tokenizers/chat_message.ts";
import { ControlTokens, unmarked } from "../../../../ml/tokenizers/control_tokens.ts";
import type { ModelTokenizer } from "../../../../ml/tokenizers/model_tokenizer.ts";
import type { Prompt } from "../../../../router/engines/engine.ts";
import { characterTokenizer, makeWorld, readAll, type WorldOptions } from "../run_harness.ts";

const agent = { model: "a" };

/** The prompts that a two-layer graph sends for a request. */
async function sent(
  options: Partial<WorldOptions>,
  messages: readonly ChatMessage[],
  extra?: Record<string, string[]>,
): Promise<Prompt[]> {
  const world = makeWorld({
    graph: { layers: [{ agents: [agent, agent] }, { agents: [agent] }] },
    capabilities: { tokenIds: true },
    tokenizer: characterTokenizer,
    ...options,
  });
  await world.clock.run(async () => {
    const rootSampling = extra === undefined ? {} : { extra };
    await readAll(world.start({ question: { kind: "chat", messages }, rootSampling }));
  });
  return world.engines.get("a")!.calls.map((call) => call.request.prompt);
}

const question: ChatMessage[] = [{ role: "user", content: "why?" }];
const ids = (text: string): Prompt => ({ kind: "tokens", ids: characterTokenizer.encode(text) });

test("chat prompts go as the ids of the model's own template where the engine takes ids", async () => {
  const prompts = await sent({}, question);
  assert.deepEqual(prompts[0], ids("<user>why?<assistant>"));
  assert.deepEqual(prompts[2], ids("<user>Final. Q: why?\nA:\n1. ok\n\n2. ok<assistant>"));
  assert.equal(prompts[0], prompts[1], "equal leaf prompts are tokenised once");
});

test("raw prompts go as text, because the engine adds the BOS token, and text parts are flattened for the template", async () => {
  const raw = await sent({
    graph: { layers: [{ agents: [{ ...agent, prompt: "raw" }] }] },
    prompts: { raw: { text: "<s>[input_prompts]" } },
  }, question);
  assert.deepEqual(raw, [{ kind: "text", text: "<s>why?" }]);
  const flat = await sent(
    { graph: { layers: [{ agents: [{ ...agent, prompt: "as_is" }] }] }, prompts: { as_is: {} } },
    [{ role: "user", content: [{ type: "text", text: "a" }, { type: "text", text: "b" }] }],
  );
  assert.deepEqual(flat, [ids("<user>a\nb<assistant>")]);
});

test("prompts stay as they are where the engine takes no ids or no tokenizer is known", async () => {
  for (
    const options of [{ capabilities: {} }, { tokenizer: { ...characterTokenizer, hasChatTemplate: false } }]
  ) {
    assert.deepEqual((await sent(options, question))[0], { kind: "chat", messages: question });
  }
});

test("tools and images need the engine's chat endpoint; tools only at the root", async () => {
  const tools = await sent({}, question, { tools: ["t"] });
  assert.deepEqual(tools.map((prompt) => prompt.kind), ["tokens", "tokens", "chat"]);
  const image = [{
    role: "user",
    content: [{ type: "image_url", image_url: "x" }, { type: "text", text: "what?" }],
  }];
  assert.deepEqual((await sent({}, image)).map((prompt) => prompt.kind), ["chat", "chat", "chat"]);
  const called = [...question, { role: "assistant", content: "", tool_calls: [] }];
  assert.equal(
    (await sent({ prompts: { propose: {}, synthesize: { system: "[responses]" } } }, called))[0]?.kind,
    "chat",
  );
});

test("only a prompt that fits in no case is refused before anything is sent, whatever max_tokens say", () => {
  const graph = {
    layers: [{ agents: [agent, agent], sampling: { max_tokens: 500 } }, { agents: [agent] }],
  };
  const world = makeWorld({
    graph,
    modelFields: { context_tokens: 2000 },
    capabilities: { tokenIds: true },
    tokenizer: characterTokenizer,
  });
  const start = (length: number, maxTokens: number) => () => {
    const messages = [{ role: "user", content: "x".repeat(length) }];
    world.start({ question: { kind: "chat", messages }, rootSampling: { max_tokens: maxTokens } });
  };
  // "<user>Final. Q: " + question + "\nA:\n" + "<assistant>" are 31 tokens and the question's.
  assert.throws(start(1969, 1), (error) => {
    assert.ok(CanopyError.is(error));
    assert.deepEqual([error.status, error.code, error.param], [400, "context_length_exceeded", "messages"]);
    assert.match(
      error.message,
      /l2\.c1\.a1 .* context of 2000 tokens, and messages .* take 2000 .*: shorten messages$/,
    );
    return true;
  });
  assert.equal(world.engines.get("a")!.calls.length, 0);
  assert.doesNotThrow(start(1968, 100_000));
  assert.throws(() => world.start({ question: { kind: "text", text: "x".repeat(3000) } }), {
    param: "prompt",
  });
});

test("long prompts are made in turns of the event loop, and are the same", async () => {
  const graph = {
    layers: [{ agents: [agent, agent] }, { agents: [agent] }],
    incremental_prefill: { mode: "on" },
  };
  const question = "Why? <user>".repeat(20_000);
  const world = makeWorld({ graph, capabilities: { tokenIds: true }, tokenizer: characterTokenizer });
  const messages = [{ role: "user", content: question }];
  const run = world.start({ question: { kind: "chat", messages } });
  const { calls } = world.engines.get("a")!;
  // The turn in which it was started makes none of them.
  assert.equal(calls.length, 0);
  await world.clock.run(() => run.ended);
  const prompts = calls.map(({ request: { prompt } }) => prompt);
  assert.equal(prompts.length, 3);
  for (const prompt of prompts) {
    assert.ok(prompt.kind === "tokens");
    const text = prompt.ids.map((id) => String.fromCodePoint(id)).join("");
    assert.ok(text.includes(question), text.slice(0, 100));
  }
  world.assertIdle();
});

test("a conversation of many messages is rendered in a thread, whatever it is rendered for", async () => {
  const messages: ChatMessage[] = Array.from({ length: 2048 }, (_, at) => ({
    role: at % 2 === 0 ? "user" : "assistant",
    content: "<assistant>?",
  }));
  let rendered = 0;
  const { renderChat, encode, decode } = characterTokenizer;
  const streaming = { open: () => assert.fail("the thread has all texts") };
  const tokenizer: ModelTokenizer = {
    ...characterTokenizer,
    streaming,
    control: { all: new ControlTokens(["<assistant>"]), special: new ControlTokens([]) },
    encode: (text) => {
      assert.ok(text.length < 1000, "a long text is encoded on the event loop");
      return encode(text);
    },
    renderChat: (conversation) => {
      assert.ok(conversation.length < 100, "a long conversation is rendered on the event loop");
      return renderChat(conversation);
    },
    longTexts: {
      encode: ({ text }) => {
        const known = encode(unmarked(text));
        return Promise.resolve({ ids: known, tokens: known.length, state: undefined, over: false });
      },
      decode: (known) => Promise.resolve(decode(known)),
      render: (conversation) => {
        rendered++;
        return Promise.resolve(renderChat(conversation));
      },
      start() {},
    },
  };
  const asIs = { ...agent, prompt: "as_is" };
  const prompts = await sent({
    tokenizer,
    graph: { layers: [{ agents: [asIs, asIs] }, { agents: [agent] }], incremental_prefill: { mode: "off" } },
    prompts: { as_is: {} },
  }, messages);
  assert.deepEqual(prompts[0], ids(renderChat(messages)));
  assert.ok(rendered > 0);
});
