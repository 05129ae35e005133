import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "../../properties.ts";
import type { Json, JsonObject } from "../../../base/json.ts";
import { TransportError } from "../../../base/transport.ts";
import { makePair, type Pair } from "./pair.ts";
import { type Answer, ask, at, ids, json, simulated } from "../recordings.ts";

const VERSIONS = ["0.5.3.post3", "0.5.10.post1", "0.5.12", "0.5.18", "0.5.23"];

/** A plain request for `count` tokens. */
function request(prompt: readonly number[], count: number, more: JsonObject = {}): JsonObject {
  return { input_ids: [...prompt], sampling_params: { max_new_tokens: count, ignore_eos: true }, ...more };
}

/** Where the pair's halves meet. */
function meeting(room: number): JsonObject {
  return { bootstrap_host: "127.0.0.1", bootstrap_port: 8998, bootstrap_room: room };
}

/** The tokens of an answer; those of the prompt that 0.5.3 puts before them left out. */
function tokensOf(answer: Answer): Json[] {
  const body = json(answer);
  const list = at(body, "output_ids");
  const count = at(body, "meta_info", "completion_tokens");
  return Array.isArray(list) && typeof count === "number" ? list.slice(-count) : [];
}

function cachedOf(answer: Answer): Json {
  return at(json(answer), "meta_info", "cached_tokens");
}

/** Nothing runs, waits, holds memory or is going to happen. */
async function assertIdle(pair: Pair): Promise<void> {
  for (const server of [pair.prefill, pair.decode]) {
    assert.equal(server.running, 0);
    const [load] = JSON.parse((await ask(server, { path: "/v1/loads" })).body)["loads"];
    assert.equal(load["num_used_tokens"], 0);
  }
  assert.equal(pair.clock.pendingTimers, 0);
}

test("A pair says token for token what one server says, in every version, streamed or not", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(...VERSIONS),
      fc.integer({ min: 1, max: 600 }),
      fc.integer({ min: 1, max: 40 }),
      fc.boolean(),
      fc.option(fc.integer({ min: 0, max: 9 }), { nil: null }),
      async (version, length, count, stream, seed) => {
        const body = {
          ...request(ids(7, length), count, { stream }),
          sampling_params: { max_new_tokens: count, ignore_eos: true, sampling_seed: seed },
        };
        const pair = makePair({ version });
        const { decode } = await pair.run(() => pair.both("/generate", body));
        const alone = simulated({ engine: "sglang", version });
        const direct = await alone.run(() => ask(alone.simulator, { path: "/generate", body }));
        const last = (answer: Answer) =>
          stream ? { ...answer, body: answer.body.split("\n\n").at(-3)!.slice("data: ".length) } : answer;
        assert.equal(at(json(last(decode)), "text"), at(json(last(direct)), "text"));
        assert.deepEqual(tokensOf(last(decode)), tokensOf(last(direct)));
        await pair.run(() => Promise.resolve());
        assert.equal(pair.prefill.running + pair.decode.running, 0);
        assert.equal(pair.clock.pendingTimers, 0);
      },
    ),
    { numRuns: 60 },
  );
});

test("Warms by the fake host are kept up to 0.5.10, those by a pair in every version", async () => {
  for (const version of VERSIONS) {
    const pair = makePair({ version });
    await pair.run(async () => {
      const fake = { bootstrap_host: "2.2.2.2", bootstrap_port: 8998, bootstrap_room: 1 };
      const warm = await ask(pair.prefill, {
        path: "/generate",
        body: { ...request(ids(0, 500), 1), ...fake },
      });
      assert.equal(at(json(warm), "meta_info", "completion_tokens"), 1);
      const after = await pair.both("/generate", request(ids(0, 600), 4));
      const kept = version === "0.5.3.post3" || version === "0.5.10.post1" ? 500 : 0;
      assert.deepEqual([cachedOf(after.prefill), cachedOf(after.decode)], [kept, kept], version);
      await pair.both("/generate", request(ids(1000, 500), 1));
      const paired = await pair.both("/generate", request(ids(1000, 600), 4));
      assert.deepEqual([cachedOf(paired.prefill), cachedOf(paired.decode)], [500, 500], version);
    });
  }
});

