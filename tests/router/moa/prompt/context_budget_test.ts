import assert from "node:assert/strict";
import { test } from "node:test";
import { runEncodeJob } from "../../../../ml/tokenizers/encode_job.ts";
import { EncoderThreads } from "../../../../ml/tokenizers/encoder_threads.ts";
import type { ModelTokenizer } from "../../../../ml/tokenizers/model_tokenizer.ts";
import type { Prompt } from "../../../../router/engines/engine.ts";
import { characterTokenizer, makeWorld, readAll } from "../run_harness.ts";

const CONTEXT = 2000;

/** What the root is sent whose precursors write these answers. */
async function rootPrompt(tokenizer: ModelTokenizer, answers: readonly string[]): Promise<Prompt> {
  const world = makeWorld({
    graph: {
      layers: [{ agents: answers.map((_, index) => ({ model: `m${index}` })) }, {
        agents: [{ model: "root" }],
      }],
      sampling: { max_tokens: 16 },
    },
    models: [...answers.map((_, index) => `m${index}`), "root"],
    modelFields: { context_tokens: CONTEXT },
    capabilities: { tokenIds: true },
    tokenizer,
    script: ({ model }) => ({ pieces: [model === "root" ? "ok" : answers[Number(model.slice(1))]!] }),
  });
  await world.clock.run(() => readAll(world.start()));
  world.assertIdle();
  return world.engines.get("root")!.calls[0]!.request.prompt;
}

/** A tokenizer whose threads are none, and the longest list of ids that came from them. */
function threaded(): { readonly tokenizer: ModelTokenizer; longest: number; most: number } {
  const seen = { longest: 0, most: 0 };
  const threads = new EncoderThreads({
    files: () => Promise.resolve({ source: "", tokenizer: "", config: undefined, chatTemplate: undefined }),
    start: (_, { message }) => {
      let text = "";
      return {
        post(job) {
          if ("part" in job) text += job.part;
          else if ("text" in job) {
            const encoded = runEncodeJob(characterTokenizer, { ...job, text: text + job.text });
            text = "";
            seen.longest = Math.max(seen.longest, encoded.ids.length);
            seen.most = Math.max(seen.most, encoded.tokens);
            queueMicrotask(() => message({ kind: "encoded", ...encoded }));
          } else if ("ids" in job) {
            const decoded = characterTokenizer.decode([...job.ids]);
            queueMicrotask(() => message({ kind: "text", text: decoded }));
          }
        },
        keepAlive() {},
        terminate() {},
      };
    },
    clock: { unixEpochMs: 0, now: () => 0, timer: () => () => {}, sleep: () => Promise.resolve() },
  });
  return Object.assign(seen, { tokenizer: { ...characterTokenizer, longTexts: threads } });
}

test("answers far beyond a context are cut as they are without threads, and never listed as millions of ids", async () => {
  const answers = ["begin " + "word ".repeat(400_000) + "end", "short"];
  const expected = await rootPrompt(characterTokenizer, answers);
  const seen = threaded();
  assert.deepEqual(await rootPrompt(seen.tokenizer, answers), expected);
  assert.ok(expected.kind === "tokens" && expected.ids.length < CONTEXT && expected.tokens === undefined);
  const text = characterTokenizer.decode(expected.ids);
  assert.match(text, /begin .*\[199\d{4} tokens left out\].*end.*short/s);
  assert.ok(seen.most > 2_000_000);
  assert.ok(seen.longest <= 2 * CONTEXT, `a list of ${seen.longest} ids`);
});
