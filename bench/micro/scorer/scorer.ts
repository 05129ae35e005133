/**
 * Cost of the scorer, each figure beside the least that could do the same work, in one run, with a model of random
 * weights in the size of Qwen3-Embedding-0.6B (`--layers N` for a smaller one):
 *
 *     deno task bench:scorer
 */
import { cpSync, mkdtempSync, rmSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { SystemClock } from "../../../base/clock.ts";
import { numberAfter } from "../flags.ts";
import { loopDelayWhile } from "../loop_delay.ts";
import { answerOf, BenchScorer, type Cost } from "./bench_scorer.ts";
import { similarityCost, stepping } from "./measures.ts";
import { QWEN06, writeModel } from "./model.ts";
import { loadOnnxRuntime } from "../../../ml/onnx/runtime.ts";
import { EmbeddingTokenizer } from "../../../scorer/embedders/embedding_tokenizer.ts";
import { SimilarityGraphs } from "../../../scorer/onnx/similarity_graphs.ts";

const clock = new SystemClock();
const line = (name: string, ...figures: string[]) =>
  process.stdout.write(`${name.padEnd(58)}${figures.map((figure) => figure.padStart(18)).join("")}\n`);
const ms = (value: number) => `${value.toFixed(value < 10 ? 2 : 0)} ms`;
const percent = (value: number) => `${(value * 100).toFixed(1)} %`;

const layers = numberAfter("--layers", QWEN06.layers);
const threads = Math.max(1, availableParallelism() - 1);
const folder = mkdtempSync(join(tmpdir(), "canopy-scorer-"));
try {
  const fixture = fileURLToPath(new URL("../../../tests/fixtures/tiny-qwen3-embedding/", import.meta.url));
  for (const name of ["tokenizer.json", "tokenizer_config.json"]) {
    cpSync(join(fixture, name), join(folder, name));
  }
  const path = writeModel(folder, { ...QWEN06, layers });
  const tokenizer = await EmbeddingTokenizer.load(folder);
  const runtime = await loadOnnxRuntime();
  process.stdout.write(
    `${layers} layers of Qwen3-Embedding-0.6B, int8, random weights; threads of the model: ${threads}\n`,
  );

  const scorer = await BenchScorer.start({ clock, folder, path, threads, maxTokens: 4096 });
  line("\n512 tokens", "tokens/s", "CPU ms/token");
  const text = answerOf(tokenizer, 511, "throughput");
  const { bare, whole, scored } = await stepping({
    clock,
    runtime,
    path,
    threads,
    scorer,
    tokenizer,
    text,
    rounds: 3,
  });
  const row = (name: string, { ms: wall, cpuMs }: { ms: number; cpuMs: number }) =>
    line(name, (512 / wall * 1000).toFixed(0), (cpuMs / 512).toFixed(2));
  row("bare onnxruntime-node, the same steps of 64", bare);
  row("scorer, in its thread", scored);
  row("bare onnxruntime-node, in one go", whole);
  line(
    "scorer / bare, the same steps: speed, CPU",
    percent(bare.ms / scored.ms),
    percent(scored.cpuMs / bare.cpuMs),
  );

  line(
    "\nFrom the last token to the similarity, streamed answers",
    "time",
    "CPU",
    "against 256: time",
    "CPU",
  );
  const tails = async (form: string, scorer: BenchScorer) => {
    const costs = new Map<number, Cost>();
    for (const tokens of [224, 992, 2016]) {
      // The least: what else the machine does only ever adds.
      const text = answerOf(tokenizer, tokens, "tail");
      const rounds = [await scorer.tail(text), await scorer.tail(text)];
      costs.set(tokens, rounds.reduce((least, cost) => cost.cpuMs < least.cpuMs ? cost : least));
      const [own, first] = [costs.get(tokens)!, costs.get(224)!];
      const against = [percent(own.ms / first.ms), percent(own.cpuMs / first.cpuMs)];
      line(`${form}, ${tokens} tokens`, ms(own.ms), ms(own.cpuMs), ...against);
    }
  };
  await tails("standard operators", scorer);
  await scorer.close();
  const fused = mkdtempSync(join(folder, "fused-"));
  const fusedPath = writeModel(fused, { ...QWEN06, layers }, "features", "fused");
  const inPlace = await BenchScorer.start({ clock, folder, path: fusedPath, threads, maxTokens: 4096 });
  await tails("fused attention", inPlace);

  const busyText = answerOf(tokenizer, 200, "busy");
  const { idle, busy } = await loopDelayWhile(clock, 11, () => inPlace.embed(busyText));
  for (const [what, of] of [["1 ms timers", "timers"], ["messages", "messages"]] as const) {
    line(`\nDelay of ${what} in the router's thread`, "p50", "p99");
    line("idle", ms(idle[of].p50), ms(idle[of].p99));
    line("while the scorer embeds", ms(busy[of].p50), ms(busy[of].p99));
  }
  await inPlace.close();

  line("\nFCS, 1,024 dimensions", "per answer", "per pair");
  const graphs = await SimilarityGraphs.open(runtime, threads);
  for (const rows of [128, 512, 1024, 2048]) {
    const { answerMs, pairMs } = await similarityCost(clock, graphs, rows, 1024);
    line(`${rows} tokens, at the answer's end`, ms(answerMs), ms(pairMs));
  }
  await graphs.close();
} finally {
  rmSync(folder, { recursive: true });
}