test("A prompt of the fake host in more than one chunk ends 0.5.11 and later, alone and in a pair", async () => {
  const pair = makePair({ maxBatchedTokens: 256 });
  await pair.run(async () => {
    const body = { ...request(ids(0, 300), 1), bootstrap_host: "2.2.2.2", bootstrap_room: 1 };
    await assert.rejects(ask(pair.prefill, { path: "/generate", body }), TransportError);
    await assert.rejects(ask(pair.prefill, { path: "/health" }), TransportError);
  });
  const older = makePair({ maxBatchedTokens: 256, version: "0.5.10.post1" });
  const answer = await older.run(() =>
    ask(older.prefill, {
      path: "/generate",
      body: { ...request(ids(0, 300), 1), bootstrap_host: "2.2.2.2", bootstrap_room: 1 },
    })
  );
  assert.equal(answer.status, 200);
});

test("Prefill keeps prompts only: an answer is not in its tree, and pages of 64 are kept whole", async () => {
  const pair = makePair();
  await pair.run(async () => {
    const first = await pair.both("/generate", request(ids(0, 500), 32));
    const turn = [...ids(0, 500), ...tokensOf(first.decode).map(Number), ...ids(900, 10)];
    const second = await pair.both("/generate", request(turn, 4));
    assert.deepEqual([cachedOf(second.prefill), cachedOf(second.decode)], [500, 500]);
  });
  const paged = makePair({ blockSize: 64 });
  await paged.run(async () => {
    await paged.both("/generate", request(ids(0, 1000), 1));
    assert.equal(cachedOf((await paged.both("/generate", request(ids(0, 1100), 1))).decode), 960);
  });
});

test("The hand-off takes the link's time, ahead of it go the chunks before the last", async () => {
  const timeOf = async (prompt: number, chunk: number) => {
    const pair = makePair({ cost: "8b", maxBatchedTokens: chunk });
    return await pair.run(async () => {
      const { prefill } = await pair.both("/generate", request(ids(0, prompt), 1));
      const meta = at(json(prefill), "meta_info");
      const done = Number(at(meta, "request_finished_ts")) - Number(at(meta, "prefill_finished_time"));
      return done * 1000;
    });
  };
  // 147,456 bytes a token at 64 GB/s, and 1 ms.
  const perToken = 147_456 / 64e6;
  assert.ok(Math.abs(await timeOf(1600, 8192) - (1600 * perToken + 1)) < 0.05);
  assert.ok(Math.abs(await timeOf(1600, 800) - (800 * perToken + 1)) < 0.05);
});

test("Decode takes memory in order of arrival, and prefill waits for it", async () => {
  const pair = makePair({ cost: "8b", kvTokens: 2000 }, { reservedDecodeTokens: 100 });
  await pair.run(async () => {
    const ended: string[] = [];
    const one = async (name: string, length: number, count: number) => {
      const { decode } = await pair.both("/generate", request(ids(name.charCodeAt(0), length), count));
      assert.equal(decode.status, 200);
      ended.push(name);
    };
    await Promise.all([one("a", 1500, 80), one("b", 1400, 10), one("c", 100, 5)]);
    assert.deepEqual(ended, ["a", "c", "b"], "c has to wait for b's turn, and is shorter");
    await assertIdle(pair);
  });
});

test("The KV of prefill decides what is said: legs with different prompts answer without complaint", async () => {
  const pair = makePair();
  await pair.run(async () => {
    const [first, second] = await Promise.all([
      ask(pair.prefill, { path: "/generate", body: { ...request(ids(0, 40), 8), ...meeting(5) } }),
      ask(pair.decode, { path: "/generate", body: { ...request(ids(9, 42), 8), ...meeting(5) } }),
    ]);
    assert.deepEqual([first.status, second.status], [200, 200]);
    const right = await pair.both("/generate", request(ids(0, 40), 8));
    const wrong = await pair.both("/generate", request(ids(9, 42), 8));
    assert.deepEqual(tokensOf(second), tokensOf(right.decode));
    assert.notDeepEqual(tokensOf(second), tokensOf(wrong.decode));
    assert.equal(at(json(second), "meta_info", "prompt_tokens"), 42);
  });
});

test("A dead prefill server is noticed after its heartbeat, a dead decode server at the transfer", async () => {
  const pair = makePair({ cost: "8b" });
  await pair.run(async () => {
    const body = { ...request(ids(0, 8000), 20), ...meeting(1) };
    const legs = [pair.prefill, pair.decode].map((server) => ask(server, { path: "/generate", body }));
    await pair.clock.sleep(50);
    pair.prefill.crash();
    await assert.rejects(legs[0]!, TransportError);
    const answer = await legs[1]!;
    assert.match(answer.body, /Lost connection with prefill instance \(bootstrap_addr: 127\.0\.0\.1:8998\)/);
    assert.equal(answer.status, 500);
    assert.equal(Math.round(pair.clock.now()), 6050);
    assert.equal(pair.decode.running, 0);
  });
  const other = makePair({ cost: "8b" });
  await other.run(async () => {
    const body = { ...request(ids(0, 8000), 20), ...meeting(1) };
    const legs = [other.prefill, other.decode].map((server) => ask(server, { path: "/generate", body }));
    await other.clock.sleep(50);
    other.decode.crash();
    await assert.rejects(legs[1]!, TransportError);
    assert.match((await legs[0]!).body, /Prefill transfer failed .*Failed to send kv chunk of 1 to 127/);
    assert.equal(other.prefill.running, 0);
  });
});

