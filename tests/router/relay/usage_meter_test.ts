import assert from "node:assert/strict";
import { test } from "node:test";
import { atOnce } from "../../../base/turns.ts";
import { askingForUsage, hidesUsage, UsageMeter } from "../../../router/relay/usage_meter.ts";
import { CLEAN, JSON_HEAD, relayBench, responseOf, SSE } from "./fake_workers.ts";

const DONE = "data: [DONE]\n\n";
const bytes = (text: string) => new TextEncoder().encode(text);
const event = (data: unknown) => `data: ${JSON.stringify(data)}\n\n`;

test("the tokens of an answer are read in every form that engines have, and no text passes for them", () => {
  const answers: readonly (readonly [answer: object, tokens: number])[] = [
    [{ usage: { prompt_tokens: 7, completion_tokens: 5, total_tokens: 12 } }, 12],
    [{ type: "message", usage: { input_tokens: 4, output_tokens: 3 } }, 7],
    [{ data: [], usage: { prompt_tokens: 9, total_tokens: 9 } }, 9],
    [{ results: [], usage: { total_tokens: 6 } }, 6],
    [[{ text: "a", meta_info: { prompt_tokens: 3, completion_tokens: 2 } }, {
      text: "b",
      meta_info: { prompt_tokens: 4, completion_tokens: 1 },
    }], 10],
    [{
      choices: [{ text: '"usage":{"prompt_tokens":1000}' }],
      usage: { prompt_tokens: 1, completion_tokens: 1 },
    }, 2],
    [{ tokens: [1, 2, 3] }, 0],
    [{ usage: null }, 0],
    [{ abc: { prompt_tokens: 3 } }, 0],
  ];
  for (const [answer, tokens] of answers) {
    for (const indent of [0, 1]) {
      const meter = new UsageMeter(false);
      const text = JSON.stringify(answer, null, indent);
      assert.equal(new TextDecoder().decode(meter.answer(bytes(text))), text);
      assert.equal(meter.tokens, tokens, text);
    }
  }
});

test("a stream counts by its last report, each prompt of several by its own, and without any by its events", () => {
  const streams: readonly (readonly [events: readonly unknown[], tokens: number])[] = [
    [[{ choices: [{}], usage: null }, { choices: [{}] }, {
      choices: [],
      usage: { prompt_tokens: 8, completion_tokens: 2 },
    }], 10],
    [[{ type: "message_start", message: { usage: { input_tokens: 5, output_tokens: 0 } } }, {
      type: "message_delta",
      usage: { output_tokens: 4 },
    }], 9],
    [[{ type: "response.completed", response: { usage: { input_tokens: 2, output_tokens: 3 } } }], 5],
    [[
      { text: "a", meta_info: { prompt_tokens: 3, completion_tokens: 1 }, index: 0 },
      { text: "b", meta_info: { prompt_tokens: 4, completion_tokens: 1 }, index: 1 },
      { text: "aa", meta_info: { prompt_tokens: 3, completion_tokens: 2 }, index: 0 },
    ], 10],
    [[{ choices: [{}] }, { choices: [{}] }, { choices: [{}] }], 3],
  ];
  for (const [events, tokens] of streams) {
    const meter = new UsageMeter(false);
    for (const one of [...events.map((one) => event(one)), DONE]) meter.events(bytes(one));
    assert.equal(meter.tokens, tokens, JSON.stringify(events));
    const atOnce = new UsageMeter(false);
    atOnce.events(bytes(events.map((one) => event(one)).join("")));
    assert.equal(atOnce.tokens, tokens);
  }
});

test("a stream that is cut counts its events, and the prompt that its first one told", () => {
  const start = { type: "message_start", message: { usage: { input_tokens: 5, output_tokens: 1 } } };
  const delta = { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "x" } };
  const said = { text: "a", meta_info: { prompt_tokens: 3, completion_tokens: 4 }, index: 0 };
  const streams: readonly (readonly [events: readonly unknown[], tokens: number])[] = [
    [[start], 6],
    [[start, delta, delta, delta], 9],
    [
      [start, delta, delta, { type: "message_delta", usage: { output_tokens: 2 } }, { type: "message_stop" }],
      7,
    ],
    [[said], 7],
    [[said, { ...said, meta_info: { prompt_tokens: 3, completion_tokens: 9 } }], 12],
  ];
  for (const [events, tokens] of streams) {
    const texts = events.map((one) => event(one));
    for (const pieces of [texts, [texts.join("")]]) {
      const meter = new UsageMeter(false);
      for (const piece of pieces) meter.events(bytes(piece));
      assert.equal(meter.tokens, tokens, JSON.stringify(events));
    }
  }
});

test("a stream is asked for its usage, which a client that did not ask does not see", async () => {
  const body = '{"model":"m","stream":true,"stream_options":{"other":1}}';
  assert.ok(hidesUsage("/v1/chat/completions", JSON.parse(body)));
  assert.ok(!hidesUsage("/v1/chat/completions", { stream: true, stream_options: { include_usage: true } }));
  assert.ok(!hidesUsage("/v1/chat/completions", {}));
  assert.ok(!hidesUsage("/generate", { stream: true }));
  const asking = atOnce(askingForUsage(bytes(body), JSON.parse(body)));
  const delta = event({ model: "m", choices: [{ index: 0, delta: { content: "x" } }] });
  const usage = event({ model: "m", choices: [], usage: { prompt_tokens: 8, completion_tokens: 2 } });
  const cuts = [[delta + usage + DONE], [delta, usage, DONE], [
    delta + usage,
    DONE,
  ]];
  for (const pieces of cuts) {
    const bench = relayBench();
    bench.workers.scripts.set("a", [{ headers: SSE, body: pieces.map((send) => ({ send })) }]);
    const rewrite = new UsageMeter(true);
    const request = {
      method: "POST",
      path: "/v1/chat/completions",
      headers: {},
      body: asking,
      rewrite,
    } as const;
    const text = await bench.clock.run(async () =>
      await responseOf(await bench.relay.relay(bench.model, request, bench.gone.signal)).text()
    );
    assert.equal(text, delta + DONE);
    assert.equal(rewrite.tokens, 10);
    assert.deepEqual(JSON.parse(bench.workers.seen[0]!.body).stream_options, {
      other: 1,
      include_usage: true,
    });
    assert.deepEqual(bench.leaks(), CLEAN);
  }
});

test("an answer that comes in pieces is counted when it is whole", async () => {
  const bench = relayBench();
  const answer = '{"choices":[],"usage":{"prompt_tokens":30,"completion_tokens":12}}';
  bench.workers.scripts.set("a", [{
    headers: JSON_HEAD,
    body: [{ send: answer.slice(0, 25) }, { send: answer.slice(25) }],
  }]);
  const rewrite = new UsageMeter(false);
  const request = {
    method: "POST",
    path: "/v1/chat/completions",
    headers: {},
    body: bytes("{}"),
    rewrite,
  } as const;
  const text = await bench.clock.run(async () =>
    await responseOf(await bench.relay.relay(bench.model, request, bench.gone.signal)).text()
  );
  assert.equal(text, answer);
  assert.equal(rewrite.tokens, 42);
});
