import assert from "node:assert/strict";
import { test } from "node:test";
import { fc, often, SEED } from "../../properties.ts";
import { anthropicMessageSchema } from "../../../router/http/anthropic/response_schema.ts";
import {
  ollamaAnswerSchema,
  ollamaGeneratedSchema,
  ollamaShownSchema,
} from "../../../router/http/ollama/response_schema.ts";
import { responseSchema } from "../../../router/http/responses/response_schema.ts";
import { fakeApp } from "./fakes.ts";

const BODIES = often(100);

const junk = fc.oneof(
  fc.constantFrom<unknown>(null, true, false, 0, -1, 0.5, 2 ** 53, "", "x", "auto", [], {}, [null], [{}]),
  fc.jsonValue({ maxDepth: 2 }),
);
/** Mostly what is right for a field, sometimes anything. */
const field = (...right: unknown[]) =>
  fc.oneof({ weight: 10, arbitrary: fc.constantFrom(...right) }, { weight: 1, arbitrary: junk });
const listOf = (item: fc.Arbitrary<unknown>) =>
  fc.oneof({ weight: 10, arbitrary: fc.array(item, { minLength: 1, maxLength: 3 }) }, {
    weight: 1,
    arbitrary: junk,
  });

const type = field("text", "input_text", "image", "tool_use", "tool_result", "thinking", "document");
const part = fc.record({
  type,
  text: field("x"),
  id: field("c"),
  name: field("f"),
  tool_use_id: field("c"),
  content: field("x", [{ type: "text", text: "x" }]),
  source: field({ type: "url", url: "data:," }, { type: "text", data: "x" }),
}, { requiredKeys: ["type", "text"] });
const message = fc.record({
  role: field("user", "user", "assistant", "system"),
  content: fc.oneof(field("Hi"), listOf(part)),
});
const item = fc.record({
  type: field("message", "message", "function_call", "function_call_output", "reasoning"),
  role: field("user", "assistant"),
  content: fc.oneof(field("Hi"), listOf(part)),
  call_id: field("c"),
  name: field("f"),
  arguments: field("{}"),
  output: field("x"),
}, { requiredKeys: ["role", "content"] });

const shared = {
  stream: field(false, null, true),
  temperature: field(0, 1, null),
  metadata: field(null, {}),
  canopy: field(null, { include: ["usage"] }),
};

const requests = fc.oneof(
  fc.record({
    path: fc.constant("/v1/responses"),
    body: fc.record({
      ...shared,
      model: fc.constant("moa"),
      input: fc.oneof(field("Hi"), listOf(item)),
      instructions: field("x", null),
      reasoning: field(null, { summary: "concise" }, { effort: "low" }),
      text: field(null, { format: { type: "json_object" } }),
      tools: field([], [{ type: "function", name: "f" }]),
      tool_choice: field("auto", "none"),
      include: field([], null),
      store: field(false, null),
    }, { requiredKeys: ["model", "input"] }),
  }),
  fc.record({
    path: fc.constant("/v1/messages"),
    body: fc.record({
      ...shared,
      model: fc.constant("moa"),
      max_tokens: field(9),
      messages: listOf(message),
      system: field("x", [{ type: "text", text: "x" }]),
      tools: field([], [{ name: "f", input_schema: {} }]),
      tool_choice: field({ type: "none" }, { type: "auto" }),
      thinking: field({ type: "enabled" }, null),
      output_config: field(null, { effort: "low" }),
    }, { requiredKeys: ["model", "messages", "max_tokens"] }),
  }),
  fc.record({
    path: fc.constant("/api/chat"),
    body: fc.record({
      model: fc.constant("moa"),
      stream: shared.stream,
      messages: listOf(fc.record({ role: field("user", "tool", "assistant"), content: field("Hi") })),
      options: field({}, null, { seed: 1, num_predict: 5 }),
      format: field("json", null, {}),
      think: field(true, false),
    }, { requiredKeys: ["model", "messages"] }),
  }),
  fc.record({
    path: fc.constant("/api/generate"),
    body: fc.record({
      model: fc.constant("moa"),
      stream: shared.stream,
      prompt: field("Hi", "Hi", "", null),
      system: field("", "Be brief", null),
      images: field([], null, ["iVBORw0="]),
      options: field({}, null, { seed: 1, num_predict: 5, temperature: 0, top_p: 1, stop: ["x"] }),
      format: field("json", null, "", {}),
      think: field(true, false, "low"),
      raw: field(false, null),
      template: field("", null),
      suffix: field("", null),
      context: field([], null),
      keep_alive: field("5m", 0),
    }, { requiredKeys: ["model"] }),
  }),
  fc.record({
    path: fc.constant("/api/show"),
    body: fc.record({
      model: field("moa", "moa:latest"),
      name: field("moa"),
      verbose: field(true),
      options: field({}),
    }, { requiredKeys: [] }),
  }),
);

const ANSWERS = {
  "/v1/responses": responseSchema,
  "/v1/messages": anthropicMessageSchema,
  "/api/chat": ollamaAnswerSchema,
  "/api/generate": ollamaGeneratedSchema,
  "/api/show": ollamaShownSchema,
} as const;

test(`${BODIES} bodies in the words of other APIs give only 2xx and 4xx, each 4xx with a sentence`, async () => {
  const { post, moa } = fakeApp();
  moa.remember = false;
  const counts = { answered: 0, refused: 0 };
  await fc.assert(
    fc.asyncProperty(requests, async ({ path, body }) => {
      const response = await post(path, body);
      const text = await response.text();
      if (response.status === 200) {
        counts.answered++;
        if (response.headers.get("content-type") !== "application/json") return;
        const schema = Object.entries(ANSWERS).find(([one]) => one === path)?.[1];
        schema?.parse(JSON.parse(text));
        return;
      }
      counts.refused++;
      assert.ok(response.status >= 400 && response.status < 500, `${response.status}: ${text}`);
      const { error } = JSON.parse(text);
      assert.ok((typeof error === "string" ? error : error.message).length > 0, text);
    }),
    { numRuns: BODIES, seed: SEED },
  );
  assert.ok(counts.answered > BODIES / 10, JSON.stringify(counts));
  assert.ok(counts.refused > BODIES / 10, JSON.stringify(counts));
});
