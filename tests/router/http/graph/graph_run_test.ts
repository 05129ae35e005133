import assert from "node:assert/strict";
import { test } from "node:test";
import { graphAnswerSchema, graphChunkSchema } from "../../../../router/http/graph/response_schema.ts";
import { errorSchema } from "../../../../router/http/openai/response_schema.ts";
import { EngineError } from "../../../../router/worker/engine_error.ts";
import { parseEvents } from "../fakes.ts";
import { graphApp } from "./graph_app.ts";

/** Says its prompt in brackets, so that answers show what was read. */
const echo = (prompt: string) => ({ pieces: ["[", prompt, "]"], startMs: 5, stepMs: 1 });

const diamond = {
  a: { model: "small", prompt: "A" },
  b: { model: "big", prompt: { system: "S", user: "B after <|answer:a|>" } },
  c: { model: "small", prompt: { text: "C after <|answer:a|>" } },
  d: {
    model: "big",
    messages: [{ role: "user", content: "D of <|answer:b|> and <|answer:c|>, <|answer:b|>" }],
  },
};

function refusal(status: number): EngineError {
  return new EngineError(`The worker said ${status}`, {
    code: "worker_refused",
    status,
    workerUrl: "http://w1",
    workerStatus: status,
    retryable: false,
  });
}

test("agents read each other's answers where their prompts have slots, as soon as these are there", async () => {
  const { app, clock, post, assertIdle, engines } = graphApp({ script: echo });
  await clock.run(async () => {
    const response = await post("/v1/graph", { agents: diamond, include: ["prompts", "trace"] });
    assert.equal(response.status, 200);
    const graph = graphAnswerSchema.parse(await response.json());
    const texts = Object.fromEntries(Object.entries(graph.agents).map(([id, agent]) => [id, agent.text]));
    const [b, c] = ["[S\nB after [A]]", "[C after [A]]"];
    assert.deepEqual(texts, { a: "[A]", b, c, d: `[D of ${b} and ${c}, ${b}]` });
    assert.deepEqual(graph.outputs, ["d"]);
    assert.equal(graph.text, texts["d"]);
    assert.deepEqual(graph.agents["c"]?.prompt, { kind: "text", text: "C after [A]" });
    assert.deepEqual(graph.agents["d"]?.timing, { started_ms: 16, first_token_ms: 21, ended_ms: 24 });
    assert.deepEqual(graph.agents["d"]?.usage, {
      prompt_tokens: 10,
      completion_tokens: 3,
      total_tokens: 13,
      completion_tokens_details: { reasoning_tokens: 0 },
    });
    assert.equal(graph.usage.total_tokens, 4 * 13);
    assert.equal(graph.trace?.at(-1)?.["type"], "run_done");
    assert.equal(response.headers.get("x-canopy-run-id"), graph.id);
    assert.equal(engines.get("small")?.calls.length, 2);

    const record = await (await app.request(`/v1/runs/${graph.id}`)).json();
    assert.equal(record.graph, "(request)");
    assert.equal(record.state, "done");
    assert.deepEqual(record.agents.map((agent: { id: string }) => agent.id), ["a", "b", "c", "d"]);
    const metrics = await (await app.request("/metrics")).text();
    assert.match(metrics, /canopy_requests_total\{model="\(request\)",outcome="ok"\} 1/);
    assert.match(metrics, /canopy_agent_calls_total\{model="big"\} 2/);
  });
  assertIdle();
});

test("agents that nobody reads are outputs; independent ones run side by side", async () => {
  const { clock, post } = graphApp({ script: echo });
  await clock.run(async () => {
    const agents = { x: { model: "small", prompt: "X" }, y: { model: "big", prompt: "Y" }, z: diamond.a };
    const graph = graphAnswerSchema.parse(await (await post("/v1/graph", { agents })).json());
    assert.deepEqual(graph.outputs, ["x", "y", "z"]);
    assert.equal(graph.text, null);
    assert.deepEqual(Object.values(graph.agents).map((agent) => agent.timing.started_ms), [0, 0, 0]);
  });
});

test("[responses] holds the answers of the agents in `reads`, and is plain text without them", async () => {
  const { clock, post } = graphApp({ script: (prompt) => ({ pieces: [`(${prompt})`] }) });
  await clock.run(async () => {
    const agents = {
      a: { model: "small", prompt: "A [responses] [input_prompts]" },
      b: { model: "small", prompt: "B" },
      c: {
        model: "small",
        reads: ["b", "a"],
        prompt: { user: "All:\n[responses]" },
        responses: { item: "[index]/[agent]: [answer]", separator: "; " },
      },
    };
    const graph = graphAnswerSchema.parse(await (await post("/v1/graph", { agents, root: "c" })).json());
    assert.equal(graph.text, "(All:\n1/b: (B); 2/a: (A [responses] [input_prompts]))");
  });
});

