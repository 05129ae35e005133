import assert from "node:assert/strict";
import { test } from "node:test";
import type { ChatMessage } from "../../../../ml/tokenizers/chat_message.ts";
import { makeWorld, readAll } from "../run_harness.ts";

const image = { type: "image_url", image_url: { url: "data:image/png;base64,AAAA" } };
const seen: ChatMessage[] = [
  { role: "system", content: "Be brief." },
  { role: "user", content: [{ type: "text", text: "What is this?" }, image] },
];

const layers = (
  prompt: string,
) => [{ agents: [{ model: "a", prompt }] }, { agents: [{ model: "a", prompt }] }];

test("a part that a plain text prompt cannot hold is refused by its name, in MoA-vllm's format too", async () => {
  const prompts = { plain: { text: "Q: [input_prompts] [responses]" } };
  for (const compat of [undefined, "moa-vllm"]) {
    const world = makeWorld({ graph: { compat, layers: layers("plain") }, prompts });
    await world.clock.run(() => {
      assert.throws(() => world.start({ question: { kind: "chat", messages: seen } }), {
        status: 400,
        code: "unsupported_content",
        param: "messages[1].content[1]",
        message: /^messages\[1\]\.content\[1\] is of type "image_url", and the prompt of agent l1\.c1\.a1/,
      });
      return Promise.resolve();
    });
    assert.equal(world.engines.get("a")?.calls.length, 0);
  }
});

test("a chat prompt passes parts on", async () => {
  const prompts = { user: { user: "Q: [input_prompts] [responses]" } };
  const world = makeWorld({ graph: { layers: layers("user") }, prompts });
  await world.clock.run(async () => {
    await readAll(world.start({ question: { kind: "chat", messages: seen } }));
    for (const { request } of world.engines.get("a")?.calls ?? []) {
      assert.ok(JSON.stringify(request.prompt).includes("data:image/png;base64,AAAA"));
    }
  });
});
