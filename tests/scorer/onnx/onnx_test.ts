import assert from "node:assert/strict";
import { test } from "node:test";
import { often } from "../../properties.ts";
import { Random } from "../../../base/random.ts";
import { EmbeddingTokenizer } from "../../../scorer/embedders/embedding_tokenizer.ts";
import type { OnnxFeatures } from "../../../scorer/embedders/onnx_features.ts";
import {
  distance,
  embed,
  exports,
  finish,
  modelFolder,
  normalised,
  openEmbedder,
  reference,
  referenceText,
} from "./onnx_reference.ts";

/** Some thousand tokens of many pieces. */
const LONG = referenceText("long").slice(0, Math.ceil(referenceText("long").length / 3));

/** Cuts a text anywhere, also inside of characters. */
function pieces(text: string, random: Random): string[] {
  const cut = [];
  for (let at = 0; at < text.length;) {
    const end = at + 1 + random.int(random.pick([3, 20, 300]));
    cut.push(text.slice(at, end));
    at = end;
  }
  return cut;
}

test("token ids are those of the Rust library, in one go and streamed in random pieces", async () => {
  const tokenizer = await EmbeddingTokenizer.load(modelFolder);
  const random = new Random("token ids");
  assert.equal(tokenizer.endId, 2022);
  for (const { id, text, ids, ids_plain } of reference.texts) {
    for (const cut of [[text], pieces(text, random), pieces(text, random)]) {
      const answer = tokenizer.open();
      for (const piece of cut) {
        answer.append(piece);
        assert.deepEqual(answer.stable, ids_plain.slice(0, answer.stable.length), id);
      }
      assert.deepEqual(answer.complete(), ids_plain, id);
      assert.deepEqual([...answer.complete(), tokenizer.endId], ids, id);
    }
  }
});

for (const { file, streams, tolerances } of exports) {
  test(`${file}: vectors, FCS, its unbiased form and cosines are torch's, in one go and streamed in random pieces`, async () => {
    const embedder = await openEmbedder(file);
    assert.equal(embedder.facts.details["streams"], streams);
    assert.equal(embedder.facts.details["dimensions"], 64);
    const { products } = Object(embedder.facts.details["arithmetic"]);
    assert.match(products, file.includes("int8") ? /^(exact|made_unsigned)$/ : /^none$/);
    const random = new Random(file);
    const rounds: Map<string, OnnxFeatures>[] = [];
    for (let round = 0; round < 2; round++) {
      const features = new Map<string, OnnxFeatures>();
      rounds.push(features);
      for (const { id, text, ids, embedding } of reference.texts) {
        const found = await embed(embedder, round === 0 ? [text] : pieces(text, random));
        features.set(id, found);
        assert.equal(found.tokens, ids.length);
        const error = distance(normalised(found.pooled), embedding);
        assert.ok(error <= tolerances.vector, `${id}, round ${round}: off by ${error}`);
      }
    }
    for (const { a, b, fcs, fcs_u, pooled_cosine } of reference.pairs) {
      for (const [index, features] of rounds.entries()) {
        const [left, right] = [features.get(a)!, rounds[(index + 1) % rounds.length]!.get(b)!];
        const near = async (metric: "fcs" | "fcs_u" | "cosine", expected: number, tolerance: number) => {
          const value = await left.compare(right, metric);
          assert.ok(
            Math.abs(value! - expected) <= tolerance,
            `${metric} of ${a}, ${b}: ${value} for ${expected}`,
          );
          assert.equal(await right.compare(left, metric), value, "the same in both directions");
        };
        await near("fcs", fcs, tolerances.fcs);
        // fcs_u divides by a difference of two numbers that are much larger.
        await near("fcs_u", fcs_u, tolerances.fcs > 1e-6 ? tolerances.fcs * 3 : tolerances.fcs);
        await near("cosine", pooled_cosine, tolerances.cosine);
      }
    }
    await embedder.close();
  });
}