test("A failed transfer fails both halves; the next one is well, and nothing is left", async () => {
  const pair = makePair({ cost: "8b" });
  await pair.run(async () => {
    pair.prefill.inject({ kind: "kv_failure", count: 1 });
    const broken = await pair.both("/generate", request(ids(0, 100), 4));
    assert.deepEqual([broken.prefill.status, broken.decode.status], [500, 500]);
    assert.match(broken.decode.body, /Failed to get kvcache from prefill instance, it might be dead/);
    const beganMs = pair.clock.now();
    pair.prefill.inject({ kind: "slow_transfer", count: 1, value: 1000 });
    const slow = await pair.both("/generate", request(ids(500, 100), 4));
    assert.equal(slow.decode.status, 200);
    assert.ok(pair.clock.now() - beganMs > 1000);
    assert.deepEqual(pair.fabric.stats.failedTransfers, 1);
    await assertIdle(pair);
  });
});

test("An abort ends a half wherever it is, and the newer versions tell the other one", async () => {
  // Waiting for the other half, computing, and sending.
  for (const atMs of [1, 30, 190]) {
    for (const side of ["prefill", "decode"] as const) {
      const pair = makePair({ cost: "8b" });
      await pair.run(async () => {
        if (atMs === 190) pair.prefill.inject({ kind: "slow_transfer", count: 1, value: 50 });
        const body = { ...request(ids(0, 7000), 500, { rid: "r-1" }), ...meeting(1) };
        const legs = [pair.prefill, pair.decode].map((server) => ask(server, { path: "/generate", body }));
        await pair.clock.sleep(atMs);
        await ask(pair[side], { path: "/abort_request", body: { rid: "r-1" } });
        const answers = await Promise.all(legs);
        const failed = answers.filter(({ status, body }) =>
          status === 500 || body.includes('"type":"abort"')
        );
        assert.ok(failed.length > 0 || atMs === 1, `${side} at ${atMs}`);
        await pair.clock.sleep(13_000);
        await assertIdle(pair);
      });
    }
  }
});

test("Until 0.5.12 an aborted prefill leaves its decode half waiting for the time-out", async () => {
  for (const [version, leastMs, mostMs] of [["0.5.12", 12_000, 12_100], ["0.5.18", 40, 100]] as const) {
    const pair = makePair({ version, cost: "8b" });
    await pair.run(async () => {
      // The second prompt waits until the step of the first one is over.
      const first = pair.both("/generate", request(ids(700, 7000), 1));
      await pair.clock.sleep(20);
      const body = { ...request(ids(0, 100), 5, { rid: "r-1" }), ...meeting(1) };
      const legs = [pair.prefill, pair.decode].map((server) => ask(server, { path: "/generate", body }));
      await pair.clock.sleep(20);
      await ask(pair.prefill, { path: "/abort_request", body: { rid: "r-1" } });
      const [prefill, decode] = await Promise.all(legs);
      assert.match(prefill!.body, /Abort in waiting queue/);
      assert.equal(decode!.status, 500);
      const endedMs = pair.clock.now();
      assert.ok(endedMs >= leastMs && endedMs <= mostMs, `${version}: ${endedMs} ms`);
      await first;
      assert.equal(pair.prefill.running + pair.decode.running, 0);
    });
  }
});

test("A decode server with a tree of its own is sent only what it lacks", async () => {
  const pair = makePair({}, { decodeRadixCache: true });
  const { turn, second } = await pair.run(async () => {
    const first = await pair.both("/generate", request(ids(0, 500), 32));
    assert.equal(pair.fabric.stats.transferredTokens, 500);
    const turn = [...ids(0, 500), ...tokensOf(first.decode).map(Number), ...ids(900, 10)];
    return { turn, second: await pair.both("/generate", request(turn, 4)) };
  });
  assert.equal(
    pair.fabric.stats.transferredTokens,
    500 + 542 - 531,
    "the KV of the last token was never made",
  );
  assert.equal(cachedOf(second.decode), 500);
  const alone = simulated({ engine: "sglang" });
  const direct = await alone.run(() => ask(alone.simulator, { path: "/generate", body: request(turn, 4) }));
  assert.deepEqual(tokensOf(second.decode), tokensOf(direct));
});

