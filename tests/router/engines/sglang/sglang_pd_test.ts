import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "../../../properties.ts";
import { CanopyError } from "../../../../base/errors.ts";
import { Random } from "../../../../base/random.ts";
import { TransportError } from "../../../../base/transport.ts";
import type { GenerateRequest, WarmResult } from "../../../../router/engines/engine.ts";
import {
  bootstrapFields,
  bootstrapLists,
  fakeBootstrapWarms,
  newRoom,
} from "../../../../router/engines/sglang/bootstrap.ts";
import { EngineError } from "../../../../router/worker/engine_error.ts";
import { isHandOffFailure } from "../../../../router/worker/pair_call.ts";
import { DECODED, FakePair, PREFILLED, token } from "../fake_pair.ts";
import { chatRequest, collect, type Collected, never, textRequest } from "../harness.ts";

/** Runs the clock until the promise settles. */
async function settled<T>(pair: FakePair, promise: Promise<T>): Promise<T> {
  let open = true;
  promise.then(() => open = false, () => open = false);
  while (open) await pair.clock.advance(pair.clock.now() + 10);
  return await promise;
}

function generated(
  pair: FakePair,
  request: GenerateRequest = textRequest,
  signal: AbortSignal = never,
): Promise<Collected> {
  return settled(pair, collect(pair.engine.generate(request, pair.at, signal)));
}

async function failure(pair: FakePair, request: GenerateRequest = textRequest): Promise<CanopyError> {
  try {
    await generated(pair, request);
  } catch (error) {
    assert.ok(CanopyError.is(error), String(error));
    return error;
  }
  throw new Error("the request was answered");
}

async function idle(pair: FakePair): Promise<void> {
  await pair.clock.advance(pair.clock.now() + 5_000);
  assert.equal(pair.transport.inFlight, 0, "an exchange is left open");
  assert.equal(pair.clock.pendingTimers, 0, "a timer is left");
}

test("both servers get the same body at once, and decode's answer is the answer", async () => {
  const pair = new FakePair();
  const all = await generated(pair);
  assert.equal(all.text, "AB");
  assert.deepEqual(all.tokenIds, [100, 101]);
  assert.deepEqual(all.usage, { promptTokens: 5, completionTokens: 2, cachedTokens: 3 });
  assert.deepEqual(pair.sent.map(({ half, path }) => `${half} ${path}`), [
    "prefill /generate",
    "decode /generate",
  ]);
  const [prefill, decode] = pair.sent.map(({ body }) => body);
  assert.deepEqual(prefill, decode);
  assert.equal(prefill?.bootstrap_host, "prefill");
  assert.equal(prefill?.bootstrap_port, 8998);
  assert.ok(Number.isSafeInteger(prefill?.bootstrap_room) && Number(prefill?.bootstrap_room) > 0);
  assert.match(String(prefill?.rid), /^canopy-[0-9a-f]{32}$/);
  assert.deepEqual(pair.log, ["prefill released ok"]);
  await idle(pair);
});

test("conversations go to the chat endpoint of both, fields and id included", async () => {
  const chunk = (delta: Record<string, string>, finish: string | null = null) => ({
    choices: [{ index: 0, delta, finish_reason: finish }],
  });
  const pair = new FakePair();
  pair.answers.prefill = pair.stream("prefill", [chunk({ content: "A" }), chunk({}, "length"), "[DONE]"]);
  pair.answers.decode = pair.stream("decode", [
    chunk({ content: "A" }),
    chunk({ content: "B" }, "stop"),
    "[DONE]",
  ]);
  assert.equal((await generated(pair, chatRequest)).text, "AB");
  const [prefill, decode] = pair.sent;
  assert.equal(prefill?.path, "/v1/chat/completions");
  assert.deepEqual(prefill?.body, decode?.body);
  assert.ok(prefill?.body.rid !== undefined && prefill.body.bootstrap_room !== undefined);
});

