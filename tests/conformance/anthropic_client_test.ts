import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import Anthropic, { BadRequestError, NotFoundError } from "@anthropic-ai/sdk";
import "../loopback.ts";
import { serveTree } from "./served_tree.ts";

// What Anthropic's own client must get from a served tree.

let served: Awaited<ReturnType<typeof serveTree>>;

before(async () => void (served = await serveTree()));

after(() => served.close());

const messages = [{ role: "user" as const, content: "What is 17 * 23? Show the steps." }];

function client(): Anthropic {
  return new Anthropic({ baseURL: served.target.baseUrl, apiKey: "none", maxRetries: 0 });
}

/** A request for the tree; `seed` and `temperature` go on as a chat has them. */
function asked(fields: object = {}) {
  return { model: served.target.virtualModel, max_tokens: 1024, messages, ...fields };
}

test("A message of the tree has a text, a reason to stop, and the usage of all its calls", async () => {
  const message = await client().messages.create(asked({ system: "Be brief." }));
  assert.equal(message.type, "message");
  assert.equal(message.model, served.target.virtualModel);
  const [block] = message.content;
  assert.ok(block?.type === "text" && block.text.length > 0);
  assert.ok(message.stop_reason === "end_turn" || message.stop_reason === "max_tokens");
  assert.ok(message.usage.input_tokens > 0 && message.usage.output_tokens > 0);
  assert.match(message._request_id ?? "", /^req_/);
});

test("The client's stream assembles what the plain request with a seed answers, event by event", async () => {
  const body = asked({ seed: 7, temperature: 0 });
  const plain = await client().messages.create(body);
  const stream = client().messages.stream(body);
  const types: string[] = [];
  let text = "";
  stream.on("text", (delta) => text += delta);
  for await (const event of stream) types.push(event.type);
  const final = await stream.finalMessage();
  assert.deepEqual(final.content, plain.content);
  assert.equal(final.stop_reason, plain.stop_reason);
  assert.deepEqual(plain.content.map((block) => block.type === "text" ? block.text : ""), [text]);
  assert.ok(final.usage.output_tokens > 0);
  assert.deepEqual(types.slice(0, 2), ["message_start", "content_block_start"]);
  assert.deepEqual(types.slice(-3), ["content_block_stop", "message_delta", "message_stop"]);
  assert.ok(types.filter((type) => type === "content_block_delta").length > 1);
});

test("max_tokens and stop_sequences end the tree's answer, each by its own reason", async () => {
  const short = await client().messages.create(asked({ max_tokens: 3 }));
  assert.equal(short.stop_reason, "max_tokens");
  const whole = await client().messages.create(asked({ seed: 3 }));
  const [block] = whole.content;
  const text = block?.type === "text" ? block.text : "";
  const stop = text.slice(10, 14);
  const cut = await client().messages.create(asked({ seed: 3, stop_sequences: [stop] }));
  assert.deepEqual(cut.content, [{ type: "text", text: text.slice(0, text.indexOf(stop)), citations: null }]);
  assert.deepEqual([cut.stop_reason, cut.stop_sequence], ["stop_sequence", stop]);
});

test("A conversation goes on with the blocks that it gave", async () => {
  const first = await client().messages.create(asked({ max_tokens: 8 }));
  const second = await client().messages.create(asked({
    messages: [...messages, { role: "assistant", content: first.content }, {
      role: "user",
      content: "Go on.",
    }],
  }));
  assert.ok(second.content.length > 0);
});

test("Wrong requests raise the client's own error classes, with a sentence that names the field", async () => {
  await assert.rejects(
    client().messages.create(asked({ model: "nobody" })),
    (error) => error instanceof NotFoundError && error.type === "not_found_error",
  );
  await assert.rejects(
    client().messages.create(asked({ temperature: 9 })),
    (error) => error instanceof BadRequestError && /temperature/.test(error.message),
  );
  await assert.rejects(
    client().messages.create(asked({ tools: [{ type: "bash_20250124", name: "bash" }] })),
    (error) => error instanceof BadRequestError && /tools\[0\]\.type/.test(error.message),
  );
});
