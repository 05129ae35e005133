import assert from "node:assert/strict";
import { test } from "node:test";
import { isJsonObject, type Json, type JsonObject } from "../../../base/json.ts";
import {
  ask,
  at,
  eventsOf,
  ids,
  type Recording,
  recordings,
  simulated,
  tinyTokenizer,
} from "../recordings.ts";
import { shape, streamShape } from "../shapes.ts";

const RECORDED = recordings("sglang-0.5.18");
const SERVER = {
  engine: "sglang",
  version: "0.5.18",
  tokenizer: tinyTokenizer,
  contextTokens: 32768,
  kvTokens: 65536,
  maxBatchedTokens: 2048,
} as const;

/** Answers of which the simulator has a part: every field that it has is in the recording, with the same type. */
const PARTIAL = new Set(["get_get_model_info", "get_model_info", "get_get_server_info", "get_server_info"]);

/** Counts that follow from what the random model said, from the order in a batch, or from the template of tools. */
const MODEL_ENDS = new Set([
  "chat_stop",
  "generate_stop_no_trim",
  "generate_stop_string",
  "generate_stop_stream",
  "generate_batch_stream",
  "chat_tools",
]);

/** The recorded body, with what the recording left out put back. */
function requestOf({ request }: Recording): Recording["request"] {
  if (!isJsonObject(request.body ?? null)) return request;
  const text = JSON.stringify(request.body)
    .replace(
      /"\[7, \.\.\. (\d+) ids\]"/,
      (_, count) => JSON.stringify(Array.from({ length: Number(count) }, () => 7)),
    )
    .replace(/"(?:a b )+[^"]*\.\.\. 80000 characters"/, () => JSON.stringify("a b ".repeat(20000)));
  // The stop token of that case must come: it did in the recording.
  const body: Json = JSON.parse(
    text.replace('"stop_token_ids":[305]', '"stop_token_ids":[305],"logit_bias":{"305":100}'),
  );
  const headers = Object.keys(request.headers).length > 0
    ? request.headers
    : { "content-type": "application/json" };
  return { ...request, headers, body };
}

for (const [name, recording] of RECORDED) {
  if (name === "get_metrics") continue;
  test(`SGLang answers ${name} as recorded`, async () => {
    const { simulator, run } = simulated({ ...SERVER, cost: name.includes("load") ? "8b" : "instant" });
    const request = requestOf(recording);
    const answer = await run(async () => {
      // The recorded server had seen most prompts before: a hit has another shape than a miss.
      if (/"cached_tokens(_details)?":(\{|[1-9])/.test(recording.body)) {
        await ask(simulator, unstreamed(request));
      }
      return await ask(simulator, request);
    });
    assert.equal(answer.status, recording.status, answer.body.slice(0, 300));
    const { date: _date, "content-length": _length, ...headers } = answer.headers;
    assert.deepEqual(headers, recording.headers);
    if (recording.status !== 200 || recording.body === "") {
      assert.equal(answer.body, recording.body);
      return;
    }
    if (recording.headers["content-type"]?.startsWith("text/event-stream") === true) {
      compareStreams(name, eventsOf(answer.body), eventsOf(recording.body));
      return;
    }
    const got: Json = JSON.parse(answer.body);
    const wanted: Json = JSON.parse(recording.body);
    if (PARTIAL.has(name)) return assertPart(got, wanted, name);
    assert.equal(shape(got), shape(wanted));
    compareCounts(name, got, wanted);
    for (const field of ["tokens", "count", "max_model_len", "prompt_token_ids", "id"]) {
      if (field === "id" && !JSON.stringify(request.body ?? null).includes('"rid"')) continue;
      assert.deepEqual(at(got, field), at(wanted, field), field);
    }
  });
}

function compareCounts(name: string, got: Json, wanted: Json): void {
  if (MODEL_ENDS.has(name)) return;
  for (
    const path of [["usage", "prompt_tokens"], ["usage", "completion_tokens"], [
      "choices",
      0,
      "finish_reason",
    ]]
  ) {
    assert.deepEqual(at(got, ...path), at(wanted, ...path), path.join("."));
  }
  for (
    const path of [["meta_info", "prompt_tokens"], ["meta_info", "completion_tokens"], [
      "meta_info",
      "finish_reason",
    ]]
  ) {
    assert.deepEqual(at(got, ...path), at(wanted, ...path), path.join("."));
  }
}

function compareStreams(name: string, got: readonly Json[], wanted: readonly Json[]): void {
  assert.deepEqual(streamShape(got), streamShape(wanted));
  compareCounts(name, got.at(-1)!, wanted.at(-1)!);
}

function unstreamed(request: Recording["request"]): Recording["request"] {
  const body: JsonObject = isJsonObject(request.body ?? null)
    ? { ...request.body as JsonObject, stream: false }
    : {};
  delete body["stream_options"];
  return { ...request, body };
}

function assertPart(part: Json, whole: Json, path: string): void {
  if (Array.isArray(part) && Array.isArray(whole)) {
    if (part.length > 0 && whole.length > 0) assertPart(part[0]!, whole[0]!, `${path}[0]`);
    return;
  }
  if (!isJsonObject(part) || !isJsonObject(whole)) {
    assert.equal(part === null ? "null" : typeof part, whole === null ? "null" : typeof whole, path);
    return;
  }
  for (const [key, value] of Object.entries(part)) {
    assert.ok(
      key in whole || key === "effective_max_running_requests_per_dp",
      `${path}.${key} is not in the recording`,
    );
    if (key in whole) assertPart(value, whole[key] ?? null, `${path}.${key}`);
  }
}

test("SGLang metrics have recorded names with recorded labels", async () => {
  const { simulator, run } = simulated(SERVER);
  const recording = RECORDED.get("get_metrics")!;
  const answer = await run(() => ask(simulator, { path: "/metrics" }));
  const names = (text: string) =>
    new Map(
      text.split("\n").filter((line) => line.startsWith("sglang:")).map((line) => {
        const [, name = "", labels = ""] = /^([^{]+)\{(.*)\} /.exec(line) ?? [];
        return [name, labels.replace(/="[^"]*"/g, "").split(",").sort().join()];
      }),
    );
  const recorded = names(recording.body);
  for (const [name, labels] of names(answer.body)) {
    if (!name.startsWith("sglang:num_aborted")) assert.equal(labels, recorded.get(name), name);
  }
  assert.equal(answer.headers["content-type"], recording.headers["content-type"]);
});

test("SGLang 0.5.23 adds its fields to meta_info and to usage", async () => {
  const { simulator, run } = simulated({ ...SERVER, version: "0.5.23" });
  const body = { input_ids: ids(300, 40), sampling_params: { max_new_tokens: 3, ignore_eos: true } };
  const native: Json = JSON.parse((await run(() => ask(simulator, { path: "/generate", body }))).body);
  assert.deepEqual(at(native, "meta_info", "weight_versions"), [{ version: "default", start: 0, end: 3 }]);
  assert.equal(typeof at(native, "meta_info", "first_token_latency"), "number");
  const chat = { messages: [{ role: "user", content: "Say hello." }], max_tokens: 2 };
  const answer: Json = JSON.parse(
    (await run(() => ask(simulator, { path: "/v1/chat/completions", body: chat }))).body,
  );
  assert.deepEqual(at(answer, "usage", "prompt_tokens_details"), { cached_tokens: 0 });
  assert.equal((await run(() => ask(simulator, { path: "/get_load" }))).status, 404);
});
