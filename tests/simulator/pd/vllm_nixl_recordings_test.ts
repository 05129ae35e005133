import assert from "node:assert/strict";
import { test } from "node:test";
import { isJsonObject, type Json, type JsonObject } from "../../../base/json.ts";
import { makePair, type Pair } from "./pair.ts";
import { type Answer, ask, at, eventsOf, ids, json, recordings, tinyTokenizer } from "../recordings.ts";
import { shape, streamShape } from "../shapes.ts";

const RECORDED = recordings("vllm-0.32.0-nixl");
const SERVER = {
  engine: "vllm",
  version: "0.32.0",
  tokenizer: tinyTokenizer,
  contextTokens: 8192,
  blockSize: 32,
  kvTokens: 65_536,
} as const;

/** The order of the recording. */
const ORDER = [
  "p-1-cold",
  "d-1-cold",
  "p-1-check",
  "p-2-warm-0",
  "p-2-warm-1",
  "p-2-warmed",
  "d-2-warmed-stream",
  "p-3-again",
  "d-3-again",
  "p-4-longer",
  "d-4-longer",
  "p-5-no-request-id-match",
  "d-5-no-request-id-match",
  "p-6-eos",
  "d-6-eos",
  "p-7-stream",
  "d-8-null-params",
  "d-10-unreachable",
  "p-11-chat",
  "d-11-chat-stream",
  "d-12-reused-params",
  "p-13-other-tail",
  "d-13-other-tail",
  "p-13-truth",
  "p-14-shorter",
  "d-14-shorter",
  "p-14-truth",
  "p-15-longer",
  "d-15-longer",
];

/** Cases of the decode side that use another leg's parameters. */
const PARAMS_OF: Readonly<Record<string, string>> = { "d-10-unreachable": "6", "d-12-reused-params": "6" };

const played = await playAll();

/** Plays the whole recording, with the parameters that the simulated prefill side gives. */
async function playAll(): Promise<Map<string, Answer>> {
  const pair = makePair(SERVER);
  const answers = new Map<string, Answer>();
  await pair.run(async () => {
    const params = new Map<string, Json>();
    for (const name of ORDER) {
      const { request } = RECORDED.get(name)!;
      const [side, number = ""] = name.split("-");
      const body: JsonObject = isJsonObject(request.body ?? null) ? { ...request.body as JsonObject } : {};
      if (side === "d" && isJsonObject(body["kv_transfer_params"] ?? null)) {
        const own = params.get(PARAMS_OF[name] ?? number) ?? null;
        assert.ok(isJsonObject(own), `${name} has parameters`);
        body["kv_transfer_params"] = name === "d-10-unreachable"
          ? {
            ...own,
            remote_engine_id: "00000000-0000-0000-0000-000000000000",
            remote_port: 9,
            remote_request_id: "cmpl-none-0-0",
          }
          : own;
      }
      const answer = await ask(side === "p" ? pair.prefill : pair.decode, { ...request, body });
      answers.set(name, answer);
      if (side === "p" && answer.body.startsWith("{")) {
        const given = at(json(answer), "kv_transfer_params");
        if (given !== null) params.set(number, given);
      }
    }
  });
  return answers;
}

for (const name of ORDER) {
  test(`vLLM with NIXL answers ${name} as recorded`, () => {
    const answer = played.get(name)!;
    const recording = RECORDED.get(name)!;
    assert.equal(answer.status, recording.status, answer.body.slice(0, 300));
    const { date: _date, "content-length": _length, ...headers } = answer.headers;
    assert.deepEqual(headers, recording.headers);
    if (recording.status !== 200) return assert.equal(answer.body, recording.body);
    const stream = recording.headers["content-type"]?.startsWith("text/event-stream") === true;
    const [got, wanted] = [answer, recording].map(({ body }): Json[] =>
      stream ? eventsOf(body) : [JSON.parse(body)]
    );
    if (stream) assert.deepEqual(streamShape(got!), streamShape(wanted!));
    else assert.equal(shape(got![0]!), shape(wanted![0]!));
    const named = recording.request.headers["x-request-id"] !== undefined;
    for (const step of [["usage"], ["choices", 0, "finish_reason"], ...(named ? [["id"]] : [])]) {
      assert.deepEqual(at(got!.at(-1)!, ...step), at(wanted!.at(-1)!, ...step), step.join("."));
    }
    const [given, expected] = [got, wanted].map((bodies) => at(bodies![0]!, "kv_transfer_params"));
    for (
      const field of ["remote_num_tokens", "remote_port", "remote_prefill_cached_tokens", "transfer_mode"]
    ) assert.deepEqual(at(given!, field), at(expected!, field), field);
    assert.equal(blocks(given!), blocks(expected!), "remote_block_ids");
  });
}

function blocks(params: Json): number {
  const group = at(params, "remote_block_ids", 0);
  return Array.isArray(group) ? group.length : 0;
}

test("Decode says with fetched KV what the prefill side says alone, and something else with the wrong KV", () => {
  const said = (name: string) => at(json(played.get(name)!), "choices", 0, "token_ids");
  assert.deepEqual(said("d-1-cold"), said("p-1-check"));
  assert.notDeepEqual(said("d-12-reused-params"), said("d-6-eos"));
  assert.notDeepEqual(said("d-13-other-tail"), said("p-13-truth"));
  assert.notDeepEqual(said("d-14-shorter"), said("p-14-truth"));
});