test("slots may be in several messages, and in the last part of a list; what models say is never searched", async () => {
  const { clock, post, engines } = graphApp({
    script: (prompt) => ({ pieces: [prompt === "A" ? "<|answer:a|> [responses]" : "fine"] }),
  });
  const image = { type: "image_url", image_url: { url: "data:," } };
  const messages = [
    { role: "system", content: "Sys <|answer:a|>" },
    { role: "user", content: [image, { type: "text", text: "See <|answer:a|>!" }] },
    { role: "assistant", content: "Hm <|answer:" },
    { role: "user", content: "Go on", name: "bob" },
  ];
  await clock.run(async () => {
    const agents = { a: { model: "small", prompt: "A" }, b: { model: "small", messages } };
    assert.equal((await post("/v1/graph", { agents })).status, 200);
    const said = "<|answer:a|> [responses]";
    assert.deepEqual(engines.get("small")?.calls[1]?.request.prompt, {
      kind: "chat",
      messages: [
        { role: "system", content: `Sys ${said}` },
        { role: "user", content: [image, { type: "text", text: `See ${said}!` }] },
        messages[2],
        messages[3],
      ],
    });
  });
});

test("parameters come from the model, then from `sampling`, then from the agent; unknown ones reach the engine", async () => {
  const models = {
    m: { model: "org/m", engine: "openai", sampling: { temperature: 0.1, top_p: 0.2, seed: 3 } },
  };
  const { clock, post, engines } = graphApp({ models });
  await clock.run(async () => {
    const agents = {
      a: { model: "m", prompt: "A", temperature: 0.5, ignore_eos: true, user: "u", n: 1, stream: false },
      b: { model: "org/m", prompt: "B", max_completion_tokens: 7, stop: "x" },
    };
    const sampling = { temperature: 0.4, top_p: 0.3, max_tokens: 9, min_tokens: 2 };
    assert.equal((await post("/v1/graph", { agents, sampling, user: "u", metadata: {} })).status, 200);
    assert.deepEqual(engines.get("m")?.calls.map((call) => call.request.sampling), [
      { temperature: 0.5, top_p: 0.3, seed: 3, max_tokens: 9, extra: { min_tokens: 2, ignore_eos: true } },
      { temperature: 0.4, top_p: 0.3, seed: 3, max_tokens: 7, stop: ["x"], extra: { min_tokens: 2 } },
    ]);
  });
});

test("a stream has every agent's text as it comes, each one's end, and the usage at last", async () => {
  const { clock, post, assertIdle } = graphApp({ script: echo });
  await clock.run(async () => {
    const response = await post("/v1/graph", { agents: diamond, stream: true, include: ["trace"] });
    assert.equal(response.headers.get("content-type"), "text/event-stream");
    const events = parseEvents(await response.text());
    assert.equal(events.pop(), "[DONE]");
    const chunks = events.map((event) => graphChunkSchema.parse(event));
    const whole = graphAnswerSchema.parse(await (await post("/v1/graph", { agents: diamond })).json());
    const texts: Record<string, string> = {};
    const ended: string[] = [];
    for (const chunk of chunks.slice(0, -1)) {
      assert.ok(chunk.type !== "done");
      assert.ok(!ended.includes(chunk.agent), `${chunk.agent} goes on after its end`);
      if (chunk.type === "delta") texts[chunk.agent] = (texts[chunk.agent] ?? "") + chunk.text;
      else {
        ended.push(chunk.agent);
        const { text: _, model: __, ...end } = whole.agents[chunk.agent]!;
        const { id: _1, object: _2, created: _3, type: _4, agent: _5, ...body } = chunk;
        assert.deepEqual(body, end);
      }
    }
    assert.deepEqual(ended, ["a", "b", "c", "d"]);
    for (const [id, agent] of Object.entries(whole.agents)) assert.equal(texts[id], agent.text);
    const last = chunks.at(-1);
    assert.ok(last?.type === "done");
    assert.deepEqual(last.usage, whole.usage);
    assert.deepEqual(last.outputs, ["d"]);
    assert.equal(last.trace?.at(-1)?.["type"], "run_done");
  });
  assertIdle();
});

