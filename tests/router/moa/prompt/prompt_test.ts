import assert from "node:assert/strict";
import { test } from "node:test";
import { anyCharacter, fc } from "../../../properties.ts";
import { builtinPrompts } from "../../../../cfgs/prompts/builtin.ts";
import { type PromptConfig, promptSchema } from "../../../../cfgs/schema/config.ts";
import type { ChatMessage } from "../../../../ml/tokenizers/chat_message.ts";
import type { RunInput } from "../../../../router/moa/graph/run_input.ts";
import { parseTemplate } from "../../../../router/moa/graph/template.ts";
import type { AgentAnswer } from "../../../../router/moa/prompt/answer.ts";
import { fillPrompt, openPrompt } from "../../../../router/moa/prompt/open_prompt.ts";

const two = [{ agent: "l1.c1.a1", text: "four" }, { agent: "l1.c1.a2", text: "five" }];

function fill(config: unknown, question: RunInput["question"], answers: readonly AgentAnswer[] = []) {
  return fillPrompt(openPrompt(parseTemplate(promptSchema.parse(config)), question), answers);
}

/** The messages of a chat prompt for a conversation. */
function chat(config: unknown, messages: readonly ChatMessage[], answers: readonly AgentAnswer[] = []) {
  const prompt = fill(config, { kind: "chat", messages }, answers);
  assert.ok(prompt.kind === "chat");
  return prompt.messages;
}

const user = (content: string): ChatMessage => ({ role: "user", content });

test("a template without user text leaves the client's conversation as it is", () => {
  const messages: ChatMessage[] = [
    { role: "system", content: "Be brief." },
    {
      role: "user",
      content: [{ type: "text", text: "What?" }, { type: "image_url", image_url: { url: "data:" } }],
    },
    { role: "assistant", content: null, tool_calls: [{ id: "1", type: "function" }] },
    { role: "tool", tool_call_id: "1", content: "3" },
    { role: "user", content: "So?", name: "bob", pieces: [], base: {}, kind: "open" },
  ];
  assert.deepEqual(chat(builtinPrompts["propose"], messages), messages);
});

test("system text goes to the end of the client's system message, or makes one", () => {
  const config = { system: "Combine:\n[responses]" };
  assert.deepEqual(chat(config, [user("q")], two), [
    { role: "system", content: "Combine:\n1. four\n\n2. five" },
    user("q"),
  ]);
  assert.deepEqual(chat(config, [{ role: "developer", content: "Be brief.", name: "x" }, user("q")], two), [
    { role: "developer", content: "Be brief.\n\nCombine:\n1. four\n\n2. five", name: "x" },
    user("q"),
  ]);
  const part = { type: "text", text: "Be brief." };
  assert.deepEqual(chat(config, [{ role: "system", content: [part] }, user("q")], two)[0], {
    role: "system",
    content: [part, { type: "text", text: "\n\nCombine:\n1. four\n\n2. five" }],
  });
});

test("appended text ends the user's last message, or makes one behind what a tool has said", () => {
  const config = { append: "Combine:\n[responses]" };
  const text = "Combine:\n1. four\n\n2. five";
  const system: ChatMessage = { role: "system", content: "Be brief." };
  const call: ChatMessage = { role: "assistant", content: null, tool_calls: [{ id: "1", type: "function" }] };
  const tool: ChatMessage = { role: "tool", tool_call_id: "1", content: "3" };
  const beginning: ChatMessage = { role: "assistant", content: "The answer is" };
  const image = { type: "image_url", image_url: { url: "data:" } };
  assert.deepEqual(chat(config, [system, user("a"), beginning, user("q")], two), [
    system,
    user("a"),
    beginning,
    user(`q\n\n${text}`),
  ]);
  assert.deepEqual(chat(config, [{ role: "user", content: [image], name: "bob" }], two), [
    { role: "user", content: [image, { type: "text", text: `\n\n${text}` }], name: "bob" },
  ]);
  assert.deepEqual(chat(config, [user("q"), call, tool], two), [user("q"), call, tool, user(text)]);
  assert.deepEqual(chat(config, [user("q"), beginning], two), [user(`q\n\n${text}`), beginning]);
  assert.deepEqual(chat(config, [system], two), [system, user(text)]);
  assert.deepEqual(chat(config, [beginning], two), [user(text), beginning]);
});

test("a prompt that both replaces the conversation and goes on with it is refused", () => {
  const parsed = promptSchema.safeParse({ user: "a", append: "b" });
  assert.match(JSON.stringify(parsed.error?.issues), /both user.*and append/);
});

test("user text stands in for the conversation, and keeps its images and system message", () => {
  const image = { type: "image_url", image_url: { url: "data:" } };
  const messages: ChatMessage[] = [
    { role: "system", content: "Be brief." },
    { role: "user", content: [image, { type: "text", text: "What is it?" }], name: "bob" },
  ];
  assert.deepEqual(chat("Q: [input_prompts] R: [responses]", messages, two), [
    { role: "system", content: "Be brief." },
    {
      role: "user",
      name: "bob",
      content: [image, { type: "text", text: "Q: What is it? R: 1. four\n\n2. five" }],
    },
  ]);
});

