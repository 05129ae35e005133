/**
 * The modes of the paper on real transformers in this process: how long a question takes end to end, and how long an
 * agent's first token takes when the last answer that it reads is there. Without `--model` the models are three of
 * random weights in the form of Qwen3-0.6B with 1, 2 and 4 layers, whose answers are noise. All answers have fixed
 * lengths, whatever their ends would be; with one model in all places the agents take different ones in turn, for
 * models of different sizes do not end together either. Exits are drawn by lot: what is measured is what they save.
 *
 *     deno task bench:embedded-tree [--model FOLDER_OR_ID] [--layers 1,2,4] [--tokens 64] [--rounds 3]
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { SystemClock } from "../../../base/clock.ts";
import { Random } from "../../../base/random.ts";
import {
  askMode,
  MODE_NAMES,
  modeGraphs,
  type ModeRun,
  newQuestion,
} from "../../experiments/embedded_tree.ts";
import { numberAfter, textAfter } from "../flags.ts";
import { median } from "../measure.ts";
import { QWEN06, writeModel } from "../scorer/model.ts";
import { configSchema } from "../../../cfgs/schema/config.ts";
import { startEmbeddedModels } from "../../../embedded/start_models.ts";
import { createRouter } from "../../../router/router.ts";
import { systemTransport } from "../../../router/transport/system.ts";
import { LexicalEmbedder } from "../../../scorer/embedders/lexical_embedder.ts";
import { ExitAudit } from "../../../scorer/audit/exit_audit.ts";
import { exitPolicyOf, runConsensusOf } from "../../../scorer/exit_policy_of.ts";
import { verdictPrompt, yesProbability } from "../../../scorer/policy/verdict_prompt.ts";
import { InlineScorer } from "../../../scorer/thread/inline_scorer.ts";
import { BuiltinTokenizer } from "../../../simulator/text/tokenizer.ts";

const QUESTION_WORDS = 150;

const real = textAfter("--model", "");
const layers = textAfter("--layers", "1,2,4").split(",").map(Number);
/** By agent, in turn. */
const tokens = textAfter("--tokens", real === "" ? "64" : "32,48,64").split(",").map(Number);
const rounds = numberAfter("--rounds", 3);
const write = (text: string) => process.stdout.write(`${text}\n`);

const folder = mkdtempSync(join(tmpdir(), "canopy-tree-"));
const clock = new SystemClock();
const network = systemTransport();
const { signal } = new AbortController();
const tokenizer = new BuiltinTokenizer();
try {
  const sources = real === "" ? layers.map(randomModel) : [real];
  const names = sources.map((_, index) => `m${index + 1}`);
  const config = configSchema.parse({
    server: { log_level: "error" },
    models: Object.fromEntries(names.map((name, index) => [name, { model: sources[index], engine: "onnx" }])),
    graphs: modeGraphs(
      names,
      tokens,
      { temperature: 0.7, ignore_eos: true },
      { metric: "random", probability: 0.5, min_agents: 2 },
    ),
  });
  const random = new Random("bench");
  const embedded = await startEmbeddedModels(config, {
    clock,
    random,
    transport: network,
    env: process.env,
    signal,
    tokenizer: real === "" ? tokenizer : undefined,
  });
  const router = createRouter({
    config: embedded.config,
    clock,
    random,
    transport: embedded.transport,
    earlyExit: {
      scorer: new InlineScorer(new LexicalEmbedder({ maxTokens: 2_048 }), { clock, maxQueued: 256 }),
      verdict: { prompt: verdictPrompt, yes: yesProbability },
      policyOf: exitPolicyOf,
      consensusOf: runConsensusOf,
      auditOf: (settings) => new ExitAudit(settings),
    },
    ...(real === "" ? { loadTokenizer: () => Promise.resolve(tokenizer) } : {}),
  });
  try {
    const { url } = await router.listen({ host: "127.0.0.1", port: 0 });
    await router.ready();
    const what = real === ""
      ? `models of random weights: Qwen3-0.6B's form with ${layers.join(", ")} layers, int8`
      : `${real} in all places`;
    write(
      `${what}; ${
        tokens.join(", ")
      } tokens per answer; ${availableParallelism()} cores; medians of ${rounds} questions`,
    );
    const runs = new Map<string, ModeRun[]>(Object.keys(MODE_NAMES).map((mode) => [mode, []]));
    for (let round = 0; round <= rounds; round++) {
      for (const [mode, list] of runs) {
        const question = newQuestion(QUESTION_WORDS, `${mode}/${round}`);
        const run = await askMode({ router, url, transport: network, clock }, mode, question, signal);
        // The first round warms the compiler up.
        if (round > 0) list.push(run);
      }
    }
    const row = (...cells: string[]) =>
      write(cells.map((cell, index) => index === 0 ? cell.padEnd(42) : cell.padStart(22)).join(""));
    row("", "end to end, s", "aggregator's gap, ms", "root's gap, ms", "prompt cached, %");
    for (const [mode, list] of runs) {
      const of = (figure: (run: ModeRun) => number) => median(list.map(figure));
      row(
        MODE_NAMES[mode] ?? mode,
        (of((run) => run.endToEndMs) / 1000).toFixed(2),
        of((run) => run.aggregatorGapMs).toFixed(0),
        of((run) => run.rootGapMs).toFixed(0),
        of((run) => 100 * run.cachedTokens / run.promptTokens).toFixed(0),
      );
    }
    write("gap: from the last token of the last answer that it reads to an agent's own first token");
  } finally {
    await router.close();
    await embedded.close();
  }
} finally {
  await network.close();
  rmSync(folder, { recursive: true });
}

/** Writes a model of so many layers; gives its folder. */
function randomModel(count: number, index: number): string {
  const at = join(folder, `m${index}`);
  mkdirSync(at);
  writeModel(at, { ...QWEN06, layers: count, vocabulary: tokenizer.vocabSize }, "logits");
  writeFileSync(join(at, "config.json"), JSON.stringify({ max_position_embeddings: 8192 }));
  return at;
}