test("an agent that fails takes along those that read it, and nobody else", async () => {
  const { clock, post, assertIdle, engines } = graphApp({
    script: (prompt) =>
      prompt === "bad"
        ? { pieces: ["x"], startMs: 10, failAt: { piece: 0, error: refusal(500) } }
        : prompt === "slow"
        ? { pieces: ["x"], startMs: 1000 }
        : { pieces: [prompt], startMs: 50 },
  });
  const agents = {
    bad: { model: "small", prompt: "bad" },
    deep: { model: "small", prompt: "slow" },
    slow: { model: "small", prompt: "after <|answer:deep|>" },
    reader: { model: "big", prompt: "<|answer:bad|><|answer:slow|>" },
    last: { model: "big", prompt: "<|answer:reader|>" },
    lenient: { model: "big", prompt: "<|answer:bad|>+<|answer:other|>", min_responses: 1 },
    other: { model: "small", prompt: "other" },
  };
  for (const stream of [false, true]) {
    await clock.run(async () => {
      const began = clock.now();
      const response = await post("/v1/graph", { agents, stream });
      assert.equal(response.status, 200);
      const text = await response.text();
      assert.ok(clock.now() - began < 1000, "nothing waits for what nobody reads any more");
      if (stream) {
        const ends = parseEvents(text).slice(0, -2).map((event) => graphChunkSchema.parse(event))
          .flatMap((chunk) => chunk.type === "end" ? [`${chunk.agent} ${chunk.state}`] : []);
        assert.deepEqual(ends.sort(), [
          "bad failed",
          "deep cancelled",
          "last failed",
          "lenient done",
          "other done",
          "reader failed",
          "slow cancelled",
        ]);
        return;
      }
      const graph = graphAnswerSchema.parse(JSON.parse(text));
      assert.deepEqual(graph.outputs, ["last", "lenient"]);
      assert.equal(graph.agents["lenient"]?.text, "+other");
      assert.match(graph.agents["bad"]?.error ?? "", /The worker said 500/);
      assert.match(
        graph.agents["last"]?.error ?? "",
        /Cluster last.reads needs 1 of 1 answers.*agent reader/,
      );
      assert.equal(graph.agents["slow"]?.usage, null);
    });
    assertIdle();
  }
  assert.deepEqual(engines.get("big")?.calls.length, 2);
});

test("without enough outputs the request fails with the status of what went wrong, streamed or not", async () => {
  const cases = [
    { statuses: [400], status: 400 },
    { statuses: [503], status: 503 },
    { statuses: [500], status: 502 },
    { statuses: [400, 422], status: 400 },
    { statuses: [400, 500], status: 502 },
  ];
  for (const { statuses, status } of cases) {
    for (const stream of [false, true]) {
      const { clock, post, assertIdle, app } = graphApp({
        script: (prompt) => ({ pieces: [], failAt: { piece: 0, error: refusal(Number(prompt)) } }),
      });
      await clock.run(async () => {
        const agents = Object.fromEntries(
          statuses.map((prompt) => [`a${prompt}`, { model: "small", prompt: String(prompt) }]),
        );
        const response = await post("/v1/graph", { agents, stream });
        assert.equal(response.status, status);
        const { error } = errorSchema.parse(await response.json());
        assert.match(error.message, /agent a\d+ \(model small\)/);
        const { data } = await (await app.request("/v1/runs")).json();
        assert.equal(data[0].state, "failed");
      });
      assertIdle();
    }
  }
});

test("min_responses asks for so many outputs", async () => {
  const { clock, post } = graphApp({
    script: (prompt) =>
      prompt === "bad" ? { pieces: [], failAt: { piece: 0, error: refusal(500) } } : echo(prompt),
  });
  await clock.run(async () => {
    const agents = { a: { model: "small", prompt: "bad" }, b: { model: "small", prompt: "B" } };
    assert.equal((await post("/v1/graph", { agents })).status, 200);
    assert.equal((await post("/v1/graph", { agents, min_responses: 2 })).status, 502);
  });
});

test("a failure inside a stream is its last event, without [DONE]", async () => {
  const { clock, post, assertIdle } = graphApp({
    script: () => ({ pieces: ["x", "y"], failAt: { piece: 1, error: refusal(500) } }),
  });
  await clock.run(async () => {
    const response = await post("/v1/graph", {
      agents: { a: { model: "small", prompt: "A" } },
      stream: true,
    });
    assert.equal(response.status, 200);
    const events = parseEvents(await response.text());
    assert.equal(graphChunkSchema.parse(events[0]).type, "delta");
    assert.equal(errorSchema.parse(events.at(-1)).error.code, "worker_refused");
  });
  assertIdle();
});

