import assert from "node:assert/strict";
import { test } from "node:test";
import { VirtualClock } from "../../../base/clock.ts";
import { configSchema, type ModelConfig } from "../../../cfgs/schema/config.ts";
import type { ModelTokenizer } from "../../../ml/tokenizers/model_tokenizer.ts";
import {
  findTokenizer,
  noTokenizerText,
  type TokenizerNames,
  tokenizerSources,
} from "../../../router/served/find_tokenizer.ts";
import { MemoryTransport } from "../../../router/transport/memory.ts";
import { builtinTokenizer } from "../../../simulator/server/backend.ts";
import { createSimulator } from "../../../simulator/simulator.ts";
import { BUILTIN_TOKENIZER } from "../../../simulator/text/tokenizer.ts";

function modelOf(fields: Record<string, unknown>): ModelConfig {
  return configSchema.parse({ models: { m: { model: "org/m", engine: "vllm", ...fields } } }).models["m"]!;
}

const workerAt = (url: string, ...names: string[]): TokenizerNames => ({ url, headers: {}, names });

test("The configured tokenizer comes alone; else what workers name comes before the model itself", () => {
  const near = workerAt("http://127.0.0.1:1", "/models/m");
  const far = workerAt("http://10.0.0.7:1", "/models/elsewhere", "org/other");
  assert.deepEqual(tokenizerSources(modelOf({ tokenizer: "x/y" }), [near]), ["x/y"]);
  assert.deepEqual(tokenizerSources(modelOf({ tokenizer: false }), [near]), []);
  assert.deepEqual(tokenizerSources(modelOf({ engine: "openai" }), [near]), []);
  // A folder on another host is none of ours, a Hub id means the same everywhere.
  assert.deepEqual(tokenizerSources(modelOf({}), [near, far]), ["/models/m", "org/other", "org/m"]);
  const launched = modelOf({ model: "served-name", launch: { weights: "org/weights" } });
  assert.deepEqual(tokenizerSources(launched, []), ["org/weights", "served-name"]);
  assert.deepEqual(tokenizerSources(modelOf({}), [workerAt("http://10.0.0.7:1", BUILTIN_TOKENIZER)]), [
    BUILTIN_TOKENIZER,
    "org/m",
  ]);
});

/** A simulated vLLM server, and what `find` makes of it. */
function world(load: (source: string) => Promise<ModelTokenizer>) {
  const clock = new VirtualClock();
  const simulator = createSimulator({ engine: "vllm", models: ["org/m"], cost: "instant", clock, seed: "s" });
  const transport = new MemoryTransport(() => (request, signal) => simulator.handle(request, signal));
  const find = (fields: Record<string, unknown> = {}, names: string[] = []) =>
    findTokenizer({
      config: modelOf(fields),
      workers: [workerAt("http://127.0.0.1:1", ...names)],
      load,
      clock,
      transport,
      signal: new AbortController().signal,
    });
  return { clock, find };
}

test("The first source that has it is taken, and those before it are passed over", async () => {
  const asked: string[] = [];
  const { clock, find } = world((source) => {
    asked.push(source);
    return source === "org/m"
      ? Promise.resolve(builtinTokenizer())
      : Promise.reject(new Error("it is not there"));
  });
  await clock.run(async () => {
    const found = await find({}, ["/models/m"]);
    assert.deepEqual(asked, ["/models/m", "org/m"]);
    assert.ok("tokenizer" in found);
    assert.equal(found.source, "org/m");
  });
});

/** The built-in tokenizer but for one thing. */
function variant(more: Partial<ModelTokenizer>): ModelTokenizer {
  const own = builtinTokenizer();
  return {
    vocabSize: own.vocabSize,
    hasChatTemplate: true,
    encode: (text) => own.encode(text),
    decode: (ids, options) => own.decode(ids, options),
    renderChat: (messages, options) => own.renderChat(messages, options),
    ...more,
  };
}

test("A tokenizer that is not the workers' own is not used, unless the configuration names it", async () => {
  const other = variant({ encode: (text) => [...text].map((_, index) => index) });
  const { clock, find } = world(() => Promise.resolve(other));
  await clock.run(async () => {
    assert.deepEqual(await find(), {
      refusal: 'that of "org/m" is not the one of http://127.0.0.1:1',
      tells: "http://127.0.0.1:1",
    });
    assert.ok("tokenizer" in await find({ tokenizer: "org/other" }));
  });
});

test("Nor is one whose chat template differs from the workers', or cannot be rendered here", async () => {
  const templates = [
    { renderChat: () => "<user>?", says: /has another chat template than http:\/\/127\.0\.0\.1:1/ },
    {
      renderChat: () => {
        throw new Error("strftime_now is not defined");
      },
      says: /cannot be used here \(strftime_now is not defined\)/,
    },
  ];
  for (const { renderChat, says } of templates) {
    const { clock, find } = world(() => Promise.resolve(variant({ renderChat })));
    await clock.run(async () => {
      const found = await find();
      assert.match("refusal" in found ? found.refusal : "", says);
    });
  }
});

test("What cannot be had is one line with its reason and the remedy", async () => {
  const { clock, find } = world((source) =>
    Promise.reject(
      new Error(
        `Cannot load the tokenizer of "${source}": HF_HUB_OFFLINE forbids to fetch it; set \`tokenizer\` to x`,
      ),
    )
  );
  await clock.run(async () => {
    const found = await find();
    assert.ok("refusal" in found);
    const line = noTokenizerText("m", found.refusal);
    assert.ok(!line.includes("\n"));
    assert.match(
      line,
      /^models\.m: no tokenizer, .*not prefilled ahead.*answers that break off begin anew.*HF_HUB_OFFLINE forbids to fetch it; set models\.m\.tokenizer/,
    );
    // This server tokenises when it is asked: then that is said.
    assert.equal(found.tells, "http://127.0.0.1:1");
    assert.match(
      noTokenizerText("m", found.refusal, found.tells),
      /^models\.m: no tokenizer, so http:\/\/127\.0\.0\.1:1\/tokenize is asked, .*forbids to fetch it; set models\.m\.tokenizer/,
    );
  });
});