test("A frozen prefill server lets its decode half run into the time-out; afterwards all is well", async () => {
  const pair = makePair({ cost: "8b" });
  await pair.run(async () => {
    const thaw = pair.prefill.freeze();
    const body = { ...request(ids(0, 100), 5), ...meeting(1) };
    const prefill = ask(pair.prefill, { path: "/generate", body });
    const decode = await ask(pair.decode, { path: "/generate", body });
    assert.match(decode.body, /timed out after 12\.0s in KVPoll\.WaitingForInput/);
    thaw();
    assert.match((await prefill).body, /Prefill transfer failed/);
    assert.equal((await pair.both("/generate", request(ids(0, 100), 5))).decode.status, 200);
    await assertIdle(pair);
  });
});

test("The fabric counts rooms that are used a second time", async () => {
  const pair = makePair();
  await pair.run(async () => {
    for (let i = 0; i < 2; i++) {
      await pair.both("/generate", { ...request(ids(0, 20), 2), bootstrap_room: 77 });
    }
    await pair.both("/generate", request(ids(0, 20), 2));
  });
  assert.equal(pair.fabric.stats.roomsReused, 1);
  assert.equal(pair.fabric.stats.handOffs, 3);
});

test("A client that leaves a pair's decode stops it as measured, version by version", async () => {
  // Time until the decode server is idle; more than a minute: it goes on to the end.
  const measured = [
    ["0.5.10.post1", true, 1900, 2400],
    ["0.5.18", true, 60_000, Infinity],
    ["0.5.23", true, 0, 300],
    ["0.5.10.post1", false, 0, 400],
    ["0.5.18", false, 2000, 4100],
    ["0.5.23", false, 2000, 4100],
  ] as const;
  for (const [version, stream, leastMs, mostMs] of measured) {
    const pair = makePair({ version, cost: "8b" });
    await pair.run(async () => {
      const body = { ...request(ids(0, 40), 20_000, { stream }), ...meeting(1) };
      const client = new AbortController();
      const prefill = ask(pair.prefill, { path: "/generate", body });
      const decode = ask(pair.decode, { path: "/generate", body }, client.signal);
      await prefill;
      await pair.clock.sleep(1000);
      const leftMs = pair.clock.now();
      client.abort(new Error("The client leaves"));
      await assert.rejects(decode, /The client leaves/);
      while (pair.decode.running > 0) await pair.clock.sleep(20);
      const idleMs = pair.clock.now() - leftMs;
      assert.ok(idleMs >= leastMs && idleMs <= mostMs, `${version} ${stream}: ${idleMs} ms`);
    });
  }
});

test("An answer may hold [DONE], and events may come in pieces", async () => {
  const pair = makePair();
  await pair.run(async () => {
    const sampling = { max_new_tokens: 60, regex: String.raw`data: \[DONE\]` };
    const body = { ...request(ids(0, 40), 1), sampling_params: sampling, stream: true };
    const whole = await pair.both("/generate", body);
    assert.match(whole.decode.body, /"text":"data: \[DONE\]"/);
    assert.ok(whole.decode.body.endsWith("data: [DONE]\n\n"));
    pair.decode.inject({ kind: "split", count: 1 });
    const meetingPlace = meeting(9);
    const prefill = ask(pair.prefill, { path: "/generate", body: { ...body, ...meetingPlace } });
    const answer = await pair.decode.handle({
      method: "POST",
      url: "http://decode/generate",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ ...body, ...meetingPlace }),
    }, new AbortController().signal);
    const decoder = new TextDecoder();
    const pieces: string[] = [];
    for await (const piece of answer.body) pieces.push(decoder.decode(piece, { stream: true }));
    const events = pieces.join("").split("\n\n").length - 1;
    assert.ok(pieces.length > events, `${pieces.length} pieces of ${events} events`);
    assert.match(pieces.join(""), /"text":"data: \[DONE\]"/);
    await prefill;
    await assertIdle(pair);
  });
});

test("Alternatives of the first token end a 0.5.10 prefill server after the hand-off", async () => {
  const pair = makePair({ version: "0.5.10.post1" });
  await pair.run(async () => {
    const body = { ...request(ids(0, 40), 4), ...meeting(1), return_logprob: true, top_logprobs_num: 2 };
    const prefill = ask(pair.prefill, { path: "/generate", body });
    assert.equal((await ask(pair.decode, { path: "/generate", body })).status, 200);
    await assert.rejects(prefill, TransportError);
  });
});
