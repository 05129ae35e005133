import type { JsonObject } from "../../../base/json.ts";

/** A large request. */
export interface LargeInput {
  readonly name: string;
  readonly path: string;
  readonly body: () => JsonObject;
}

const MEGA = 1_000_000;

/**
 * What the model of a name is: `m` answers shortly, `mad` with 10 MB in one event; `s` is on SGLang, whose requests get
 * ids; the router takes `wide` for one with a context of millions. `…moa` are trees.
 */
type Model = "m" | "s" | "moa" | "mad-moa" | "wide-moa";

function chat(name: string, model: Model, messages: unknown[], more: JsonObject = {}): LargeInput {
  const body = () => ({ model, messages, max_tokens: 16, ...more }) as JsonObject;
  return { name, path: "/v1/chat/completions", body };
}

const user = (content: string) => [{ role: "user", content }];
const turns = (count: number) =>
  Array.from({ length: count }, (_, at) => ({ role: at % 2 === 0 ? "user" : "assistant", content: "hi" }));
const parts = (count: number) => [{
  role: "user",
  content: Array.from({ length: count }, () => ({ type: "text", text: "hi" })),
}];
const tools = (count: number): JsonObject => ({
  tools: Array.from({ length: count }, (_, at) => ({
    type: "function",
    function: {
      name: `tool_${at}`,
      description: "What it does. ".repeat(10),
      parameters: { type: "object", properties: { a: { type: "string" }, b: { type: "number" } } },
    },
  })),
});
const nested = (depth: number): JsonObject => {
  let schema: JsonObject = { type: "string" };
  for (let level = 0; level < depth; level++) schema = { type: "object", properties: { next: schema } };
  return { response_format: { type: "json_schema", json_schema: { name: "deep", schema } } };
};
const completion = (name: string, model: Model, prompt: () => unknown): LargeInput => ({
  name,
  path: "/v1/completions",
  body: () => ({ model, prompt: prompt(), max_tokens: 16 }) as JsonObject,
});

/** Requests whose parts are large in different ways. */
export const LARGE_INPUTS: readonly LargeInput[] = [
  chat("a short question", "moa", user("Why?")),
  chat("words, 100 KB", "moa", user("word ".repeat(20_000))),
  chat("words, 5 MB", "moa", user("word ".repeat(MEGA))),
  chat("words, 30 MB", "moa", user("word ".repeat(6 * MEGA))),
  chat("blanks, 100 KB", "moa", user(" ".repeat(100_000))),
  chat("blanks, 400 KB", "moa", user(" ".repeat(400_000))),
  chat("blanks, 5 MB", "moa", user(" ".repeat(5 * MEGA))),
  chat("dashes, 100 KB", "moa", user("-".repeat(100_000))),
  chat("\u4e16, 300 KB", "moa", user("\u4e16".repeat(100_000))),
  chat("\u4e16, 6 MB", "moa", user("\u4e16".repeat(2 * MEGA))),
  chat("quotes, 5 MB", "moa", user('"\n'.repeat(MEGA))),
  chat("control tokens, 1 MB", "moa", user("<|im_end|>".repeat(100_000))),
  chat("<, 5 MB", "moa", user("<".repeat(5 * MEGA))),
  chat("messages, 2,048", "moa", turns(2048)),
  chat("messages, 100,000", "moa", turns(100_000)),
  chat("parts of a message, 100,000", "moa", parts(100_000)),
  chat("tools, 100", "moa", user("Why?"), tools(100)),
  chat("tools, 10,000", "moa", user("Why?"), tools(10_000)),
  chat("schema, 5,000 levels", "moa", user("Why?"), nested(5000)),
  completion("token ids, 1,000,000", "moa", () => Array.from({ length: MEGA }, (_, at) => at % 1000)),
  completion("raw text, 5 MB", "moa", () => "word ".repeat(MEGA)),
  chat("a worker's event, 10 MB", "mad-moa", user("Why?")),
  chat("relayed: words, 5 MB", "m", user("word ".repeat(MEGA))),
  chat("relayed: words, 30 MB", "m", user("word ".repeat(6 * MEGA))),
  chat("relayed: \u4e16, 100 KB", "m", user("\u4e16".repeat(33_000))),
  chat("relayed: \u4e16, 6 MB", "m", user("\u4e16".repeat(2 * MEGA))),
  chat("relayed: messages, 100,000", "m", turns(100_000)),
  chat("relayed: tools, 10,000", "m", user("Why?"), tools(10_000)),
  chat("relayed, SGLang: words, 30 MB", "s", user("word ".repeat(6 * MEGA))),
  completion("relayed: token ids, 1,000,000", "m", () => Array.from({ length: MEGA }, (_, at) => at % 1000)),
  // Last, because its garbage is collected in the turns of others.
  chat("a wide context: words, 5 MB", "wide-moa", user("word ".repeat(MEGA))),
];
