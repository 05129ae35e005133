import assert from "node:assert/strict";
import { rm } from "node:fs/promises";
import { dirname } from "node:path";
import { after, test } from "node:test";
import { fc, often } from "../../properties.ts";
import { CanopyError } from "../../../base/errors.ts";
import type { Generator } from "../../../embedded/scheduler/generator.ts";
import {
  collect,
  generate,
  greedy,
  type GreedyCase,
  requestOf,
  startTiny,
  TINY_TOKEN_BYTES,
  tinyPath,
  torchCases,
  vllmCases,
} from "../tiny.ts";
import { writeTinyFused } from "../tiny_fused.ts";

const fused = await writeTinyFused();
after(() => rm(dirname(fused), { recursive: true }));
const generator = await startTiny();
after(() => generator.close());
const fusedGenerator = await startTiny({ path: fused });
after(() => fusedGenerator.close());
/** The same weights: one copies its cache in each step, the other appends to it. */
const forms = [
  { form: "standard operators", path: tinyPath, generator },
  { form: "fused attention", path: fused, generator: fusedGenerator },
] as const;
const torch = await torchCases();
const never = new AbortController().signal;

function assertNear(actual: readonly (number | undefined)[], expected: readonly number[], tolerance: number) {
  assert.equal(actual.length, expected.length);
  for (const [index, value] of expected.entries()) {
    assert.ok(Math.abs(actual[index]! - value) <= tolerance, `${index}: ${actual[index]} for ${value}`);
  }
}

async function check(
  generator: Generator,
  { name, promptIds, ids, logprobs, logitBias, stopIds }: GreedyCase,
) {
  const request = { ...requestOf(promptIds, ids.length), sampling: { ...greedy, logitBias }, stopIds };
  const outcome = await generate(generator, request);
  assert.deepEqual(outcome.ids, ids, name);
  if (logprobs !== undefined) assertNear(outcome.logprobs, logprobs, 1e-3);
  assert.equal(outcome.reason, stopIds.has(ids.at(-1)!) ? "stop" : "length", name);
}

test("facts say what the generator works with", () => {
  const { arithmetic, check, ...facts } = generator.facts;
  assert.equal(check, undefined);
  assert.equal(arithmetic.products, "none");
  assert.ok(arithmetic.cpu.length > 3);
  assert.deepEqual(facts, {
    model: "tiny",
    file: "model.onnx",
    vocabSize: 1920,
    maxContextTokens: 4096,
    threads: 1,
    fallbacks: [],
  });
});

/** A first token for each prompt, so that nothing is known of it. */
let salt = 1000;

for (const { form, path, generator } of forms) {
  test(`greedy answers and their log-probabilities are torch's, with ${form}`, async () => {
    assert.equal(torch.length, 6);
    for (const one of torch) await check(generator, one);
  });

  test(`greedy answers and their log-probabilities are vLLM's, for each prompt that it was recorded with, with ${form}`, async () => {
    const cases = await vllmCases();
    assert.ok(cases.length >= 12, `${cases.length} were found`);
    assert.ok(cases.filter(({ logprobs }) => logprobs !== undefined).length >= 4);
    for (const one of cases) await check(generator, one);
  });

  test(`side by side, sequences answer as they do alone, with ${form}`, async () => {
    const outcomes = await Promise.all(
      [...torch, ...torch].map(({ promptIds, ids }) => generate(generator, requestOf(promptIds, ids.length))),
    );
    for (const [index, { ids, logprobs }] of outcomes.entries()) {
      const expected = torch[index % torch.length]!;
      assert.deepEqual(ids, expected.ids);
      assertNear(logprobs, expected.logprobs!, 1e-3);
    }
  });

  test(`whatever comes and goes, greedy answers are those of each alone, with ${form}`, async () => {
    const alone = new Map<string, Promise<number[]>>();
    const answerTo = (promptIds: readonly number[], tokens: number): Promise<number[]> => {
      const key = `${promptIds}/${tokens}`;
      const known = alone.get(key) ??
        generate(generator, requestOf(promptIds, tokens)).then(({ ids }) => ids);
      alone.set(key, known);
      return known;
    };
    const job = fc.record({
      which: fc.nat({ max: torch.length - 2 }),
      length: fc.integer({ min: 1, max: 8 }),
      tokens: fc.integer({ min: 1, max: 40 }),
      /** It comes when the one before has said so much, and leaves when it has itself. */
      after: fc.nat({ max: 20 }),
      leaveAt: fc.option(fc.integer({ min: 1, max: 40 }), { freq: 5 }),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(job, { minLength: 2, maxLength: 8 }), async (jobs) => {
        const outcomes: Promise<number[]>[] = [];
        for (const [index, { which, length, tokens, leaveAt }] of jobs.entries()) {
          let onEnough = () => {};
          const enough = new Promise<void>((resolve) => onEnough = resolve);
          const request = requestOf(torch[which]!.promptIds.slice(0, length), tokens);
          const answer = async (): Promise<number[]> => {
            const ids: number[] = [];
            for await (const event of generator.generate(request, never)) {
              if (event.type === "token") ids.push(event.token.id);
              if (ids.length >= (jobs[index + 1]?.after ?? 0)) onEnough();
              if (ids.length === leaveAt) break;
            }
            onEnough();
            return ids;
          };
          outcomes.push(answer());
          await enough;
        }
        for (const [index, ids] of (await Promise.all(outcomes)).entries()) {
          const { which, length, tokens, leaveAt } = jobs[index]!;
          const expected = await answerTo(torch[which]!.promptIds.slice(0, length), tokens);
          assert.deepEqual(ids, expected.slice(0, leaveAt ?? tokens));
        }
      }),
      { numRuns: often(5) },
    );
  });

  test(`any split of a prompt into warms gives the same answer, and each warm finds the one before in full, with ${form}`, async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.nat({ max: torch.length - 1 }),
        fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { maxLength: 4 }),
        async (index, cuts) => {
          const promptIds = [salt++, ...torch[index]!.promptIds];
          const ends = [...new Set(cuts.map((cut) => Math.ceil(cut * promptIds.length)))].filter((end) =>
            end > 0
          );
          let known = 0;
          for (const end of ends.sort((a, b) => a - b)) {
            const warm = await generate(generator, requestOf(promptIds.slice(0, end), 0));
            assert.deepEqual(warm, { cachedTokens: known, ids: [], logprobs: [], reason: "length" });
            known = end;
          }
          const outcome = await generate(generator, requestOf(promptIds, 8));
          assert.equal(outcome.cachedTokens, Math.min(known, promptIds.length - 1));
          const cold = await startTinyOnce();
          const expected = await generate(cold, requestOf(promptIds, 8));
          assert.equal(expected.cachedTokens, 0);
          assert.deepEqual(outcome.ids, expected.ids);
          for (const [at, value] of expected.logprobs.entries()) {
            assert.ok(Math.abs(outcome.logprobs[at]! - value!) < 1e-4);
          }
        },
      ),
      { numRuns: often(10) },
    );
  });

  test(`when memory is short sequences wait, or are computed again; their answers stay the same, with ${form}`, async () => {
    const prompts = Array.from(
      { length: 7 },
      (_, index) => Array.from({ length: 100 }, (_, at) => (index * 31 + at * 7) % 1900),
    );
    const [{ generator: roomy }] = forms;
    const expected = await Promise.all(prompts.map((ids) => generate(roomy, requestOf(ids, 40))));
    // Room for three and a half of them at their end.
    const tight = await startTiny({ path, cacheBytes: 500 * TINY_TOKEN_BYTES, maxContextTokens: 170 });
    const outcomes = await Promise.all(prompts.map((ids) => generate(tight, requestOf(ids, 40))));
    for (const [index, { ids }] of outcomes.entries()) {
      assert.deepEqual(ids, expected[index]!.ids, `${index}`);
    }
    const { cachedTokens, cacheCapacityTokens, running, waiting } = tight.counts();
    assert.equal(cacheCapacityTokens, 500);
    assert.ok(cachedTokens > 0 && cachedTokens <= 500);
    assert.equal(running + waiting, 0);
    await tight.close();
  });
}