test("every attempt has a room and an id of its own", async () => {
  const pair = new FakePair();
  for (let i = 0; i < 20; i++) await generated(pair);
  const bodies = pair.bodies("decode");
  assert.equal(new Set(bodies.map((body) => body.bootstrap_room)).size, 20);
  assert.equal(new Set(bodies.map((body) => body.rid)).size, 20);
});

test("a slow prefill answer gates nothing: decode's first token comes before it", async () => {
  const pair = new FakePair();
  pair.answers.prefill = pair.stream("prefill", PREFILLED, 400);
  const events = pair.engine.generate(textRequest, pair.at, never)[Symbol.asyncIterator]();
  const first = events.next();
  await pair.clock.advance(2);
  assert.equal((await first).value?.type, "delta");
  const second = events.next();
  const end = events.next();
  await pair.clock.advance(20);
  assert.equal((await second).value?.type, "delta");
  assert.equal((await end).value?.type, "end");
  assert.deepEqual(pair.log, []);
  await settled(pair, events.next());
  assert.deepEqual(pair.log, ["prefill released ok"]);
  await idle(pair);
});

test("that the prompt has been read is known when prefill has answered, whatever decode does then", async () => {
  const pair = new FakePair();
  pair.answers.decode = pair.stream("decode", DECODED, 500);
  await generated(pair, textRequest);
  assert.ok(pair.readAtMs !== undefined && pair.readAtMs < 20, `${pair.readAtMs} ms`);
  await idle(pair);
});

test("a prefill server that never says it is done costs a second, not an answer", async () => {
  const pair = new FakePair();
  pair.answers.prefill = pair.hanging("prefill");
  assert.equal((await generated(pair)).text, "AB");
  assert.deepEqual(pair.log, ["prefill abort"]);
  assert.ok(pair.clock.now() < 1_500, `${pair.clock.now()} ms`);
  await idle(pair);
});

test("a prefill server that refuses ends the request at once with its status, and decode is aborted", async () => {
  const pair = new FakePair();
  pair.answers.prefill = pair.json(400, { error: { message: "The input is too long." } });
  pair.answers.decode = pair.hanging("decode");
  const error = await failure(pair);
  assert.equal(error.status, 400);
  assert.match(error.message, /too long/);
  assert.deepEqual(pair.log, ["decode abort"]);
  assert.ok(pair.clock.now() < 100, `${pair.clock.now()} ms`);
  await idle(pair);
});

test("a decode server that refuses ends the request at once with its status, and prefill is aborted", async () => {
  const pair = new FakePair();
  pair.answers.prefill = pair.hanging("prefill");
  pair.answers.decode = pair.json(503, { object: "error", message: "The request queue is full.", code: 503 });
  const error = await failure(pair);
  assert.equal(error.status, 503);
  assert.ok(error instanceof EngineError && error.retryable && error.workerUrl === "http://decode:2");
  assert.deepEqual(pair.log, ["prefill abort"]);
  await idle(pair);
});

test("a server that fails is blamed alone; the other half is not", async () => {
  const prefill = new FakePair();
  prefill.answers.prefill = () => Promise.reject(new TransportError("connect_failed", "http://prefill:1"));
  prefill.answers.decode = prefill.hanging("decode");
  const error = await failure(prefill);
  assert.ok(error instanceof EngineError && error.retryable && error.workerUrl === "http://prefill:1");
  assert.deepEqual(prefill.log, ["prefill released failed", "decode abort"]);
  const decode = new FakePair();
  decode.answers.prefill = decode.hanging("prefill");
  decode.answers.decode = decode.json(500, { object: "error", message: "boom", code: 500 });
  assert.equal((await failure(decode)).status, 502);
  assert.deepEqual(decode.log, ["decode released failed", "prefill abort"]);
});

