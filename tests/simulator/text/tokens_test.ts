import assert from "node:assert/strict";
import { test } from "node:test";
import { anyCharacter, fc } from "../../properties.ts";
import type { Json, JsonObject } from "../../../base/json.ts";
import { builtinTokenizer } from "../../../simulator/server/backend.ts";
import { BuiltinDetokenizer, speechOf } from "../../../simulator/text/tokenizer.ts";
import { HashedSource } from "../../../simulator/text/tokens.ts";
import { ask, at, eventsOf, ids, json, simulated, tinyTokenizer } from "../recordings.ts";

const TOKENIZERS = { builtin: builtinTokenizer(), tiny: tinyTokenizer };

test("The built-in tokenizer gives any text back", () => {
  const tokenizer = builtinTokenizer();
  fc.assert(fc.property(fc.string({ unit: anyCharacter }), (text) => {
    const clean = text.toWellFormed();
    assert.equal(tokenizer.decode(tokenizer.encode(clean)), clean);
  }));
  assert.equal(
    tokenizer.encode("<|im_start|>user\nHi<|im_end|>").filter((id) => id >= tokenizer.vocabSize - 5).length,
    2,
  );
  assert.equal(tokenizer.decode(tokenizer.encode("a<|im_end|>b"), { skipSpecialTokens: true }), "ab");
});

test("Unknown words cost few tokens, known ones cost one", () => {
  const tokenizer = builtinTokenizer();
  assert.equal(tokenizer.encode("The answer is the sum of the numbers.").length, 9);
  assert.ok(tokenizer.encode("Incremental prefilling shortens successors' waiting").length <= 24);
});

for (const [name, tokenizer] of Object.entries(TOKENIZERS)) {
  test(`Hashed text tokenises back to its ids with the ${name} tokenizer`, () => {
    const speech = speechOf(tokenizer);
    for (let seed = 0; seed < 20; seed++) {
      const prompt = tokenizer.encode("<|im_start|>assistant\n");
      const source = new HashedSource(speech, prompt, "model", seed);
      const made = Array.from({ length: 200 }, () => source.next(false));
      const text = tokenizer.decode(made);
      assert.deepEqual(tokenizer.encode(text.toWellFormed()), made.slice(0, tokenizer.encode(text).length));
    }
  });

  test(`Text made token by token is the text of all tokens with the ${name} tokenizer`, () => {
    const speech = speechOf(tokenizer);
    const text = "Straße, naïve café: 世界 😀 done.\nx";
    const made = tokenizer.encode(text);
    const detokenizer = new BuiltinDetokenizer(speech);
    const pieces = made.map((id) => detokenizer.push(id));
    assert.equal(pieces.join("") + detokenizer.flush(), text);
    assert.ok(pieces.every((piece) => !piece.includes("\ufffd")));
    assert.ok(pieces.includes(""), "bytes of an unfinished character are held back");
  });
}

async function tokensOf(engine: "vllm" | "sglang", path: string, body: JsonObject): Promise<Json> {
  const { simulator, run } = simulated({ engine });
  const answer = json(await run(() => ask(simulator, { path, body })));
  return at(answer, "output_ids") ?? at(answer, "choices", 0, "token_ids") ??
    at(answer, "choices", 0, "response_token_ids");
}

test("A prompt gets the same tokens from both engines, as text, as ids and as a chat", async () => {
  const tokenizer = builtinTokenizer();
  const messages = [{ role: "system", content: "Be brief." }, { role: "user", content: "Name a colour." }];
  const prompt = tokenizer.renderChat(messages);
  const promptIds = tokenizer.encode(prompt);
  const end = { max_tokens: 30, return_token_ids: true, ignore_eos: true };
  const native = { sampling_params: { max_new_tokens: 30, ignore_eos: true } };
  const all = await Promise.all([
    tokensOf("vllm", "/v1/completions", { prompt, ...end }),
    tokensOf("vllm", "/v1/completions", { prompt: promptIds, ...end }),
    tokensOf("vllm", "/v1/chat/completions", { messages, ...end }),
    tokensOf("sglang", "/generate", { text: prompt, ...native }),
    tokensOf("sglang", "/generate", { input_ids: promptIds, ...native }),
    tokensOf("sglang", "/v1/completions", { prompt, ...end }),
    tokensOf("sglang", "/v1/chat/completions", { messages, ...end }),
  ]);
  assert.ok(Array.isArray(all[0]) && all[0].length === 30);
  for (const other of all) assert.deepEqual(other, all[0]);
});

