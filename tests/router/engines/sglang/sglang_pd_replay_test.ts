import assert from "node:assert/strict";
import { test } from "node:test";
import { CanopyError } from "../../../../base/errors.ts";
import type { JsonObject } from "../../../../base/json.ts";
import type { MemoryHandler } from "../../../../router/transport/memory.ts";
import { EngineError } from "../../../../router/worker/engine_error.ts";
import { FakePair } from "../fake_pair.ts";
import {
  chatRequest,
  collect,
  type Collected,
  engineOver,
  never,
  placement,
  textRequest,
} from "../harness.ts";
import { loadCase, replay } from "../wire.ts";

const VERSIONS = ["0.5.3.post3", "0.5.10.post1", "0.5.18", "0.5.23"] as const;

/** The recorded answer of one half. */
async function half(version: string, name: string, which: "prefill" | "decode") {
  return await loadCase(`sglang-cpu-pd-${version}`, `${name}.${which}`);
}

async function generated(pair: FakePair, chat: boolean): Promise<Collected> {
  const answer = collect(pair.engine.generate(chat ? chatRequest : textRequest, pair.at, never));
  let open = true;
  answer.then(() => open = false, () => open = false);
  while (open) await pair.clock.advance(pair.clock.now() + 100);
  return await answer;
}

async function failureOf(version: string, name: string, chat: boolean, decode: MemoryHandler | undefined) {
  const pair = new FakePair({ capabilities: { version } });
  pair.answers.prefill = replay(await half(version, name, "prefill"));
  pair.answers.decode = decode ?? pair.hanging("decode");
  try {
    await generated(pair, chat);
  } catch (error) {
    assert.ok(CanopyError.is(error), String(error));
    assert.equal(pair.transport.inFlight, 0);
    assert.ok(pair.log.includes("decode abort"), "decode was waiting, and is told");
    return error;
  }
  throw new Error("it was answered");
}

for (const version of VERSIONS) {
  test(`SGLang ${version}: recorded pairs give what decode's stream alone says`, async () => {
    for (const name of ["generate_stream", "chat_stream"]) {
      const chat = name === "chat_stream";
      const pair = new FakePair({ capabilities: { version } });
      pair.answers.prefill = replay(await half(version, name, "prefill"));
      const decode = await half(version, name, "decode");
      pair.answers.decode = replay(decode);
      const alone = engineOver("sglang", replay(decode), { capabilities: { version } });
      const request = chat ? chatRequest : textRequest;
      const expected = await collect(alone.engine.generate(request, placement, never));
      assert.deepEqual(await generated(pair, chat), expected);
      assert.ok(expected.text.length > 0 && (expected.usage?.completionTokens ?? 0) > 1);
      assert.deepEqual(pair.log, ["prefill released ok"]);
      assert.equal(pair.clock.pendingTimers, 0);
    }
  });

  test(`SGLang ${version}: a recorded refusal of prefill is the answer while decode waits`, async () => {
    for (
      const [name, chat] of [["missing_room_stream", false], [
        "no_bootstrap_fields_chat_stream",
        true,
      ]] as const
    ) {
      const error = await failureOf(version, name, chat, undefined);
      // The error events of 0.5.3's `/generate` carry no status.
      const status = version === "0.5.3.post3" && !chat ? 502 : 400;
      assert.equal(error.status, status, `${name}: ${error.message}`);
      assert.match(error.message, /bootstrap room|boostrap room/);
    }
    const long = await failureOf(version, "too_long", false, undefined);
    assert.equal(long.status, 400);
    assert.match(long.message, /longer than the model's context length/);
  });

  test(`SGLang ${version}: a recorded time-out of decode is a failed hand-off, to be tried elsewhere`, async () => {
    for (
      const [name, chat] of [["decode_only_timeout_stream", false], [
        "decode_only_timeout_chat_stream",
        true,
      ]] as const
    ) {
      const pair = new FakePair({ capabilities: { version } });
      pair.answers.prefill = pair.hanging("prefill");
      pair.answers.decode = replay(await half(version, name, "decode"));
      const error = await generated(pair, chat).then(() => undefined, (error: unknown) => error);
      assert.ok(error instanceof EngineError && error.retryable, String(error));
      assert.ok(error.status >= 500);
      // 0.5.3 only ends its stream: that is decode's failure, as far as anybody can tell.
      const both = version === "0.5.3.post3" ? [] : ["prefill released failed"];
      const blamed = pair.log.filter((line) => line.includes("released"));
      assert.deepEqual(blamed, [...both, "decode released failed"], `${name}: ${error.message}`);
    }
  });
}

test("the fixtures are of pairs: both halves of a recorded request had the same body", async () => {
  for (const version of VERSIONS) {
    const [prefill, decode] = await Promise.all([
      half(version, "generate_stream", "prefill"),
      half(version, "generate_stream", "decode"),
    ]);
    const body = (one: JsonObject | null | undefined) => ({ ...one, rid: undefined });
    assert.deepEqual(body(prefill.request.body), body(decode.request.body));
  }
});