test("a hand-off that fails is blamed on both halves: neither server knows whose fault it was", async () => {
  const pair = new FakePair();
  const message =
    "Decode transfer failed for request rank=0 with exception KVTransferError(bootstrap_room=1)";
  const aborted = token("", 0, { type: "abort", message, status_code: 500, err_type: null });
  pair.answers.decode = pair.stream("decode", [aborted, "[DONE]"]);
  pair.answers.prefill = pair.hanging("prefill");
  const error = await failure(pair);
  assert.ok(error instanceof EngineError && error.retryable);
  assert.deepEqual(pair.log.slice(0, 2), ["prefill released failed", "decode released failed"]);
  assert.ok(pair.log.includes("prefill abort"));
});

test("an error event inside prefill's stream is its failure, and so is a stream that just ends", async () => {
  for (
    const events of [
      [{ error: { message: "Invalid request: no room", code: 400 } }, "[DONE]"],
      [token("", 0, { type: "abort", message: "Prefill bootstrap failed", status_code: 500 }), "[DONE]"],
      [],
    ]
  ) {
    const pair = new FakePair();
    pair.answers.prefill = pair.stream("prefill", events);
    pair.answers.decode = pair.hanging("decode");
    const error = await failure(pair);
    assert.ok(error instanceof EngineError && error.workerUrl === "http://prefill:1");
    assert.ok(pair.log.includes("decode abort"));
    await idle(pair);
  }
});

test("once decode has its first token, a prefill server that dies harms nothing but its own record", async () => {
  const pair = new FakePair();
  pair.answers.prefill = () =>
    Promise.resolve({
      status: 200,
      headers: {},
      body: (async function* (): AsyncGenerator<Uint8Array> {
        await pair.clock.sleep(20);
        yield new Uint8Array();
        throw new TransportError("reset_in_body", "http://prefill:1");
      })(),
    });
  pair.answers.decode = pair.stream("decode", DECODED, 15);
  assert.equal((await generated(pair)).text, "AB");
  assert.deepEqual(pair.log, ["prefill released failed"]);
  await idle(pair);
});

test("a caller that leaves: both servers are told, and have answered, before their connections close", async () => {
  const pair = new FakePair();
  pair.answers.prefill = pair.hanging("prefill");
  pair.answers.decode = pair.hanging("decode");
  const controller = new AbortController();
  const events = pair.engine.generate(textRequest, pair.at, controller.signal)[Symbol.asyncIterator]();
  const first = events.next();
  first.catch(() => {});
  await pair.clock.advance(50);
  const reason = new Error("gone");
  controller.abort(reason);
  await assert.rejects(settled(pair, first), reason);
  assert.deepEqual([...pair.log].sort(), ["decode abort", "prefill abort"]);
  await idle(pair);
});

test("a reader that ends early stops both servers, in whatever phase they are", async () => {
  for (const events of [[], [token("A", 1)]]) {
    const pair = new FakePair();
    pair.answers.prefill = pair.hanging("prefill");
    pair.answers.decode = pair.hanging("decode", events);
    const iterator = pair.engine.generate(textRequest, pair.at, never)[Symbol.asyncIterator]();
    const next = iterator.next();
    await pair.clock.advance(5);
    await settled(pair, iterator.return!());
    await next;
    assert.deepEqual([...pair.log].sort(), ["decode abort", "prefill abort"]);
    await idle(pair);
  }
});

test("before 0.5.10 a prefill is never aborted while it may wait: it ends first, then decode is told", async () => {
  const pair = new FakePair({ capabilities: { version: "0.5.3.post3" } });
  pair.answers.prefill = pair.stream("prefill", PREFILLED, 100);
  pair.answers.decode = pair.hanging("decode");
  const controller = new AbortController();
  const events = pair.engine.generate(textRequest, pair.at, controller.signal)[Symbol.asyncIterator]();
  const first = events.next();
  first.catch(() => {});
  await pair.clock.advance(50);
  controller.abort(new Error("gone"));
  await assert.rejects(settled(pair, first), /gone/);
  assert.deepEqual(pair.log, ["prefill released ok", "decode abort"]);
  assert.ok(pair.clock.now() >= 200);
  await idle(pair);
});