test("deadlines cut an agent or all of it", async () => {
  const { clock, post, assertIdle } = graphApp({
    script: (prompt) => ({ pieces: [prompt, "more"], startMs: 10, stepMs: 1000 }),
  });
  await clock.run(async () => {
    const agents = {
      a: { model: "small", prompt: "A", deadline_ms: 100, on_deadline: "use_partial" },
      b: { model: "small", prompt: "B <|answer:a|>" },
      c: { model: "small", prompt: "C", deadline_ms: 100 },
    };
    const graph = graphAnswerSchema.parse(await (await post("/v1/graph", { agents })).json());
    assert.deepEqual(
      Object.values(graph.agents).map((agent) => [agent.state, agent.text, agent.finish_reason]),
      [["done", "A", "length"], ["failed", "C", null], ["done", "B Amore", "stop"]],
    );
    const late = await post("/v1/graph", { agents, deadline_ms: 500 });
    assert.equal(late.status, 504);
    assert.equal(errorSchema.parse(await late.json()).error.code, "deadline_exceeded");
  });
  assertIdle();
});

test("a client that leaves stops every agent, whether its answer is streamed or not", async () => {
  for (const how of ["whole", "before a stream", "inside a stream", "cancelled stream"] as const) {
    const { app, clock, post, assertIdle, engines } = graphApp({
      script: (prompt) => ({
        pieces: [prompt, "x"],
        startMs: how === "before a stream" ? 1e6 : 0,
        stepMs: 1e6,
      }),
    });
    await clock.run(async () => {
      const client = new AbortController();
      const agents = { a: { model: "small", prompt: "A" }, b: { model: "big", prompt: "B" } };
      const pending = post("/v1/graph", { agents, stream: how !== "whole" }, { signal: client.signal });
      if (how === "inside a stream" || how === "cancelled stream") {
        const reader = (await pending).body!.getReader();
        await reader.read();
        if (how === "inside a stream") client.abort();
        else await reader.cancel();
      } else {
        await clock.sleep(1);
        assert.equal(engines.get("big")?.active, 1);
        client.abort();
        assert.equal((await pending).status, 499);
      }
      await clock.sleep(1);
      const metrics = await (await app.request("/metrics")).text();
      assert.match(metrics, /canopy_places_in_use 0/);
      assert.match(metrics, /canopy_requests_in_flight 0/);
      assert.ok(clock.now() < 1000);
    });
    assertIdle();
  }
});

test("a stream that is read slowly slows no agent", async () => {
  const pieces = Array.from({ length: 500 }, (_, at) => `${at} `);
  const { clock, post, assertIdle, engines } = graphApp({ script: () => ({ pieces, stepMs: 1 }) });
  await clock.run(async () => {
    const response = await post("/v1/graph", {
      agents: { a: { model: "small", prompt: "A" } },
      stream: true,
    });
    await clock.sleep(2000);
    assert.equal(engines.get("small")?.sent, 500);
    const events = parseEvents(await response.text());
    assert.ok(events.length < 40, `${events.length} events`);
    const text = events.slice(0, -1).map((event) => graphChunkSchema.parse(event))
      .map((chunk) => chunk.type === "delta" ? chunk.text : "").join("");
    assert.equal(text, pieces.join(""));
  });
  assertIdle();
});

test("graphs need a key, hold a place, wait their turn, and are refused while draining", async () => {
  const { clock, post, drain, assertIdle } = graphApp({
    script: () => ({ pieces: ["x"], startMs: 10 }),
    server: { api_keys: ["k"], max_running: 1, max_queued: 1 },
  });
  const body = { agents: { a: { model: "small", prompt: "A" } } };
  const init = { headers: { authorization: "Bearer k" } };
  await clock.run(async () => {
    assert.equal((await post("/v1/graph", body)).status, 401);
    const first = post("/v1/graph", body, init);
    const second = post("/v1/graph", body, init);
    await clock.sleep(1);
    assert.equal((await post("/v1/graph", body, init)).status, 429);
    assert.equal((await first).status, 200);
    assert.equal((await second).status, 200);
    void drain.drain();
    assert.equal((await post("/v1/graph", body, init)).status, 503);
  });
  assertIdle();
});

test("a run of a graph can be cancelled by its id", async () => {
  const { app, clock, post, moa, assertIdle } = graphApp({ script: () => ({ pieces: ["x"], hangAt: 0 }) });
  await clock.run(async () => {
    const pending = post("/v1/graph", { agents: { a: { model: "small", prompt: "A" } } });
    await clock.sleep(1);
    const { id } = moa.list()[0]!;
    assert.equal((await app.request(`/v1/runs/${id}`, { method: "DELETE" })).status, 200);
    assert.equal((await pending).status, 499);
  });
  assertIdle();
});