test("A seed, and any token of the prompt, change the answer; a cut answer goes on as it would have", async () => {
  const ask30 = (prompt: Json, more: JsonObject = {}) =>
    tokensOf("vllm", "/v1/completions", {
      prompt,
      max_tokens: 30,
      ignore_eos: true,
      return_token_ids: true,
      ...more,
    });
  const prompt = ids(300, 50);
  const whole = await ask30(prompt);
  assert.ok(Array.isArray(whole));
  assert.notDeepEqual(await ask30(prompt, { seed: 7 }), whole);
  assert.notDeepEqual(await ask30([...prompt.slice(0, 10), 9, ...prompt.slice(11)]), whole);
  assert.deepEqual(await ask30(prompt, { temperature: 1, top_p: 0.5, priority: 3 }), whole);
  const rest = await ask30([...prompt, ...whole.slice(0, 12)]);
  assert.ok(Array.isArray(rest));
  assert.deepEqual(rest.slice(0, 18), whole.slice(12));
});

test("Log-probabilities are negative, the chosen token is the likeliest, and they add up to at most 1", async () => {
  const { simulator, run } = simulated();
  const body = { prompt: ids(300, 20), max_tokens: 50, logprobs: 5, ignore_eos: true };
  const answer = json(await run(() => ask(simulator, { path: "/v1/completions", body })));
  const chosen = at(answer, "choices", 0, "logprobs", "token_logprobs");
  const tops = at(answer, "choices", 0, "logprobs", "top_logprobs");
  assert.ok(Array.isArray(chosen) && Array.isArray(tops) && chosen.length === 50);
  for (const [i, top] of tops.entries()) {
    const values = Object.values(top as JsonObject).map(Number);
    assert.equal(values.length, 5);
    assert.ok(Number(chosen[i]) < 0);
    assert.equal(Math.max(...values), chosen[i]);
    assert.ok(values.reduce((sum, value) => sum + Math.exp(value), 0) <= 1.000001);
  }
});

test("Answers end by themselves, unless ignore_eos or min_tokens keep them going", async () => {
  const { simulator, run } = simulated({ contextTokens: 20_000 });
  await run(async () => {
    const ends = new Map<Json, number>();
    for (let seed = 0; seed < 40; seed++) {
      const body = { messages: [{ role: "user", content: "Go on." }], max_tokens: 2000, seed };
      const answer = json(await ask(simulator, { path: "/v1/chat/completions", body }));
      const reason = at(answer, "choices", 0, "finish_reason");
      ends.set(reason, (ends.get(reason) ?? 0) + 1);
      assert.notEqual(at(answer, "choices", 0, "message", "content"), "");
    }
    assert.ok((ends.get("stop") ?? 0) > 30, JSON.stringify([...ends]));
    for (const more of [{ ignore_eos: true }, { min_tokens: 2000 }]) {
      const body = { messages: [{ role: "user", content: "Go on." }], max_tokens: 2000, ...more };
      const answer = json(await ask(simulator, { path: "/v1/chat/completions", body }));
      assert.equal(at(answer, "usage", "completion_tokens"), 2000);
      assert.equal(at(answer, "choices", 0, "finish_reason"), "length");
    }
  });
});

test("Stop strings cut the text, however they lie over the tokens, and vLLM never streams a part of one", async () => {
  const { simulator, run } = simulated();
  await run(async () => {
    const prompt = ids(300, 20);
    const plain = json(
      await ask(simulator, { path: "/v1/completions", body: { prompt, max_tokens: 60, ignore_eos: true } }),
    );
    const text = at(plain, "choices", 0, "text");
    assert.ok(typeof text === "string");
    for (let start = 5; start < 60; start += 7) {
      for (const length of [1, 3, 9]) {
        const stop = text.slice(start, start + length);
        const cut = text.slice(0, text.indexOf(stop));
        const body = { prompt, max_tokens: 60, ignore_eos: true, stop: [stop] };
        const whole = json(await ask(simulator, { path: "/v1/completions", body }));
        assert.equal(at(whole, "choices", 0, "text"), cut);
        assert.equal(at(whole, "choices", 0, "stop_reason"), stop);
        const events = eventsOf(
          (await ask(simulator, { path: "/v1/completions", body: { ...body, stream: true } })).body,
        );
        assert.equal(events.map((event) => at(event, "choices", 0, "text")).join(""), cut);
        const included = { ...body, include_stop_str_in_output: true };
        const kept = json(await ask(simulator, { path: "/v1/completions", body: included }));
        assert.equal(at(kept, "choices", 0, "text"), cut + stop);
      }
    }
  });
});