/** Another one, which is never warmed: each prompt is sent to it once. */
let coldGenerator: ReturnType<typeof startTiny> | undefined;
function startTinyOnce() {
  return coldGenerator ??= startTiny();
}
after(async () => await (await coldGenerator)?.close());

test("an answer is known as a prefix of the next question", async () => {
  const prompt = [7, ...torch[0]!.promptIds];
  const { ids } = await generate(generator, requestOf(prompt, 12));
  const next = await generate(generator, requestOf([...prompt, ...ids, 5, 6], 2));
  // The last token was drawn and never computed.
  assert.equal(next.cachedTokens, prompt.length + ids.length - 1);
});

test("an abort ends a sequence between two tokens and leaves nothing behind", async () => {
  const controller = new AbortController();
  const reason = new Error("enough");
  let tokens = 0;
  await assert.rejects(async () => {
    for await (const event of generator.generate(requestOf([9, 9, 9], 4000), controller.signal)) {
      if (event.type === "token" && ++tokens === 3) controller.abort(reason);
    }
  }, reason);
  assert.equal(tokens, 3);
  const before = generator.counts().generatedTokens;
  const { ids } = await generate(generator, requestOf([8, 8], 4));
  assert.equal(ids.length, 4);
  const { running, waiting, generatedTokens } = generator.counts();
  assert.equal(running + waiting, 0);
  assert.ok(generatedTokens - before < 100, "it went on for a while at most");
});

test("who stops listening aborts, and an abort before the start is told at once", async () => {
  for await (const event of generator.generate(requestOf([9, 8, 7], 4000), never)) {
    if (event.type === "token") break;
  }
  await generate(generator, requestOf([8], 1));
  assert.equal(generator.counts().running, 0);
  const reason = new Error("too late");
  await assert.rejects(collect(generator.generate(requestOf([1], 1), AbortSignal.abort(reason))), reason);
});

test("what cannot be computed is refused, with the field at fault", async () => {
  for (const promptIds of [[], [1920], [-1], [0.5], new Array<number>(4096).fill(1)]) {
    await assert.rejects(generate(generator, requestOf(promptIds, 1)), (error) => {
      assert.ok(CanopyError.is(error));
      assert.deepEqual([error.status, error.param], [400, "prompt"]);
      return true;
    });
  }
});

test("an answer ends where the context does", async () => {
  const small = await startTiny({ maxContextTokens: 40 });
  const { ids, reason } = await generate(small, requestOf(new Array<number>(30).fill(3), 100));
  assert.deepEqual([ids.length, reason], [10, "length"]);
  await small.close();
});

test("a cache too small for one sequence, and a file that is no decoder, are said in one sentence", async () => {
  await assert.rejects(startTiny({ cacheBytes: 10 * TINY_TOKEN_BYTES }), /hold 10 tokens of its cache/);
  await assert.rejects(startTiny({ path: "tests/fixtures/no.onnx" }), (error) => CanopyError.is(error));
});
