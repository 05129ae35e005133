/**
 * How long an agent's first token takes after its last precursor's last one, with and without incremental prefill, on
 * a model of 85 M parameters whose prompts really take time.
 */
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { after, before, describe, test } from "node:test";
import { type CanopyProcess, configText, lastRun, startCanopy, type TestGraph } from "./canopy_process.ts";
import { becomesIdle, type EngineProcess, enginesFolder, startEngine } from "./engine_process.ts";
import { send } from "./http_request.ts";
import { kindsUnderTest, pairsUnderTest } from "./kinds_under_test.ts";

const model = "small-qwen3";
const modelFolder = join(enginesFolder, model);

/** Precursors that end one after the other, as ones of different models and lengths do. */
const lengths = [300, 450, 600, 750, 900];
const prompts = {
  ...Object.fromEntries(
    lengths.map((_, at) => [`voice-${at}`, `Speak as voice number ${at}: [input_prompts]`]),
  ),
  aggregate: "Answer this question: [input_prompts]\n\nWith the help of these answers:\n\n[responses]",
};
const graph = (incrementalPrefill: "off" | "on"): TestGraph => ({
  layers: [
    [lengths.map((max_tokens, at) => ({
      model,
      sampling: { max_tokens, temperature: 0, ignore_eos: true },
      prompt: `voice-${at}`,
    }))],
    [[{ model, sampling: { max_tokens: 16, temperature: 0, ignore_eos: true }, prompt: "aggregate" }]],
  ],
  incrementalPrefill,
});
const graphs = { cold: graph("off"), warmed: graph("on") };

const messages = [{
  role: "user",
  content: Array.from({ length: 60 }, (_, at) => `Fact ${at * 37 % 61} holds.`).join(" "),
}];

/** By default only vLLM; another with CANOPY_FIRST_TOKEN, such as `sglang-0.5.23`. */
const wanted = process.env["CANOPY_FIRST_TOKEN"] ?? "vllm-0.32.0";
const kinds = [...kindsUnderTest, ...pairsUnderTest]
  .filter(({ engine, version }) => wanted.split(",").includes(`${engine}-${version}`));

for (const kind of kinds) {
  describe(`First token over ${kind.engine} ${kind.version}, 85 M parameters`, { concurrency: false }, () => {
    let engine: EngineProcess;
    let canopy: CanopyProcess;
    before(async () => {
      assert.ok(existsSync(modelFolder), "the model is missing: run tests/engines/setup_small_model.sh");
      engine = await startEngine({ ...kind, modelFolder, modelNames: [model] });
      canopy = await startCanopy(configText([engine], graphs, prompts));
    });
    after(async () => {
      await canopy?.stop();
      await engine?.stop();
    });

    async function firstTokenMs(name: keyof typeof graphs) {
      assert.ok(await becomesIdle(engine, 5000), "the engine is busy before the test");
      const answer = await send("POST", `${canopy.url}/v1/chat/completions`, { model: name, messages });
      assert.equal(answer.status, 200, answer.text);
      const run = await lastRun(canopy.url);
      const root = run.agents.at(-1)!;
      const lastEndMs = Math.max(
        ...run.agents.slice(0, -1).map(({ ended_at_ms }) => ended_at_ms ?? Infinity),
      );
      const usage = run.usage.agents.find(({ agent }) => agent === root.id)!;
      return {
        ms: root.first_token_at_ms! - lastEndMs,
        text: root.text,
        precursorsMs: lastEndMs,
        prompt: usage.prompt_tokens,
        cached: usage.cached_tokens ?? 0,
        stopped: run.events.find(({ type }) => type === "warm_stopped")?.data,
      };
    }

    test("the first token comes at least ten times sooner, and is the same", async (t) => {
      // An engine's first long prompt is slower than all others.
      const prompt = Array.from({ length: 3000 }, (_, at) => 300 + at * 7 % 997);
      await send("POST", `${engine.url}/v1/completions`, { model, prompt, max_tokens: 1 });
      const cold = await firstTokenMs("cold");
      const warmed = await firstTokenMs("warmed");
      for (const [name, { ms, prompt, cached, precursorsMs, stopped }] of Object.entries({ cold, warmed })) {
        t.diagnostic(
          `${name}: first token ${ms.toFixed(0)} ms after the last precursor (which took ` +
            `${precursorsMs.toFixed(0)} ms); ${cached} of ${prompt} tokens cached; ${
              JSON.stringify(stopped ?? {})
            }`,
        );
      }
      t.diagnostic(`ratio ${(cold.ms / warmed.ms).toFixed(1)}`);
      assert.equal(warmed.text, cold.text);
      assert.ok(cold.cached < 0.1 * cold.prompt, "the cold run was not cold");
      assert.ok(cold.ms >= 10 * warmed.ms, `${cold.ms} ms cold, ${warmed.ms} ms warmed`);
    });
  });
}
