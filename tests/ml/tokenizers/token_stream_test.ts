import assert from "node:assert/strict";
import { test } from "node:test";
import { often } from "../../properties.ts";
import { Random } from "../../../base/random.ts";
import type { ModelTokenizer } from "../../../ml/tokenizers/model_tokenizer.ts";
import type { TokenStream } from "../../../ml/tokenizers/token_stream.ts";
import { type Fixture, loadFixture, randomText, shapes, variant } from "./tokenizer_shapes.ts";

const qwen = await loadFixture("tiny-qwen3");

/** Feeds texts in random pieces and compares what is stable with the encodings of several continuations. */
function checkStream(name: string, tokenizer: ModelTokenizer, texts: number): number {
  const { streaming } = tokenizer;
  assert.ok(streaming !== undefined && "open" in streaming, `${name}: ${JSON.stringify(streaming)}`);
  const random = new Random(`stream ${name}`);
  let cuts = 0;
  for (let i = 0; i < texts; i++) {
    const text = randomText(random, 1 + random.int(24));
    const whole = tokenizer.encode(text);
    const stream: TokenStream = streaming.open();
    for (let at = 0; at < text.length;) {
      const end = Math.min(text.length, at + 1 + random.int(random.pick([1, 4, 30])));
      stream.append(text.slice(at, end));
      at = end;
      assertPrefix(stream.stable, whole, () => `${name}: ${JSON.stringify([text, at])}`);
      cuts++;
      if (random.int(8) > 0) continue;
      // Another continuation, and then back.
      const mark = stream.mark();
      const soFar = text.slice(0, at);
      assert.deepEqual(stream.complete(), tokenizer.encode(soFar), `${name}: ${JSON.stringify(soFar)}`);
      const other = randomText(random, 2);
      const stable = [...stream.stable];
      stream.append(other);
      assertPrefix(
        stable,
        tokenizer.encode(soFar + other),
        () => `${name}: ${JSON.stringify([soFar, other])}`,
      );
      stream.reset(mark);
    }
    assert.deepEqual(stream.complete(), whole, `${name}: ${JSON.stringify(text)}`);
  }
  return cuts;
}

function assertPrefix(ids: readonly number[], whole: readonly number[], where: () => string): void {
  for (let i = 0; i < ids.length; i++) if (ids[i] !== whole[i]) assert.fail(`${where()} differs at ${i}`);
}

for (const shape of await shapes()) {
  test(`What is stable stays: ${shape.name}`, { timeout: 120_000 }, () => {
    const texts = often(150);
    assert.ok(checkStream(shape.name, shape.tokenizer, texts) > 5 * texts);
  });
}

test("Little is held back, and a long text takes a short time", () => {
  const { name, tokenizer } = qwen;
  assert.ok("open" in tokenizer.streaming);
  const stream: TokenStream = tokenizer.streaming.open();
  const text = "We think that the answer is 42, because the sum is even.\n".repeat(400);
  for (let at = 0; at < text.length; at += 5) {
    stream.append(text.slice(at, at + 5));
  }
  const whole = tokenizer.encode(text);
  assert.ok(whole.length - stream.stable.length <= 4, `${name}: ${whole.length - stream.stable.length}`);
});

test("A tokenizer that looks at whole texts is refused with a reason", () => {
  const refused: readonly [Partial<Fixture["files"]["tokenizer"]>, RegExp][] = [
    [{ normalizer: { type: "Lowercase" } }, /normaliser Lowercase/],
    [{ normalizer: { type: "Strip", strip_left: true, strip_right: true } }, /normaliser Strip/],
    [{ normalizer: { type: "Replace", pattern: { Regex: " +" }, content: " " } }, /single characters/],
    [{ pre_tokenizer: { type: "Whitespace" } }, /pre-tokeniser Whitespace/],
    [
      {
        pre_tokenizer: {
          type: "Split",
          pattern: { Regex: "(?<=a)b|[^b]+|b" },
          behavior: "Isolated",
          invert: false,
        },
      },
      /before a piece/,
    ],
    [
      { pre_tokenizer: { type: "Split", pattern: { Regex: "\\s+" }, behavior: "Removed", invert: false } },
      /drops text/,
    ],
  ];
  for (const [change, reason] of refused) {
    const { streaming } = variant(qwen, change);
    assert.ok("refusal" in streaming);
    assert.match(streaming.refusal, reason);
  }
});
