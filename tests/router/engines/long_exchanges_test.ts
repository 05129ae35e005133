import assert from "node:assert/strict";
import { test } from "node:test";
import { VirtualClock } from "../../../base/clock.ts";
import type { JsonObject } from "../../../base/json.ts";
import type { OutgoingRequest } from "../../../base/transport.ts";
import type { MemoryHandler } from "../../../router/transport/memory.ts";
import { EngineError } from "../../../router/worker/engine_error.ts";
import { collect, engineOver, eventStream, never, placement, textRequest } from "./harness.ts";

/** A clock that counts the turns that were taken. */
class CountingClock extends VirtualClock {
  turns = 0;

  override sleep(ms: number, signal?: AbortSignal): Promise<void> {
    if (ms === 0) this.turns++;
    return super.sleep(ms, signal);
  }
}

const MEGABYTES = 3;
const TEXT = 'line\n"\u4e16" '.repeat(MEGABYTES * 100_000);

const encoder = new TextEncoder();

/** An engine that answers with these bytes, some at a time. */
const answered = (type: string, bytes: Uint8Array): MemoryHandler => () => {
  async function* body(): AsyncGenerator<Uint8Array> {
    for (let at = 0; at < bytes.length; at += 50_000) {
      yield await Promise.resolve(bytes.subarray(at, at + 50_000));
    }
  }
  return Promise.resolve({ status: 200, headers: { "content-type": type }, body: body() });
};

const choice = (text: string, finish: string | null = null): JsonObject => ({
  choices: [{ index: 0, text, finish_reason: finish }],
});

const generation = (length: number, finish: JsonObject | null = null): JsonObject => ({
  text: TEXT.slice(0, length),
  output_ids: Array(Math.ceil(length / 10)).fill(7),
  meta_info: {
    prompt_tokens: 1,
    completion_tokens: Math.ceil(length / 10),
    cached_tokens: 0,
    finish_reason: finish,
  },
});

async function answerOf(
  engine: "vllm" | "sglang",
  events: readonly (string | JsonObject)[],
  capabilities = {},
): Promise<{ text: string; tokens: number; turns: number }> {
  const clock = new CountingClock();
  const one = engineOver(engine, eventStream(events), { clock, capabilities });
  const { text, usage } = await clock.run(() => collect(one.engine.generate(textRequest, placement, never)));
  return { text, tokens: usage?.completionTokens ?? 0, turns: clock.turns };
}

test("an event of megabytes is read in many turns, and says what it says", async () => {
  const { text, turns } = await answerOf("vllm", [choice(TEXT), choice(" end", "stop"), "[DONE]"]);
  assert.ok(text === `${TEXT} end`);
  assert.ok(turns > 3 * MEGABYTES, `${turns} turns`);
});

test("long events of SGLang are read in turns whether they repeat what was said or not", async () => {
  const stop = { type: "stop", matched: 2 };
  for (const incrementalStream of [false, undefined]) {
    const lengths = [1000, 1_500_000, 1_500_010, TEXT.length];
    const events = [...lengths.map((length) => generation(length)), generation(TEXT.length, stop), "[DONE]"];
    const { text, tokens, turns } = await answerOf("sglang", events, { incrementalStream });
    assert.ok(text === TEXT, `incremental: ${incrementalStream}`);
    assert.equal(tokens, TEXT.length / 10);
    assert.ok(turns > MEGABYTES, `${turns} turns`);
  }
});

test("a long event that is not JSON is an invalid answer", async () => {
  for (
    const data of [`${JSON.stringify(choice(TEXT)).slice(0, -2)}`, `[${"[".repeat(400_000)}`, `"${TEXT}`]
  ) {
    await assert.rejects(
      () => answerOf("vllm", [data.replaceAll("\n", " ")]),
      (error) => error instanceof EngineError && error.message.includes("an event of its stream is not"),
    );
  }
});

test("a long event that is not UTF-8 has U+FFFD where a short one has", async () => {
  const bytes = encoder.encode(`data: ${JSON.stringify(choice(`~${TEXT}`, "stop"))}\n\ndata: [DONE]\n\n`);
  bytes[bytes.indexOf("~".charCodeAt(0))] = 0xff;
  const clock = new VirtualClock();
  const { engine } = engineOver("vllm", answered("text/event-stream", bytes), { clock });
  const { text } = await clock.run(() => collect(engine.generate(textRequest, placement, never)));
  assert.ok(text === `\ufffd${TEXT}`);
});

test("a whole answer of megabytes, from a server that does not stream, is read in turns", async () => {
  const clock = new CountingClock();
  const bytes = encoder.encode(JSON.stringify(choice(TEXT, "stop")));
  const { engine } = engineOver("vllm", answered("application/json", bytes), { clock });
  const { text } = await clock.run(() => collect(engine.generate(textRequest, placement, never)));
  assert.ok(text === TEXT);
  assert.ok(clock.turns > 3 * MEGABYTES, `${clock.turns} turns`);
});

const manyIds = {
  ...textRequest,
  prompt: { kind: "tokens", ids: Array.from({ length: 300_000 }, (_, at) => at % 1000) },
} as const;

test("a prompt of many token ids is written to an engine in turns, and not at all once nobody wants it", async () => {
  for (const kind of ["vllm", "sglang"] as const) {
    const clock = new CountingClock();
    const sent: OutgoingRequest[] = [];
    const { engine } = engineOver(kind, (request, signal) => {
      sent.push(request);
      return eventStream([choice("a", "stop"), generation(4, { type: "stop" })])(request, signal);
    }, { clock });
    await clock.run(async () => {
      await collect(engine.generate(manyIds, placement, never)).catch(() => {});
      const left = new AbortController();
      const leaving = collect(engine.generate(manyIds, placement, left.signal));
      left.abort(new Error("left"));
      await assert.rejects(leaving, /left/);
    });
    assert.equal(sent.length, 1);
    const body = sent[0]?.body;
    assert.ok(body instanceof Uint8Array);
    const { prompt, input_ids: inputIds } = JSON.parse(new TextDecoder().decode(body));
    assert.deepEqual(prompt ?? inputIds, manyIds.prompt.ids);
    assert.ok(clock.turns >= 4, `${clock.turns} turns`);
  }
});
