/**
 * What the scorer costs, each figure beside the least that could do the same work, in one run, with a model of random
 * weights in the size of Qwen3-Embedding-0.6B (`--layers N` for a smaller one):
 *
 *     deno task bench:scorer
 */
import { cpSync, mkdtempSync, rmSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { SystemClock } from "../base/clock.ts";
import { EmbeddingTokenizer } from "../scorer/embedders/onnx_tokens.ts";
import { loadOnnxRuntime } from "../onnx/runtime.ts";
import { SimilarityGraphs } from "../scorer/onnx/similarity_graphs.ts";
import { delayWhile, similarityCost, stepping } from "./scorer_bench_measures.ts";
import { qwen06, writeModel } from "./scorer_bench_model.ts";
import { answerOf, BenchScorer, type Cost } from "./scorer_bench_scorer.ts";

const clock = new SystemClock();
const line = (name: string, ...figures: string[]) =>
  process.stdout.write(`${name.padEnd(58)}${figures.map((figure) => figure.padStart(18)).join("")}\n`);
const ms = (value: number) => `${value.toFixed(value < 10 ? 2 : 0)} ms`;
const percent = (value: number) => `${(value * 100).toFixed(1)} %`;

const layersAt = process.argv.indexOf("--layers");
const layers = layersAt < 0 ? qwen06.layers : Number(process.argv[layersAt + 1]);
const threads = Math.max(1, availableParallelism() - 1);
const folder = mkdtempSync(join(tmpdir(), "canopy-scorer-"));
try {
  const fixture = fileURLToPath(new URL("../tests/fixtures/tiny-qwen3-embedding/", import.meta.url));
  for (const name of ["tokenizer.json", "tokenizer_config.json"]) {
    cpSync(join(fixture, name), join(folder, name));
  }
  const path = writeModel(folder, { ...qwen06, layers });
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

  line("\nFrom the last token to the similarity, streamed answers", "time", "CPU", "CPU, against 256");
  const first = await scorer.tail(answerOf(tokenizer, 256 - 32, "tail"));
  const tail = (name: string, cost: Cost) =>
    line(name, ms(cost.ms), ms(cost.cpuMs), percent(cost.cpuMs / first.cpuMs));
  tail("224 tokens", first);
  for (const tokens of [992, 2016]) {
    tail(`${tokens} tokens`, await scorer.tail(answerOf(tokenizer, tokens, "tail")));
  }
  await scorer.close();
  const bounded = await BenchScorer.start({ clock, folder, path, threads, maxTokens: 2048 });
  tail(
    "2048 tokens, the most that are embedded by default",
    await bounded.tail(answerOf(tokenizer, 2100, "tail")),
  );

  line("\nDelay of timers in the router's thread", "p50", "p99");
  const idle = await delayWhile(clock, () => clock.sleep(2000));
  const busy = await delayWhile(clock, () => bounded.embed(answerOf(tokenizer, 800, "busy")));
  line("idle", ms(idle.p50), ms(idle.p99));
  line("while the scorer embeds", ms(busy.p50), ms(busy.p99));
  await bounded.close();

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
