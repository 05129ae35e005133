import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { PrefillLogprobs } from "../../../router/relay/prefill_logprobs.ts";
import { fixtureFolder } from "../engines/wire.ts";
import { CLEAN, event, JSON_HEAD, relayBench, type Script, SSE } from "./fake_workers.ts";

const recorded = (name: string, half: "prefill" | "decode") =>
  new Uint8Array(readFileSync(fixtureFolder("wire", "sglang-cpu-pd-0.5.18", `${name}.${half}.body`)));
const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
const parse = (bytes: Uint8Array) => JSON.parse(text(bytes));
const eventsIn = (bytes: Uint8Array) =>
  text(bytes).split("\n").filter((line) => line.startsWith("data: {")).map((line) =>
    JSON.parse(line.slice(6))
  );

test("recorded: the prompt's log-probabilities come from prefill, the answer's stay decode's", () => {
  const prefill = recorded("logprob_start_0_top2", "prefill");
  const decode = recorded("logprob_start_0_top2", "decode");
  const merged = parse(new PrefillLogprobs("/generate", prefill).answer(decode));
  const [theirs, mine] = [parse(prefill).meta_info, parse(decode).meta_info];
  assert.equal(theirs.input_token_logprobs.length, 12);
  assert.deepEqual(merged.meta_info, {
    ...mine,
    input_token_logprobs: theirs.input_token_logprobs,
    input_top_logprobs: theirs.input_top_logprobs,
  });
  assert.deepEqual({ ...merged, meta_info: 0 }, { ...parse(decode), meta_info: 0 });
  assert.ok(
    text(new PrefillLogprobs("/generate", prefill).answer(decode)).includes("-7.551875114440918"),
    "digits",
  );
});

test("recorded: every event of a stream gets them, in whatever pieces prefill answered", () => {
  const prefill = recorded("logprob_stream_start0", "prefill");
  const decode = recorded("logprob_stream_start0", "decode");
  const [theirs] = eventsIn(prefill);
  const merged = eventsIn(new PrefillLogprobs("/generate", prefill).events(decode));
  const before = eventsIn(decode);
  assert.equal(merged.length, before.length);
  merged.forEach((one, i) => {
    const input_token_logprobs = theirs.meta_info.input_token_logprobs;
    assert.deepEqual(one, { ...before[i], meta_info: { ...before[i].meta_info, input_token_logprobs } });
  });
});

test("recorded: the ids' log-probabilities of the first token come from prefill where decode lacks them", () => {
  const prefill = recorded("token_ids_logprob", "prefill");
  const decode = recorded("token_ids_logprob", "decode");
  const { meta_info } = parse(new PrefillLogprobs("/generate", prefill).answer(decode));
  const [first] = parse(prefill).meta_info.output_token_ids_logprobs;
  assert.deepEqual(meta_info.output_token_ids_logprobs, [
    first,
    ...parse(decode).meta_info.output_token_ids_logprobs,
  ]);
  assert.equal(meta_info.output_token_ids_logprobs.length, meta_info.output_token_logprobs.length);
  const complete = new TextEncoder().encode(
    text(decode).replace('"output_token_ids_logprobs":[', "$&[[0,5,null]],"),
  );
  const untouched = parse(new PrefillLogprobs("/generate", prefill).answer(complete));
  assert.deepEqual(untouched, parse(complete), "0.5.23's decode has them all");
});

test("recorded: an echoed prompt's log-probabilities come before the answer's, once", () => {
  const prefill = recorded("completions_echo_logprobs", "prefill");
  const decode = recorded("completions_echo_logprobs", "decode");
  const [choice] = parse(new PrefillLogprobs("/v1/completions", prefill).answer(decode)).choices;
  assert.deepEqual(choice.logprobs.tokens, [
    ...["H", "e", "l", "lo", " w", "or", "ld"],
    ...[" \"'", " \"'", " \"'", " act", "tra", " act"],
  ]);
  for (const name of ["token_logprobs", "top_logprobs", "text_offset"]) {
    assert.equal(choice.logprobs[name].length, 13);
  }
  assert.equal(choice.logprobs.token_logprobs[0], null);
  assert.equal(choice.text, parse(decode).choices[0].text);
});