test("a caller that left before the start costs no request", async () => {
  const pair = new FakePair();
  await assert.rejects(generated(pair, textRequest, AbortSignal.abort(new Error("early"))), /early/);
  assert.equal(pair.sent.length, 0);
  await idle(pair);
});

test("requests that kill or hang a pair are refused by the field, and reach no server", () => {
  const cases: [Record<string, unknown>, string, string?][] = [
    [{ session_params: { id: "s" } }, "session_params"],
    [{ bootstrap_pair_key: "k" }, "bootstrap_pair_key"],
    [{ token_ids_logprob: [1] }, "token_ids_logprob", "0.5.18"],
  ];
  for (const [extra, param, version] of cases) {
    const pair = new FakePair(version === undefined ? {} : { capabilities: { version } });
    const sampling = { ...textRequest.sampling, extra: JSON.parse(JSON.stringify(extra)) };
    const start = () => pair.engine.generate({ ...textRequest, sampling }, pair.at, never);
    assert.throws(start, (error) => CanopyError.is(error) && error.status === 400 && error.param === param);
    assert.equal(pair.sent.length, 0);
  }
  const old = new FakePair({ capabilities: { version: "0.5.10.post1" } });
  assert.throws(
    () => old.engine.generate({ ...textRequest, logprobs: 2 }, old.at, never),
    (error) => CanopyError.is(error) && error.param === "top_logprobs_num",
  );
  const pair = new FakePair();
  const prompt = { kind: "tokens", ids: [1, -5] } as const;
  assert.throws(
    () => pair.engine.generate({ ...textRequest, prompt }, pair.at, never),
    (error) => CanopyError.is(error) && error.param === "input_ids[1]",
  );
});

async function warmedBy(pair: FakePair, signal: AbortSignal = never): Promise<WarmResult> {
  const prefix = { kind: "tokens", ids: [1, 2, 3, 4, 5] } as const;
  const like = { extra: { extra_key: "tenant", ignored: 1 } };
  return await settled(pair, pair.engine.warm(prefix, pair.at, signal, like));
}

test("a caller's own peer, room or id never takes the place of ours", async () => {
  const pair = new FakePair();
  const extra = { bootstrap_host: "2.2.2.2", bootstrap_port: 1, bootstrap_room: 0, rid: "mine", n: 3 };
  await generated(pair, { ...textRequest, sampling: { ...textRequest.sampling, extra } });
  for (const body of [...pair.bodies("prefill"), ...pair.bodies("decode")]) {
    assert.equal(body.bootstrap_host, "prefill");
    assert.equal(body.bootstrap_port, 8998);
    assert.ok(Number(body.bootstrap_room) > 0);
    assert.match(String(body.rid), /^canopy-/);
    assert.equal(body.n, undefined);
  }
});

test("the fake-bootstrap warm asks the prefill server alone, and gives the decode half back first", async () => {
  const pair = new FakePair({ capabilities: { version: "0.5.10.post1", warm: "fake_bootstrap" } });
  pair.answers.prefill = pair.json(200, token("A", 1, { type: "length", length: 0 }));
  assert.deepEqual(await warmedBy(pair), { promptTokens: 5, cachedTokens: 3 });
  assert.deepEqual(pair.sent.map(({ half }) => half), ["prefill"]);
  const body = pair.sent[0]!.body;
  assert.equal(body.bootstrap_host, "2.2.2.2");
  assert.ok(Number(body.bootstrap_room) > 0);
  assert.equal(body.stream, false);
  assert.equal(body.extra_key, "tenant");
  assert.equal(body.ignored, undefined);
  assert.deepEqual(body.sampling_params, { max_new_tokens: 1, temperature: 0, ignore_eos: true });
  assert.deepEqual(pair.log, ["decode released aborted"]);
  await idle(pair);
});

