import assert from "node:assert/strict";
import { test } from "node:test";
import { isJsonObject, type Json, type JsonObject } from "../../../base/json.ts";
import {
  ask,
  at,
  eventsOf,
  json,
  type Recording,
  recordings,
  simulated,
  tinyTokenizer,
} from "../recordings.ts";
import { shape, streamShape } from "../shapes.ts";

const RECORDED = recordings("vllm-0.32.0");
const SERVER = { tokenizer: tinyTokenizer, contextTokens: 8192, blockSize: 32, kvTokens: 65536 } as const;

/** Cases whose outcome hangs on the text that the real model made: the simulator is made to say the same. */
const SAME_TEXT = /^cmpl-(stream-)?stop(-included|-token-id)?$/;
const MODEL_TEXT = '"" also compareok be**** x allowsmally which';

/** The body to send: the recorded one, with the real model's text forced where it matters. */
function requestOf(name: string, recording: Recording): Recording["request"] {
  const { request } = recording;
  if (!SAME_TEXT.test(name) || !isJsonObject(request.body ?? null)) return request;
  const body: JsonObject = isJsonObject(request.body ?? null) ? { ...request.body as JsonObject } : {};
  return { ...request, body: { ...body, structured_outputs: { choice: [MODEL_TEXT] } } };
}

/** Differences that are meant: see the comments. */
const DEVIATIONS: Record<string, string> = {
  // The metrics of the simulator are a part of the real ones; compared by name and label below.
  "get-metrics": "a part of the names",
  // The main end token ends a forced chat text in the recording, the second one in the simulator.
  "chat-choice": "stop_reason is the second end token",
};

const COUNTS = ["prompt_tokens", "completion_tokens", "total_tokens"];

/** A grammar makes the real model spell a text with other tokens than the tokenizer would: the counts differ. */
const RESPELT = new Set(["chat-think-text", "cmpl-choice"]);

for (const [name, recording] of RECORDED) {
  if (name in DEVIATIONS) continue;
  test(`vLLM answers ${name} as recorded`, async () => {
    const { simulator, run } = simulated(SERVER);
    const answer = await run(() => ask(simulator, requestOf(name, recording)));
    assert.equal(answer.status, recording.status, answer.body.slice(0, 300));
    const { date: _date, "content-length": _length, ...headers } = answer.headers;
    assert.deepEqual(headers, recording.headers);
    if (recording.status !== 200 || recording.body === "") {
      assert.equal(answer.body, recording.body);
      return;
    }
    if (recording.headers["content-type"]?.startsWith("text/event-stream") === true) {
      const events = eventsOf(answer.body);
      const recorded = eventsOf(recording.body);
      assert.deepEqual(streamShape(events), streamShape(recorded));
      for (const field of COUNTS) {
        assert.deepEqual(at(events.at(-1)!, "usage", field), at(recorded.at(-1)!, "usage", field), field);
      }
      assert.deepEqual(firstPromptIds(events), firstPromptIds(recorded));
      return;
    }
    const got = json(answer);
    const wanted: Json = JSON.parse(recording.body);
    assert.equal(shape(got), shape(wanted));
    for (const field of RESPELT.has(name) ? ["prompt_tokens"] : COUNTS) {
      assert.deepEqual(at(got, "usage", field), at(wanted, "usage", field), field);
    }
    for (const field of ["tokens", "count", "max_model_len", "token_strs", "prompt", "prompt_token_ids"]) {
      assert.deepEqual(at(got, field), at(wanted, field), field);
    }
    assert.deepEqual(at(got, "choices", 0, "prompt_token_ids"), at(wanted, "choices", 0, "prompt_token_ids"));
    assert.deepEqual(at(got, "choices", 0, "finish_reason"), at(wanted, "choices", 0, "finish_reason"));
    assert.deepEqual(at(got, "choices", 0, "stop_reason"), at(wanted, "choices", 0, "stop_reason"));
    if (SAME_TEXT.test(name)) assert.deepEqual(at(got, "choices"), at(wanted, "choices"));
  });
}

function firstPromptIds(events: readonly Json[]): Json {
  return at(events[0]!, "prompt_token_ids") ?? at(events[0]!, "choices", 0, "prompt_token_ids");
}

for (const [name, recording] of recordings("vllm-0.32.0-overload")) {
  test(`vLLM answers ${name} with a full queue as recorded`, async () => {
    const { simulator, clock, run } = simulated({ ...SERVER, cost: "8b", maxRunning: 1, maxQueued: 1 });
    const answer = await run(async () => {
      const busy = [0, 1].map(() =>
        ask(simulator, { path: "/v1/completions", body: { prompt: [1, 2, 3], max_tokens: 50 } })
      );
      await clock.sleep(10);
      const refused = await ask(simulator, recording.request);
      await Promise.all(busy);
      return refused;
    });
    assert.equal(answer.status, recording.status);
    assert.equal(answer.body, recording.body);
  });
}

test("vLLM metrics have recorded names with recorded labels", async () => {
  const { simulator, run } = simulated(SERVER);
  const answer = await run(() => ask(simulator, { path: "/metrics" }));
  const names = (text: string) =>
    new Map(
      text.split("\n").filter((line) => line.startsWith("vllm:")).map((line) => {
        const [, name = "", labels = ""] = /^([^{]+)\{(.*)\} /.exec(line) ?? [];
        return [name, labels.replace(/="[^"]*"/g, "")];
      }),
    );
  const ours = names(answer.body);
  for (const [name, labels] of names(RECORDED.get("get-metrics")!.body)) {
    if (name === "vllm:cache_config_info") {
      for (const label of ["block_size", "num_gpu_blocks", "kv_cache_size_tokens", "enable_prefix_caching"]) {
        assert.ok(ours.get(name)?.split(",").includes(label) === true, label);
      }
    } else assert.equal(ours.get(name), labels, name);
  }
  assert.equal(answer.headers["content-type"], RECORDED.get("get-metrics")!.headers["content-type"]);
});