test("an answer's numbers do not depend on the pace at which its text comes, bit for bit", async () => {
  for (const file of ["model_kv.onnx", "model_kv_int8.onnx"]) {
    const embedder = await openEmbedder(file);
    const random = new Random(file);
    const whole = await embed(embedder, [LONG]);
    for (let round = 0; round < often(1); round++) {
      const streamed = await embed(embedder, pieces(LONG, random));
      assert.deepEqual(streamed.pooled, whole.pooled);
      assert.equal(streamed.effectiveDimensions, whole.effectiveDimensions);
    }
    await embedder.close();
  }
});

for (const { text, max_tokens, keep, length, embedding } of reference.truncated) {
  test(`of a text that is too long the ${keep} ${max_tokens} tokens are embedded, the end token last`, async () => {
    for (const { file, tolerances } of exports) {
      const embedder = await openEmbedder(file, {
        span: keep === "first" ? "all" : "tail",
        maxTokens: max_tokens,
      });
      for (const cut of [[referenceText(text)], pieces(referenceText(text), new Random(keep))]) {
        const features = await embed(embedder, cut);
        assert.equal(features.tokens, length);
        const error = distance(normalised(features.pooled), embedding);
        assert.ok(error <= tolerances.vector, `${file}: off by ${error}`);
      }
      await embedder.close();
    }
  });
}

test("a text that ends in the end token gets another one: the model pools there", async () => {
  const embedder = await openEmbedder("model_kv.onnx");
  const [one, two] = [await embed(embedder, ["so be it"]), await embed(embedder, ["so be it<|endoftext|>"])];
  assert.equal(two.tokens, one.tokens + 1);
  await embedder.close();
});

test("answers that grow side by side do not disturb each other", async () => {
  const embedder = await openEmbedder("model_kv.onnx");
  const random = new Random("side by side");
  const open = reference.texts.map(({ id, text, embedding }) => ({
    id,
    embedding,
    answer: embedder.open(),
    text: id === "long" ? LONG : text.repeat(3),
  })).map((one) => ({ ...one, left: pieces(one.text, random) }));
  const alone = new Map<string, OnnxFeatures>();
  for (const { id, text } of open) alone.set(id, await embed(embedder, [text]));
  for (let busy = open; busy.length > 0; busy = busy.filter(({ left }) => left.length > 0)) {
    const one = random.pick(busy);
    const piece = one.left.shift();
    if (piece !== undefined) await one.answer.append(piece);
  }
  await Promise.all(open.map(async ({ id, answer }) => {
    assert.deepEqual((await finish(answer)).pooled, alone.get(id)!.pooled, id);
  }));
  await embedder.close();
});

test("without room in the cache answers are embedded when they are complete, with the same numbers", async () => {
  const text = LONG;
  const roomy = await openEmbedder("model_kv_int8.onnx");
  const whole = await embed(roomy, [text]);
  await roomy.close();
  const tight = await openEmbedder("model_kv_int8.onnx", { maxCachedTokens: 256 });
  const answers = Array.from({ length: 5 }, () => tight.open());
  for (const piece of pieces(text, new Random("tight"))) {
    await Promise.all(answers.map((answer) => answer.append(piece)));
  }
  // One of them never ends: what it holds is given back when it is closed.
  answers.pop()!.close();
  let turns = 0;
  for (let waiting = answers; waiting.length > 0;) {
    const [first, ...others] = waiting;
    const features = await first!.finish();
    turns++;
    if (features !== undefined) assert.deepEqual(features.pooled, whole.pooled);
    waiting = features === undefined ? [...others, first!] : others;
  }
  assert.ok(turns > 100, `each in many steps: ${turns}`);
  await tight.close();
});

test("an answer that is closed while it is embedded stops, and its room is free again", async () => {
  const embedder = await openEmbedder("model_kv.onnx", { maxCachedTokens: 64 });
  const answer = embedder.open();
  const work = answer.append(referenceText("long"));
  answer.close();
  answer.close();
  await assert.rejects(work, /closed/);
  await answer.append("more");
  const features = await embed(embedder, [referenceText("bakery_a")]);
  assert.ok(features.tokens > 10);
  await embedder.close();
});
