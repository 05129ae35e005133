import { fc } from "../../../properties.ts";

const junk = fc.oneof(
  fc.constantFrom<unknown>(
    null,
    true,
    false,
    0,
    1,
    -1,
    2,
    0.5,
    17,
    1e308,
    2 ** 53,
    -(2 ** 60),
    "",
    "x",
    "auto",
    [],
    {},
  ),
  fc.constantFrom<unknown>([[]], [null], [""], ["a", "b"], [1, 2], [[1], [2]], [-1], [1e9], { type: "text" }),
  fc.constantFrom<unknown>(
    { type: "json_schema" },
    { include_usage: true },
    { include: ["panel"] },
    "\ud800",
    "\u0000",
  ),
  fc.jsonValue({ maxDepth: 2 }),
);

/** Mostly what is right for a field, sometimes anything. */
const field = (right: fc.Arbitrary<unknown>) =>
  fc.oneof({ weight: 12, arbitrary: right }, { weight: 1, arbitrary: junk });
const pick = (...values: unknown[]) => field(fc.constantFrom(...values));

const message = field(
  fc.record({
    role: pick("user", "assistant", "system", "tool", "developer"),
    content: pick("Hi", "", null, [{ type: "text", text: "x" }], [{
      type: "image_url",
      image_url: { url: "data:," },
    }]),
    name: pick("n", null),
    tool_calls: pick(null, [{ id: "c", type: "function", function: { name: "f", arguments: "{}" } }]),
  }, { requiredKeys: ["role", "content"] }),
);

const common = {
  model: fc.oneof({ weight: 30, arbitrary: fc.constant<unknown>("moa") }, { weight: 1, arbitrary: junk }),
  stream: pick(true, false, null),
  n: pick(1, 2, 16, null),
  max_tokens: pick(1, 100, null),
  max_completion_tokens: pick(1, null),
  temperature: pick(0, 1, 2, null),
  top_p: pick(1, 0.5, null),
  top_k: pick(-1, 20),
  min_p: pick(0, 0.1),
  frequency_penalty: pick(0, -2),
  presence_penalty: pick(0, 2),
  repetition_penalty: pick(1, 1.1),
  seed: pick(1, -1, 1234, null),
  stop: pick("a", [], ["a", "b", "c", "d", "e"], null),
  logit_bias: pick({ "1": -100 }, {}, null),
  response_format: pick({ type: "text" }, { type: "json_object" }, {
    type: "json_schema",
    json_schema: { name: "x" },
  }),
  canopy: pick({ include: ["usage", "panel", "trace"] }, {}, null),
  user: junk,
  metadata: junk,
  ignore_eos: pick(true),
};

const unknownFields = fc.dictionary(
  fc.oneof(
    fc.constantFrom("__proto__", "constructor", "toString", "rid", "echo", "suffix", "text"),
    fc.string(),
  ),
  junk,
  { maxKeys: 2, noNullPrototype: true },
);

/** A body whose every optional field is there with a small chance, so that many bodies are good. */
function bodyOf(
  required: Record<string, fc.Arbitrary<unknown>>,
  optional: Record<string, fc.Arbitrary<unknown>>,
) {
  const names = Object.keys(optional);
  const some = fc.subarray(names, { maxLength: 6 }).chain((chosen) =>
    fc.record(Object.fromEntries(chosen.map((name) => [name, optional[name]!])))
  );
  const extra = fc.oneof({ weight: 4, arbitrary: fc.constant({}) }, { weight: 1, arbitrary: unknownFields });
  return fc.tuple(fc.record(required), some, extra).map(([base, fields, more]) =>
    JSON.stringify({ ...more, ...base, ...fields })
  );
}

const { model, ...optional } = common;
const chatBody = bodyOf({ model, messages: field(fc.array(message, { minLength: 1, maxLength: 3 })) }, {
  ...optional,
  logprobs: pick(true, false, null),
  top_logprobs: pick(0, 5, null),
  tools: pick([{ type: "function", function: { name: "f" } }], [], null),
  tool_choice: pick("none", "auto", { type: "function", function: { name: "f" } }),
  parallel_tool_calls: pick(true),
});
const completionBody = bodyOf({ model, prompt: pick("Hi", ["a", "b"], [1, 2, 3], [[1], [2, 3]]) }, {
  ...optional,
  logprobs: pick(0, 1, 20, null),
  echo: pick(true, false, null),
  best_of: pick(1, null),
  suffix: pick("", null),
});

/** Bodies that are cut, spliced, or no JSON at all. */
const damaged = fc.tuple(fc.oneof(chatBody, completionBody), fc.nat(), fc.string({ maxLength: 3 })).map(
  ([text, at, mark]) => {
    const position = at % (text.length + 1);
    return text.slice(0, position) + mark + text.slice(position + (at % 3));
  },
);
const raw = fc.oneof(damaged, fc.string(), fc.json({ maxDepth: 2 }), fc.uint8Array({ maxLength: 30 }));

/** Requests on the OpenAI routes for the model `moa`: path and body; about half of them are good. */
export const openAiRequest: fc.Arbitrary<[string, string | Uint8Array<ArrayBuffer>]> = fc.oneof(
  { weight: 9, arbitrary: fc.tuple(fc.constant("/v1/chat/completions"), chatBody) },
  { weight: 9, arbitrary: fc.tuple(fc.constant("/v1/completions"), completionBody) },
  { weight: 2, arbitrary: fc.tuple(fc.constantFrom("/v1/chat/completions", "/v1/completions"), raw) },
);