/** Both legs of a request, as a router sends them. */
async function twoSteps(
  pair: Pair,
  prompt: readonly number[],
  more: JsonObject = {},
): Promise<{ prefill: JsonObject; decode: Answer }> {
  const body: JsonObject = { prompt: [...prompt], temperature: 0, ignore_eos: true, return_token_ids: true };
  const first = await ask(pair.prefill, {
    path: "/v1/completions",
    body: {
      ...body,
      max_tokens: 1,
      kv_transfer_params: { do_remote_decode: true, do_remote_prefill: false },
    },
  });
  const prefill = json(first);
  const decode = await ask(pair.decode, {
    path: "/v1/completions",
    body: { ...body, max_tokens: 6, ...more, kv_transfer_params: prefill["kv_transfer_params"] ?? null },
  });
  return { prefill, decode };
}

test("A vLLM decode server fetches only the blocks that it lacks", async () => {
  const pair = makePair({ ...SERVER, cost: "8b" });
  await pair.run(async () => {
    await twoSteps(pair, ids(5, 600));
    assert.equal(pair.fabric.stats.transferredTokens, 608);
    await twoSteps(pair, ids(5, 600));
    assert.equal(pair.fabric.stats.transferredTokens, 608 + 32, "one block and the part of the last");
    await twoSteps(pair, ids(5, 700));
    assert.equal(pair.fabric.stats.transferredTokens, 640 + 128, "22 blocks less the 18 that are full");
  });
  assert.equal(pair.clock.pendingTimers, 0, "no lease is left");
});

test("KV that nobody fetches is kept for 30 s, then its blocks are free and its parameters wrong", async () => {
  const pair = makePair({ ...SERVER, cost: "8b", kvTokens: 1024 });
  await pair.run(async () => {
    const prompt = ids(5, 600);
    const ask1 = { prompt, max_tokens: 1, kv_transfer_params: { do_remote_decode: true } };
    const first = json(await ask(pair.prefill, { path: "/v1/completions", body: ask1 }));
    const beganMs = pair.clock.now();
    await ask(pair.prefill, { path: "/v1/completions", body: { prompt: ids(700, 600), max_tokens: 1 } });
    const waitedMs = pair.clock.now() - beganMs;
    assert.ok(waitedMs > 29_900 && waitedMs < 30_200, `The next prompt waits for memory: ${waitedMs} ms`);
    const plain = { prompt, max_tokens: 6, ignore_eos: true, return_token_ids: true };
    const truth = json(await ask(pair.prefill, { path: "/v1/completions", body: plain }));
    const late = json(
      await ask(pair.decode, {
        path: "/v1/completions",
        body: { ...plain, kv_transfer_params: first["kv_transfer_params"] ?? null },
      }),
    );
    assert.notDeepEqual(at(late, "choices", 0, "token_ids"), at(truth, "choices", 0, "token_ids"));
  });
});

test("With the policy recompute a vLLM server computes what it cannot fetch", async () => {
  const pair = makePair({ ...SERVER, cost: "8b" }, { loadFailurePolicy: "recompute" });
  await pair.run(async () => {
    const { decode: right } = await twoSteps(pair, ids(5, 300));
    const { prefill } = await twoSteps(pair, ids(5, 300), { cache_salt: "a" });
    pair.prefill.crash();
    const beganMs = pair.clock.now();
    const body = {
      prompt: ids(5, 300),
      max_tokens: 6,
      ignore_eos: true,
      return_token_ids: true,
      kv_transfer_params: prefill["kv_transfer_params"] ?? null,
    };
    const answer = json(await ask(pair.decode, { path: "/v1/completions", body }));
    assert.ok(pair.clock.now() - beganMs >= 5000);
    assert.deepEqual(at(answer, "choices", 0, "token_ids"), at(json(right), "choices", 0, "token_ids"));
  });
});

test("An injected failure of the transfer is a 500 of the decode server", async () => {
  const pair = makePair({ ...SERVER, cost: "8b" });
  await pair.run(async () => {
    pair.decode.inject({ kind: "kv_failure", count: 1 });
    const { decode } = await twoSteps(pair, ids(5, 300));
    assert.equal(decode.status, 500);
    assert.match(decode.body, /Internal server error/);
    const { decode: next } = await twoSteps(pair, ids(5, 300));
    assert.equal(next.status, 200);
    assert.equal(pair.decode.running + pair.prefill.running, 0);
  });
});

test("vLLM 0.32 takes four stop strings and refuses five", async () => {
  const pair = makePair(SERVER);
  await pair.run(async () => {
    for (const [count, status] of [[4, 200], [5, 400]] as const) {
      const body = { prompt: "Hello", max_tokens: 2, stop: ["a", "b", "c", "d", "e"].slice(0, count) };
      const answer = await ask(pair.prefill, { path: "/v1/completions", body });
      assert.equal(answer.status, status);
      if (status === 400) assert.match(answer.body, /at most 4 items/);
    }
  });
});
