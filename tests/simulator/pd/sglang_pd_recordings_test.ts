import assert from "node:assert/strict";
import { test } from "node:test";
import { isJsonObject, type Json, type JsonObject } from "../../../base/json.ts";
import { makePair, type Pair } from "./pair.ts";
import { type Answer, ask, at, type Recording, recordingFile, tinyTokenizer } from "../recordings.ts";
import { shape, streamShape } from "../shapes.ts";

const LEGS = ["prefill", "decode", "registry"] as const;
type LegName = (typeof LEGS)[number];
type Request = Recording["request"];

/** What a leg answered; status 0: nothing while it was watched. */
interface RecordedLeg {
  readonly status: number;
  readonly headers: Record<string, string>;
  readonly body: string;
  /** Its own request where the legs differ. */
  readonly request?: Request;
}

type RecordedCase = { readonly request: Request } & { readonly [leg in LegName]?: RecordedLeg };

/** Answers of which the simulator has a part: every field that it has is in the recording, with the same type. */
const PARTIAL = new Set(["get_get_model_info", "get_model_info", "get_server_info"]);

/** Recorded when the other half had died of an earlier case, or left out of the simulator (`max_new_0`). */
const UNCOMPARABLE: Readonly<Record<string, readonly string[]>> = {
  "0.5.3.post3": ["n2", "room_0", "bootstrap_refused", "max_new_0", "get_metrics"],
  "0.5.10.post1": [
    "chat_logprobs",
    "logprob_start_0_top2",
    "logprob_start_m1_top2",
    "token_ids_logprob",
    "get_metrics",
  ],
  "0.5.18": ["get_metrics"],
  "0.5.23": ["get_metrics"],
};

/** Counts that follow from what the random model said. */
const MODEL_ENDS = new Set(["abort_decode_running_nonstream", "abort_decode_running_stream"]);

/** The legs' ids are aborted that long after their start. */
const ABORT_AFTER_MS = 1000;

/** Longer than any time-out of the recorded servers. */
const WATCHED_MS = 60_000;

for (const version of ["0.5.3.post3", "0.5.10.post1", "0.5.18", "0.5.23"]) {
  const cases = Object.entries(recordingFile<Record<string, RecordedCase>>(`sglang-pd-${version}`));
  for (const [name, recorded] of cases) {
    if (UNCOMPARABLE[version]?.includes(name)) continue;
    test(`A SGLang ${version} pair answers ${name} as recorded`, async () => {
      const running = name.startsWith("abort_decode_running");
      const pair = makePair({
        version,
        cost: running || name.startsWith("loads") ? "8b" : "instant",
        tokenizer: tinyTokenizer,
        contextTokens: 32768,
        kvTokens: 65536,
        maxBatchedTokens: version === "0.5.23" ? 4096 : 2048,
      });
      const answers = await pair.run(async () => {
        if (wasCached(recorded)) await pair.both(recorded.request.path, primer(recorded.request));
        if (/^(n2|room_0)$/.test(name)) await pair.both(recorded.request.path, primer(recorded.request));
        return await play(name, pair, recorded);
      });
      for (const leg of LEGS) {
        const wanted = recorded[leg];
        if (wanted !== undefined) compare(`${name}.${leg}`, name, answers.get(leg), wanted);
      }
    });
  }
}

/** Sends the legs of a case as they were sent; legs that never answer have no answer. */
async function play(name: string, pair: Pair, recorded: RecordedCase): Promise<Map<LegName, Answer>> {
  const answers = new Map<LegName, Answer>();
  const watched = new AbortController();
  const legs = LEGS.flatMap((leg) => recorded[leg] === undefined ? [] : [leg]);
  const sent = legs.map(async (leg) => {
    const answer = await ask(
      leg === "decode" ? pair.decode : pair.prefill,
      { ...requestOf(recorded[leg]?.request ?? recorded.request, leg) },
      watched.signal,
    );
    answers.set(leg, answer);
  });
  if (name.startsWith("abort_") && name !== "abort_prefill_while_decode_waits") {
    await pair.clock.sleep(ABORT_AFTER_MS);
    for (const leg of legs) {
      if (leg === "registry" || recorded[leg]?.status === 0) continue;
      const body = { rid: at(recorded.request.body ?? null, "rid") };
      await ask(leg === "decode" ? pair.decode : pair.prefill, { path: "/abort_request", body });
    }
  }
  await Promise.race([Promise.allSettled(sent), pair.clock.sleep(WATCHED_MS)]);
  watched.abort(new Error("Not watched any longer"));
  return answers;
}

function requestOf(request: Request, leg: LegName): Request {
  const text = JSON.stringify(request.body ?? null)
    .replace(
      /"\[(\d+), \.\.\. (\d+) ids\]"/,
      (_, first, count) => JSON.stringify(Array.from({ length: Number(count) }, () => Number(first))),
    )
    // The stop string of that case must come: it did in the recording.
    .replace('"stop":["w w"]', '"stop":["w w"],"logit_bias":{"305":100}');
  const body: Json = JSON.parse(text);
  return {
    method: request.method,
    path: leg === "registry" ? `:8998${request.path}` : request.path,
    headers: { "content-type": "application/json" },
    ...(body === null ? {} : { body }),
  };
}

