/** Incremental prefill over real engines with nothing said about it, nor about tokenizers, in the configuration. */
import { cpSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { assertOverlap, overlapOf, tokensKnown } from "../e2e/overlap_share.ts";
import { startBinary } from "../e2e/binary.ts";
import { type EngineProcess, startEngine, tinyModel } from "./engine_process.ts";
import { kindsUnderTest, pairsUnderTest } from "./kinds_under_test.ts";
import { modelNames, prompts } from "./overlap_suite.ts";

/** Lengths of the answers of 4b, 8b and 32b. */
const TOKENS = [80, 240, 640] as const;

/** A 9-3-1 tree: as a user writes it, but for answers of fixed lengths. */
function configText({ engine, worker }: EngineProcess): string {
  const sampling = (tokens: number) => ({ max_tokens: tokens, temperature: 0, ignore_eos: true });
  const agents = (first?: number) =>
    modelNames.map((model, at) => ({
      model,
      sampling: sampling(TOKENS[at]!),
      ...(first === undefined ? {} : { prompt: `voice-${first + at}` }),
    }));
  return JSON.stringify({
    prompts,
    // SGLang answers to any name, but lists its first one alone.
    models: Object.fromEntries(
      modelNames.map((model) => [model, { model: modelNames[0], engine, workers: [worker] }]),
    ),
    graphs: {
      moa: {
        slots: "completion",
        layers: [
          { clusters: [1, 4, 7].map((first) => ({ agents: agents(first) })) },
          { agents: agents() },
          { agents: [{ model: "32b", sampling: sampling(48) }] },
        ],
      },
    },
  });
}

// A single SGLang server stops its streams for each warm: it leaves out those that save less than they cost.
for (const kind of [...kindsUnderTest, ...pairsUnderTest].filter(({ engine }) => engine !== "sglang")) {
  describe(`No tokenizer configured: ${kind.engine} ${kind.version}`, { concurrency: false }, () => {
    const folder = mkdtempSync(join(tmpdir(), "canopy-no-tokenizer-"));
    const modelFolder = join(folder, "tiny-qwen3");
    const config = join(folder, "canopy.jsonc");
    let engine: EngineProcess;
    before(async () => {
      cpSync(tinyModel, modelFolder, { recursive: true });
      // The scripts give the folder's name alone, which says nothing to anybody else.
      const flags = kind.engine.startsWith("vllm")
        ? ["--model", modelFolder]
        : ["--tokenizer-path", modelFolder];
      engine = await startEngine({ ...kind, modelNames, modelFolder, flags, readyTimeoutMs: 600_000 });
      writeFileSync(config, configText(engine));
    });
    after(async () => {
      await engine?.stop();
      rmSync(folder, { recursive: true });
    });

    const overlaps = (by: "router" | "engine_asked") => async (t: { diagnostic(message: string): void }) => {
      const canopy = await startBinary(["serve", config, "--port", "0"]);
      try {
        await tokensKnown(canopy.url, by);
        await assertOverlap(() => overlapOf(canopy.url, "moa", config), t);
      } finally {
        await canopy.stop();
      }
    };

    test(
      "the tokenizer is the engine's own folder: 95 % of the spliced tokens were cached",
      overlaps("router"),
    );

    test("its tokenizer is out of reach: the engine is asked, and 95 % were cached", async (t) => {
      rmSync(modelFolder, { recursive: true });
      await overlaps("engine_asked")(t);
    });
  });
}
