import assert from "node:assert/strict";
import { test } from "node:test";
import { errorSchema } from "../../../../router/http/openai/response_schema.ts";
import { graphApp } from "./graph_app.ts";

const one = (fields: Record<string, unknown> = {}) => ({
  agents: { a: { model: "small", prompt: "A", ...fields } },
});
const pair = (a: Record<string, unknown>, b: Record<string, unknown>) => ({
  agents: { a: { model: "small", ...a }, b: { model: "small", ...b } },
});

/** Requests that cannot be served, with the field that is at fault and a part of the sentence. */
const refused: readonly [unknown, string, RegExp][] = [
  [{}, "agents", /required/],
  [{ agents: [] }, "agents", /object of agents/],
  [{ agents: {} }, "agents", /at least one/],
  [{ agents: { a: 5 } }, "agents.a", /must be an object/],
  [{ agents: { "a b": { model: "small", prompt: "A" } } }, "agents", /id "a b"/],
  [{ ...one(), temperature: 1 }, "temperature", /not a field of a graph/],
  [{ ...one(), toString: 1 }, "toString", /not a field of a graph/],
  [{ ...one(), stream: "yes" }, "stream", /true or false/],
  [{ ...one(), include: ["texts"] }, "include[0]", /one of/],
  [{ ...one(), deadline_ms: 0 }, "deadline_ms", /above 0/],
  [{ ...one(), min_responses: 2 }, "min_responses", /only 1/],
  [{ ...one(), root: "b" }, "root", /no such agent/],
  [{ ...one(), sampling: { top_p: 2 } }, "sampling.top_p", /at most 1/],
  [{ ...one(), sampling: { tools: [1] } }, "sampling.tools", /not supported/],
  [{ ...one(), early_exit: { metric: "q" } }, "early_exit.metric", /without a scorer/],
  [one({ early_exit: { metric: "q" } }), "agents.a.early_exit.metric", /without a scorer/],
  [one({ early_exit: { never_skip: ["z"] } }), "agents.a.early_exit.never_skip[0]", /no such agent/],
  [one({ early_exit: { verdict: { model: "z" } } }), "agents.a.early_exit.verdict.model", /not served/],
  [{ ...one(), early_exit: { never_skip: ["a", "z"] } }, "early_exit.never_skip[1]", /no such agent/],
  [one({ model: undefined }), "agents.a.model", /required/],
  [one({ model: "nope" }), "agents.a.model", /"nope"/],
  [one({ model: "hidden" }), "agents.a.model", /"hidden"/],
  [one({ model: "moa" }), "agents.a.model", /virtual model/],
  [one({ prompt: undefined }), "agents.a.prompt", /required/],
  [one({ prompt: "" }), "agents.a.prompt", /not be empty/],
  [one({ prompt: {} }), "agents.a.prompt", /"system"/],
  [one({ prompt: { text: "x", user: "y" } }), "agents.a.prompt", /raw prompt/],
  [one({ messages: [{ role: "user", content: "x" }] }), "agents.a.messages", /together with prompt/],
  [one({ prompt: null, messages: [] }), "agents.a.messages", /at least 1/],
  [one({ prompt: null, messages: [{ role: "user" }] }), "agents.a.messages[0].content", /required/],
  [
    one({
      prompt: null,
      messages: [{ role: "user", content: [{ type: "text", text: "<|answer:a|>" }, { type: "x" }] }],
    }),
    "agents.a.messages[0].content[0].text",
    /last part/,
  ],
  [one({ max_tokens: 0 }), "agents.a.max_tokens", /at least 1/],
  [one({ temperature: 3 }), "agents.a.temperature", /at most 2/],
  [one({ stop: ["a", "b", "c", "d", "e"] }), "agents.a.stop", /at most 4/],
  [one({ n: 2 }), "agents.a.n", /answers once/],
  [one({ stream: true }), "agents.a.stream", /not supported/],
  [one({ logprobs: true }), "agents.a.logprobs", /not supported/],
  [one({ tools: [{ type: "function", function: { name: "f" } }] }), "agents.a.tools", /not supported/],
  [one({ functions: [] }), "agents.a.functions", /not supported/],
  [one({ foo: 2 ** 60 }), "agents.a.foo", /2\^53/],
  [one({ deadline_ms: -1 }), "agents.a.deadline_ms", /above 0/],
  [one({ min_responses: 1 }), "agents.a.min_responses", /reads nobody/],
  [one({ prompt: "<|answer:b|>" }), "agents.a.prompt", /no such agent/],
  [one({ prompt: "<|answer:|>" }), "agents.a.prompt", /no such agent/],
  [one({ prompt: "<|answer:a|>" }), "agents.a.prompt", /cycle \(a → a /],
  [pair({ prompt: "<|answer:b|>" }, { prompt: "<|answer:a|>" }), "agents.a.prompt", /cycle \(a → b → a /],
  [pair({ prompt: "A" }, { prompt: "B", reads: ["a"] }), "agents.b.reads", /no place for its answer/],
  [pair({ prompt: "A" }, { prompt: "[responses]", reads: ["a", "a"] }), "agents.b.reads[1]", /again/],
  [pair({ prompt: "A" }, { prompt: "[responses]", reads: ["c"] }), "agents.b.reads[0]", /does not exist/],
  [
    pair({ prompt: "A" }, { prompt: "<|answer:a|>", min_responses: 2 }),
    "agents.b.min_responses",
    /reads only 1/,
  ],
  [{ ...pair({ prompt: "A" }, { prompt: "B" }), root: "a" }, "root", /read by nobody, too: b/],
  [one({ prompt: "<|answer:a|>".repeat(5000) }), "agents.a.prompt", /too many slots/],
  [
    { agents: Object.fromEntries(Array.from({ length: 1025 }, (_, at) => [`a${at}`, {}])) },
    "agents",
    /at most 1024/,
  ],
];

test("a graph that cannot be run is a 400 that names the field", async () => {
  const { clock, post, engines } = graphApp({ capabilities: { maxStopStrings: 4 } });
  await clock.run(async () => {
    for (const [body, param, message] of refused) {
      const response = await post("/v1/graph", body);
      const text = await response.text();
      assert.equal(response.status, 400, `${JSON.stringify(body).slice(0, 200)}: ${text}`);
      const { error } = errorSchema.parse(JSON.parse(text));
      assert.equal(error.param, param, text);
      assert.match(error.message, message);
      assert.equal(error.type, "invalid_request_error");
    }
  });
  for (const engine of engines.values()) assert.equal(engine.calls.length, 0);
});

test("a cycle is named, not what leads into it or out of it", async () => {
  const { clock, post } = graphApp();
  await clock.run(async () => {
    const prompt = (...reads: string[]) => ({
      model: "small",
      prompt: reads.map((id) => `<|answer:${id}|>`).join("-"),
    });
    const agents = {
      out: prompt("x"),
      x: prompt("in", "z"),
      y: prompt("x"),
      z: prompt("y"),
      in: { model: "small", prompt: "I" },
    };
    const { error } = errorSchema.parse(await (await post("/v1/graph", { agents })).json());
    assert.match(error.message, /agents\.x\.prompt is part of a cycle \(x → z → y → x read each other\)/);
  });
});

test("a prompt that cannot fit its model's context is refused before anything is sent", async () => {
  const { clock, post, engines } = graphApp({ capabilities: { contextTokens: 100, tokenIds: true } });
  await clock.run(async () => {
    const agents = {
      a: { model: "big", prompt: "A", max_tokens: 60 },
      b: { model: "big", prompt: `${"B ".repeat(60)}<|answer:a|>`, max_tokens: 50 },
    };
    const response = await post("/v1/graph", { agents });
    assert.equal(response.status, 400);
    const { error } = errorSchema.parse(await response.json());
    assert.equal(error.param, "agents.b.prompt");
    assert.equal(error.code, "context_length_exceeded");
  });
  assert.equal(engines.get("big")?.calls.length, 0);
});

test("what would kill an engine does not reach it", async () => {
  const models = { s: { model: "org/s", engine: "sglang" } };
  const { clock, post, engines } = graphApp({ models, capabilities: { version: "0.5.18" } });
  await clock.run(async () => {
    for (
      const [fields, param] of [
        [{ top_k: 2 ** 40 }, "top_k"],
        [{ repetition_penalty: 1e-60 }, "repetition_penalty"],
        [{ stop_token_ids: [-1] }, "stop_token_ids[0]"],
        [{ logit_bias: { "-5": 1 } }, "logit_bias.-5"],
        [{ token_ids_logprob: [1] }, "token_ids_logprob"],
        [{ bootstrap_room: 1 }, "bootstrap_room"],
      ] as const
    ) {
      const response = await post("/v1/graph", { agents: { a: { model: "s", prompt: "A", ...fields } } });
      assert.equal(response.status, 400, JSON.stringify(fields));
      assert.equal(errorSchema.parse(await response.json()).error.param, `agents.a.${param}`);
    }
  });
  assert.equal(engines.get("s")?.calls.length, 0);
});

test("ids that objects know otherwise, and texts that look like slots, are what they are", async () => {
  const { clock, post } = graphApp({ script: (prompt) => ({ pieces: [`(${prompt})`] }) });
  await clock.run(async () => {
    const body = `{"agents": {"__proto__": {"model": "small", "prompt": "P <|answer:"},
      "constructor": {"model": "small", "prompt": "C<|answer:__proto__|><|answer|>"},
      "8": {"model": "small", "prompt": "8 <|answer:constructor|> [input_prompts]"},
      "Füße/1": {"model": "small", "prompt": "F"}}}`;
    const response = await post("/v1/graph", JSON.parse(body));
    const text = await response.text();
    assert.equal(response.status, 200, text);
    const entries = Object.entries<{ text: string }>(JSON.parse(text).agents);
    assert.deepEqual(Object.fromEntries(entries.map(([id, agent]) => [`:${id}`, agent.text])), {
      ":8": "(8 (C(P <|answer:)<|answer|>) [input_prompts])",
      ":__proto__": "(P <|answer:)",
      ":constructor": "(C(P <|answer:)<|answer|>)",
      ":Füße/1": "(F)",
    });
  });
});

test("a text full of unfinished slots is read once", async () => {
  const { clock, post } = graphApp();
  await clock.run(async () => {
    const response = await post("/v1/graph", one({ prompt: "<|answer:".repeat(500_000) }));
    assert.equal(response.status, 200);
  });
});

test("a thousand agents in a row and a thousand in parallel are run", async () => {
  const { clock, post, assertIdle } = graphApp({ script: (prompt) => ({ pieces: [String(prompt.length)] }) });
  await clock.run(async () => {
    const agent = (prompt: string) => ({ model: "small", prompt });
    const chain = Object.fromEntries(
      Array.from({ length: 1024 }, (_, at) => [`n${at}`, agent(at === 0 ? "x" : `<|answer:n${at - 1}|>.`)])
        .reverse(),
    );
    assert.equal((await (await post("/v1/graph", { agents: chain })).json()).text, "2");
    const wide = Object.fromEntries(Array.from({ length: 1023 }, (_, at) => [`n${at}`, agent("x")]));
    const all = Object.keys(wide).map((id) => `<|answer:${id}|>`).join("");
    const response = await post("/v1/graph", { agents: { ...wide, root: agent(all) }, root: "root" });
    assert.equal((await response.json()).text, "1023");
  });
  assertIdle();
});