/** The recorded servers had seen most prompts before: a hit has another shape than a miss. */
function wasCached(recorded: RecordedCase): boolean {
  return LEGS.some((leg) => /"cached_tokens(_details)?":(\{|[1-9])/.test(recorded[leg]?.body ?? ""));
}

/** The same prompt, plainly asked, in a room of its own. */
function primer(request: Request): JsonObject {
  const { body } = requestOf(request, "prefill");
  const full: JsonObject = isJsonObject(body ?? null) ? { ...body as JsonObject, stream: false } : {};
  for (
    const field of [
      "bootstrap_room",
      "bootstrap_port",
      "bootstrap_host",
      "stream_options",
      "rid",
      "return_logprob",
      "top_logprobs_num",
      "n",
    ]
  ) delete full[field];
  if (isJsonObject(full["sampling_params"] ?? null)) {
    full["sampling_params"] = { max_new_tokens: 2, ignore_eos: true };
  }
  return full;
}

function compare(
  path: string,
  name: string,
  answer: Answer | undefined,
  wanted: RecordedLeg,
): void {
  if (wanted.status === 0) {
    assert.equal(answer, undefined, `${path} never answers`);
    return;
  }
  assert.ok(answer !== undefined, `${path} answers`);
  assert.equal(answer.status, wanted.status, `${path}: ${answer.body.slice(0, 300)}`);
  const { date: _date, "content-length": _length, ...headers } = answer.headers;
  assert.deepEqual(headers, wanted.headers, path);
  const stream = wanted.headers["content-type"]?.startsWith("text/event-stream") === true;
  if (wanted.status !== 200 || wanted.body === "" || wanted.body.includes('data: {"error"')) {
    assert.equal(plain(answer.body), plain(wanted.body), path);
  } else if (stream) {
    assert.equal(answer.body.endsWith("data: [DONE]\n\n"), wanted.body.endsWith("data: [DONE]\n\n"), path);
    const events = payloads(answer.body);
    assert.deepEqual(streamShape(events), streamShape(payloads(wanted.body)), path);
    compareCounts(path, name, events.at(-1)!, payloads(wanted.body).at(-1)!);
  } else if (!wanted.body.startsWith("{") && !wanted.body.startsWith("[")) {
    assert.equal(answer.body, wanted.body, path);
  } else {
    const got: Json = JSON.parse(answer.body);
    const want: Json = JSON.parse(wanted.body);
    if (PARTIAL.has(name)) return assertPart(got, want, path);
    assert.equal(shape(got), shape(want), path);
    compareCounts(path, name, got, want);
  }
}

/** A body without ids, clocks and source lines. */
function plain(body: string): string {
  return body
    .replace(/rid='[^']*'/g, "rid='R'")
    .replace(/"id":"[0-9a-f]{32}"/g, '"id":"R"')
    .replace(/line \d+, in/g, "line L, in")
    .replace(/timed out after 1\d\.\ds/g, "timed out after 12.0s");
}

function payloads(body: string): Json[] {
  return body.split("\n\n").filter((event) => event.startsWith("data: {"))
    .map((event) => JSON.parse(event.slice("data: ".length)));
}

function compareCounts(path: string, name: string, got: Json, wanted: Json): void {
  if (MODEL_ENDS.has(name)) return;
  const steps = [
    ["usage", "prompt_tokens"],
    ["usage", "completion_tokens"],
    ["choices", 0, "finish_reason"],
    ["meta_info", "prompt_tokens"],
    ["meta_info", "completion_tokens"],
    ["meta_info", "cached_tokens"],
  ];
  for (const step of steps) {
    assert.deepEqual(at(got, ...step), at(wanted, ...step), `${path} ${step.join(".")}`);
  }
  assert.equal(
    plain(JSON.stringify(at(got, "meta_info", "finish_reason"))).replace(/room=\d+|Request \d+/g, ""),
    plain(JSON.stringify(at(wanted, "meta_info", "finish_reason"))).replace(/room=\d+|Request \d+/g, ""),
    path,
  );
  const lengths = [at(got, "output_ids"), at(wanted, "output_ids")].map((list) =>
    Array.isArray(list) ? list.length : undefined
  );
  assert.equal(lengths[0], lengths[1], `${path} output_ids`);
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

test("The metrics of a pair's halves have recorded names with recorded labels", async () => {
  for (const version of ["0.5.3.post3", "0.5.10.post1", "0.5.18", "0.5.23"]) {
    const recorded = recordingFile<Record<string, RecordedCase>>(`sglang-pd-${version}`)["get_metrics"]!;
    const pair = makePair({ version });
    const answer = await pair.run(() => ask(pair.prefill, { path: "/metrics" }));
    const wanted = gauges(recorded.prefill?.body ?? "");
    const got = gauges(answer.body);
    assert.ok([...got.keys()].filter((name) => name.includes("_queue_reqs")).length >= 4);
    for (const [name, labels] of got) {
      if (name.includes("_queue_reqs")) assert.equal(labels, wanted.get(name), `${version} ${name}`);
    }
  }
});

/** Labels by metric. */
function gauges(text: string): Map<string, string> {
  return new Map(
    text.split("\n").filter((line) => line.startsWith("sglang:")).map((line) => {
      const [, name = "", labels = ""] = /^([^{]+)\{(.*)\} /.exec(line) ?? [];
      return [name, labels.replace(/model_name="[^"]*"/, "").split(",").sort().join()];
    }),
  );
}