test("a conversation of several turns becomes a transcript where a template asks for the question", () => {
  const messages: ChatMessage[] = [
    { role: "system", content: "Be brief." },
    user("2+2?"),
    { role: "assistant", content: "4", tool_calls: [{ id: "1" }] },
    user("sure?"),
  ];
  const transcript = 'User: 2+2?\n\nAssistant: 4\n{"id":"1"}\n\nUser: sure?';
  assert.deepEqual(chat("[input_prompts]", messages), [messages[0]!, user(transcript)]);
  assert.deepEqual(fill({ text: "[input_prompts]|" }, { kind: "chat", messages }), {
    kind: "text",
    text: `Be brief.\n\n${transcript}|`,
  });
});

test("a raw question becomes a user message in a chat prompt and stays raw in a raw one", () => {
  const question = { kind: "text", text: "why?" } as const;
  assert.deepEqual(fill(builtinPrompts["propose"], question), { kind: "chat", messages: [user("why?")] });
  assert.deepEqual(fill({ text: "<s>[input_prompts]" }, question), { kind: "text", text: "<s>why?" });
});

test("answers are written as the format says; one that is missing or empty leaves no gap", () => {
  const config = { text: "[responses]", responses: { item: "([index]/[agent]) [answer]", separator: " | " } };
  const answers = [{ agent: "x", text: "" }, ...two];
  assert.deepEqual(fill(config, { kind: "text", text: "" }, answers), {
    kind: "text",
    text: "(1/l1.c1.a1) four | (2/l1.c1.a2) five",
  });
  assert.deepEqual(fill({ text: "a<|answer:l1.c1.a2|>b<|answer:gone|>c" }, { kind: "text", text: "" }, two), {
    kind: "text",
    text: "afivebc",
  });
});

test("text from users and models never opens a slot, whatever is in it", () => {
  const nasty = fc.stringMatching(/^[a$&`'\\[\]<>|_:.0-9]*$/);
  const text = fc.oneof(
    fc.string({ unit: anyCharacter }),
    fc.array(
      fc.constantFrom(
        "[responses]",
        "[input_prompts]",
        "<|answer:a|>",
        "<|answer:b|>",
        "[answer]",
        "[index]",
        "$&",
        "$1",
      ),
    ).map((parts) => parts.join("")),
    nasty,
  );
  const template = promptSchema.parse({
    system: "S[input_prompts]|[responses]|",
    user: "U<|answer:b|>|[input_prompts]|<|answer:a|>|[responses]",
    responses: { item: "[index][agent]=[answer]", separator: ";" },
  });
  fc.assert(
    fc.property(text, text, text, text, (system, question, a, b) => {
      const messages = [{ role: "system", content: system }, user(question)];
      const answers = [{ agent: "a", text: a }, { agent: "b", text: b }];
      const list = answers.filter((answer) => answer.text !== "").map((answer, at) =>
        `${at + 1}${answer.agent}=${answer.text}`
      )
        .join(";");
      assert.deepEqual(chat(template, messages, answers), [
        { role: "system", content: `${system === "" ? "" : `${system}\n\n`}S${question}|${list}|` },
        user(`U${b}|${question}|${a}|${list}`),
      ]);
    }),
    { numRuns: 300 },
  );
});

test("every template is the join of its segments: parsing loses nothing", () => {
  const piece = fc.constantFrom(
    "[responses]",
    "[input_prompts]",
    "<|answer:l1.c1.a1|>",
    "<|answer:",
    "|>",
    "[",
    "x\n",
  );
  fc.assert(fc.property(fc.array(piece).map((pieces) => pieces.join("")), (text) => {
    const template = parseTemplate({ text, responses: { item: "", separator: "" } });
    assert.ok(template.kind === "raw");
    const written = template.text.map((segment) => {
      if (segment.kind === "literal") return segment.text;
      if (segment.kind === "answer") return `<|answer:${segment.agent}|>`;
      return segment.kind === "question" ? "[input_prompts]" : "[responses]";
    });
    assert.equal(written.join(""), text);
  }));
});

test("what stands before the first slot does not depend on the answers", () => {
  const config: PromptConfig = promptSchema.parse({
    text: "Fixed: [input_prompts] <|answer:a|> [responses]",
  });
  fc.assert(fc.property(fc.string(), fc.string(), (question, answer) => {
    const prompt = fill(config, { kind: "text", text: question }, [{ agent: "a", text: answer }]);
    assert.ok(prompt.kind === "text");
    assert.ok(prompt.text.startsWith(`Fixed: ${question} ${answer}`));
  }));
});