test("batches are matched by place, streams of batches by index, and streamed echoes only at their first event", () => {
  const item = (input: number[], index?: number) => ({
    ...(index === undefined ? {} : { index }),
    meta_info: { input_token_logprobs: input, output_token_logprobs: [9] },
  });
  const bytes = (value: unknown) => new TextEncoder().encode(JSON.stringify(value));
  const sse = (...values: unknown[]) =>
    new TextEncoder().encode(
      values.map((value) => `data: ${JSON.stringify(value)}\n\n`).join("") + "data: [DONE]\n\n",
    );
  const batch = new PrefillLogprobs("/generate", bytes([item([1]), item([2, 3])]));
  assert.deepEqual(parse(batch.answer(bytes([item([]), item([])]))), [item([1]), item([2, 3])]);
  const stream = new PrefillLogprobs("/generate", sse(item([2, 3], 1), item([1], 0)));
  assert.deepEqual(eventsIn(stream.events(sse(item([], 0), item([], 1), item([], 0)))), [
    item([1], 0),
    item([2, 3], 1),
    item([1], 0),
  ]);
  const choice = (tokens: string[], index = 0) => ({ choices: [{ index, logprobs: { tokens } }] });
  const echo = new PrefillLogprobs("/v1/completions", sse(choice(["p", "q", "x"]), { choices: [] }));
  assert.deepEqual(eventsIn(echo.events(sse(choice(["x"]), choice(["y"])))), [
    choice(["p", "q", "x"]),
    choice(["y"]),
  ]);
  const odd = new TextEncoder().encode('{"meta_info": broken');
  assert.deepEqual(stream.answer(odd), odd, "what is not JSON passes as it is");
});

function pairBench(prefill: Script, decode: Script) {
  const bench = relayBench({
    engine: "sglang-pd",
    workers: [{ prefill: "http://p", decode: "http://d" }],
    retries: 0,
  });
  bench.workers.scripts.set("p", [prefill]);
  bench.workers.scripts.set("d", [decode]);
  bench.workers.scripts.set("p/abort_request", [{}]);
  bench.workers.scripts.set("d/abort_request", [{}]);
  const post = async (body: string, path = "/generate") => {
    const answer = bench.post(body, { path }).then(async (
      response,
    ) => [response.status, await response.text()]);
    answer.catch(() => {});
    await bench.clock.advance(10_000);
    return await answer;
  };
  return { ...bench, post };
}

const meta = (input: number[]) => ({ meta_info: { input_token_logprobs: input } });

test("relayed: decode's answer waits for prefill's only where the prompt's log-probabilities are asked for", async () => {
  const asks: [string, boolean][] = [
    ['{"text":"a","return_logprob":true,"logprob_start_len":0}', true],
    ['{"text":"a","return_logprob":true,"logprob_start_len":12}', true],
    ['{"text":["a"],"return_logprob":[true],"logprob_start_len":[0]}', true],
    ['{"text":"a","return_logprob":true}', false],
    ['{"text":"a","return_logprob":true,"logprob_start_len":-1}', false],
    ['{"text":"a","return_logprob":false,"logprob_start_len":0}', false],
    ['{"text":"a"}', false],
  ];
  for (const [body, merges] of asks) {
    const bench = pairBench(
      { headers: JSON_HEAD, body: [{ waitMs: 500 }, { send: JSON.stringify(meta([1, 2])) }] },
      { headers: { ...JSON_HEAD, "content-length": "44" }, body: [{ send: JSON.stringify(meta([])) }] },
    );
    const [status, answer] = await bench.post(body);
    assert.equal(status, 200);
    assert.deepEqual(JSON.parse(String(answer)), meta(merges ? [1, 2] : []), body);
    assert.deepEqual(bench.leaks(), CLEAN);
  }
});

test("relayed: a stream is completed event by event, and a lost prefill answer is an error, not a gap", async () => {
  const body = '{"text":"a","return_logprob":true,"logprob_start_len":0,"stream":true}';
  const decode = { headers: SSE, body: [event(meta([])), { waitMs: 5 }, event(meta([])), event("[DONE]")] };
  const good = pairBench({ headers: SSE, body: [event(meta([7])), event("[DONE]")] }, decode);
  const [status, answer] = await good.post(body);
  assert.equal(status, 200);
  const line = `data: ${JSON.stringify(meta([7]))}\n\n`;
  assert.equal(answer, `${line}${line}data: [DONE]\n\n`);
  const lost = pairBench({
    headers: SSE,
    body: [event(meta([7])), { waitMs: 20 }, { fail: "reset_in_body" }],
  }, decode);
  const [lostStatus, error] = await lost.post(body);
  assert.equal(lostStatus, 502);
  assert.match(String(error), /Worker \S+ (?:did|broke)/);
  assert.doesNotMatch(String(error), /http:/);
  assert.deepEqual(lost.leaks(), CLEAN);
  assert.deepEqual(lost.pool.workers().map((worker) => worker.failures), [1, 0]);
});