test("the pair warm is one real token on both servers", async () => {
  const pair = new FakePair();
  pair.answers.prefill = pair.json(200, token("A", 1, { type: "length", length: 0 }), 10);
  pair.answers.decode = pair.json(200, token("A", 1, { type: "length", length: 1 }), 12);
  assert.deepEqual(await warmedBy(pair), { promptTokens: 5, cachedTokens: 3 });
  const [prefill, decode] = pair.sent.map(({ body }) => body);
  assert.deepEqual(prefill, decode);
  assert.equal(prefill?.bootstrap_host, "prefill");
  assert.deepEqual(pair.log, ["prefill released ok"]);
  await idle(pair);
});

test("a pair warm that is called off is aborted on both servers", async () => {
  const pair = new FakePair();
  pair.answers.prefill = pair.hanging("prefill");
  pair.answers.decode = pair.hanging("decode");
  const controller = new AbortController();
  const warm = warmedBy(pair, controller.signal);
  warm.catch(() => {});
  await pair.clock.advance(20);
  controller.abort(new Error("enough"));
  await assert.rejects(warm, /enough/);
  assert.deepEqual([...pair.log].sort(), ["decode abort", "prefill abort"]);
  await idle(pair);
});

test("the fake host warms exactly the releases that were seen to cache for it", () => {
  for (const version of ["0.5.3", "0.5.3.post3", "0.5.9", "0.5.10", "0.5.10.post1"]) {
    assert.ok(fakeBootstrapWarms(version), version);
  }
  const others = [
    "0.5.2",
    "0.5.11",
    "0.5.11rc1",
    "0.5.18",
    "0.5.23",
    "0.6.0",
    "0.5.10.dev3+g1234",
    "",
    "vendor",
  ];
  for (const version of others) assert.ok(!fakeBootstrapWarms(version), version);
  assert.ok(!fakeBootstrapWarms(undefined));
});

test("rooms are 1 … 2^53 − 1, exact in JSON, and never twice the same in one request", () => {
  const prefill = { workerId: "p", url: "http://p", bootstrapHost: "p", bootstrapPort: undefined };
  fc.assert(
    fc.property(fc.string(), fc.integer({ min: 1, max: 300 }), (seed, prompts) => {
      const random = new Random(seed);
      const { bootstrap_room: rooms, bootstrap_host, bootstrap_port } = bootstrapLists(
        prefill,
        prompts,
        random,
      );
      assert.ok(Array.isArray(rooms) && Array.isArray(bootstrap_host) && Array.isArray(bootstrap_port));
      assert.equal(new Set(rooms).size, prompts);
      assert.ok(bootstrap_host.length === prompts && bootstrap_port.every((port) => port === null));
      for (const room of rooms) {
        assert.ok(Number.isSafeInteger(room) && Number(room) >= 1);
        assert.equal(JSON.parse(JSON.stringify(room)), room);
      }
      assert.notEqual(bootstrapFields(prefill, random).bootstrap_room, newRoom(random));
    }),
  );
});

test("the messages by which servers report a failed hand-off are known", () => {
  for (
    const message of [
      "Prefill bootstrap failed for request rank=0 req.rid='x' with exception KVTransferError(bootstrap_room=1): …",
      "Prefill transfer failed for request rank=0",
      "Decode handshake failed for request rank=0 … Aborted by AbortReq.",
      "Decode transfer failed for request rank=0 … timed out after 12.0s in KVPoll.WaitingForInput",
      "Lost connection with prefill instance (bootstrap_addr: 10.0.0.1:8998)",
    ]
  ) assert.ok(isHandOffFailure(message), message);
  assert.ok(!isHandOffFailure("The request queue is full."));
});
