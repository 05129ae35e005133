import assert from "node:assert/strict";
import { test } from "node:test";
import { VirtualClock } from "../../../base/clock.ts";
import { createSimulator } from "../../../simulator/simulator.ts";

/** Texts of a streamed chat answer of ten tokens, piece by piece, and when each came, in ms. */
async function pieces(engine: "vllm" | "sglang", streamInterval?: number) {
  const clock = new VirtualClock();
  const simulator = createSimulator({ engine, models: ["m"], cost: "8b", clock, seed: "x", streamInterval });
  return await clock.run(async () => {
    const body = {
      model: "m",
      messages: [{ role: "user", content: "Hello?" }],
      stream: true,
      max_tokens: 10,
      ignore_eos: true,
    };
    const response = await simulator.handle({
      method: "POST",
      url: "http://sim/v1/chat/completions",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
    }, new AbortController().signal);
    const found: { readonly text: string; readonly atMs: number }[] = [];
    for await (const bytes of response.body) {
      for (
        const [, text = ""] of new TextDecoder().decode(bytes).matchAll(/"content":("(?:[^"\\]|\\.)+")/g)
      ) {
        if (text !== '""') found.push({ text: JSON.parse(text), atMs: clock.now() });
      }
    }
    return found;
  });
}

test("a stream interval puts several tokens into a piece, behind a first one of its own, and changes neither text nor time", async () => {
  for (const engine of ["vllm", "sglang"] as const) {
    const [each, fours] = [await pieces(engine), await pieces(engine, 4)];
    const text = (all: typeof each) => all.map((one) => one.text).join("");
    assert.equal(text(fours), text(each));
    assert.ok(each.length > 6, `${each.length} pieces`);
    assert.equal(fours.length, 4, "of 1, 4, 4 tokens and the last one");
    assert.deepEqual([fours[0], fours.at(-1)!.atMs], [each[0], each.at(-1)!.atMs], engine);
  }
});
