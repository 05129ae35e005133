/**
 * Costs of the embedded engine, each figure beside a bare loop over onnxruntime-node that does the same work, in one
 * run, with a model of random weights in the size of Qwen3-0.6B (`--layers N` for a smaller one, `--fused` for ONNX
 * Runtime's fused attention, which appends to the cache where standard operators copy it):
 *
 *     deno task bench:embedded
 */
import { mkdtempSync, rmSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { SystemClock } from "../../../base/clock.ts";
import { logger } from "../../../base/log.ts";
import { BareDecoder } from "./bare_decoder.ts";
import { generated, type Pace, peakWhile, promptOf } from "./measures.ts";
import { numberAfter } from "../flags.ts";
import { loopDelayWhile } from "../loop_delay.ts";
import { cpuMicros, median } from "../measure.ts";
import { QWEN06, writeModel } from "../scorer/model.ts";
import { WorkerGenerator } from "../../../embedded/thread/worker_generator.ts";
import { type DecoderOptions, startDecoderThread } from "../../../embedded/thread/worker_thread.ts";
import { loadOnnxRuntime } from "../../../ml/onnx/runtime.ts";

const PROMPT_TOKENS = 512;
const ANSWER_TOKENS = 48;
const ROUNDS = 3;
const MIB = 2 ** 20;

const clock = new SystemClock();
const write = (text: string) => process.stdout.write(`${text}\n`);
const line = (name: string, ...figures: string[]) =>
  write(`${name.padEnd(58)}${figures.map((figure) => figure.padStart(18)).join("")}`);
const percent = (value: number) => `${(value * 100).toFixed(1)} %`;

const layers = numberAfter("--layers", QWEN06.layers);
const vocabulary = numberAfter("--vocabulary", 32_000);
const threads = numberAfter("--threads", availableParallelism());
const form = process.argv.includes("--fused") ? "fused" : "standard";
const folder = mkdtempSync(join(tmpdir(), "canopy-embedded-"));

async function start(
  options: Omit<DecoderOptions, "threads" | "maxContextTokens">,
): Promise<WorkerGenerator> {
  return await WorkerGenerator.start({
    clock,
    log: logger("bench"),
    start: startDecoderThread,
    maxSequences: 1024,
    decoder: { threads, maxContextTokens: 8192, ...options },
  });
}

try {
  const path = writeModel(folder, { ...QWEN06, layers, vocabulary }, "logits", form);
  write(
    `${layers} layers of Qwen3-0.6B, ${form} attention, ${vocabulary} tokens in the vocabulary, int8, random weights; threads: ${threads}`,
  );
  const generator = await start({ model: "qwen", path, cacheBytes: 2048 * MIB, maxRunning: 16 });
  const bare = await BareDecoder.open(await loadOnnxRuntime(), path, threads, clock);
  let salt = 0;
  const prompt = () => promptOf(`${salt++}`, PROMPT_TOKENS, vocabulary);
  const measures: Record<string, () => Promise<Pace>> = {
    "bare onnxruntime-node, prompt in one go": () => bare.run(prompt(), ANSWER_TOKENS, PROMPT_TOKENS),
    "bare onnxruntime-node, prompt in steps of 256": () => bare.run(prompt(), ANSWER_TOKENS, 256),
    "generator, in its thread": () => generated(clock, generator, prompt(), ANSWER_TOKENS),
  };
  line(`\n${PROMPT_TOKENS} tokens, then ${ANSWER_TOKENS}`, "prompt tokens/s", "answer tokens/s", "CPU ms");
  const paces = new Map<string, (Pace & { cpuMs: number })[]>(
    Object.keys(measures).map((name) => [name, []]),
  );
  for (let round = 0; round <= ROUNDS; round++) {
    for (const [name, measure] of Object.entries(measures)) {
      let pace: Pace | undefined;
      const cpuMs = await cpuMicros(async () => pace = await measure()) / 1000;
      if (round > 0) paces.get(name)!.push({ ...pace!, cpuMs });
    }
  }
  const middles = [...paces].map(([name, all]) => ({
    name,
    prompt: median(all.map(({ promptPerSecond }) => promptPerSecond)),
    answer: median(all.map(({ answerPerSecond }) => answerPerSecond)),
    cpuMs: median(all.map(({ cpuMs }) => cpuMs)),
  }));
  for (const { name, prompt: ofPrompt, answer, cpuMs } of middles) {
    line(name, ofPrompt.toFixed(0), answer.toFixed(1), cpuMs.toFixed(0));
  }
  const [whole, steps, ours] = middles;
  for (const [name, bareOne] of [["one go", whole!], ["steps", steps!]] as const) {
    line(
      `generator / bare, ${name}`,
      percent(ours!.prompt / bareOne.prompt),
      percent(ours!.answer / bareOne.answer),
      percent(ours!.cpuMs / bareOne.cpuMs),
    );
  }

  line(`\nAnswers side by side, ${ANSWER_TOKENS} tokens each`, "all tokens/s", "to one");
  for (const length of [32, 128, PROMPT_TOKENS]) {
    let single = NaN;
    for (const count of [1, 2, 4, 8]) {
      const prompts = Array.from({ length: count }, () => promptOf(`${salt++}`, length, vocabulary));
      // Known before: what is measured is the answers.
      await Promise.all(prompts.map((ids) => generated(clock, generator, ids, 0)));
      const startMs = clock.now();
      await Promise.all(prompts.map((ids) => generated(clock, generator, ids, ANSWER_TOKENS)));
      const rate = count * ANSWER_TOKENS / (clock.now() - startMs) * 1000;
      if (count === 1) single = rate;
      line(`${count} behind ${length} tokens each`, rate.toFixed(1), percent(rate / single));
    }
  }

  const { idle, busy } = await loopDelayWhile(
    clock,
    5,
    () => Promise.all([1, 2, 3, 4].map(() => generated(clock, generator, prompt(), ANSWER_TOKENS))),
  );
  for (const [what, of] of [["1 ms timers", "timers"], ["messages", "messages"]] as const) {
    line(`\nDelay of ${what} in the router's thread, ms`, "p50", "p99");
    line("idle", idle[of].p50.toFixed(2), idle[of].p99.toFixed(2));
    line("while four sequences are computed", busy[of].p50.toFixed(2), busy[of].p99.toFixed(2));
  }
  await generator.close();
  await bare.close();

  line("\n100 prompts of 4,096 tokens at once, tiny model", "cache, MiB", "more memory, MiB");
  const tiny = fileURLToPath(new URL("../../../tests/fixtures/tiny-qwen3-onnx/model.onnx", import.meta.url));
  for (const cacheMib of [32, 128]) {
    const small = await start({ model: "tiny", path: tiny, cacheBytes: cacheMib * MIB, maxRunning: 16 });
    const run = (count: number) =>
      Promise.all(
        Array.from({ length: count }, () => generated(clock, small, promptOf(`${salt++}`, 4096, 1900), 8)),
      );
    await run(1);
    const bytes = await peakWhile(clock, () => run(100));
    const { cachedTokens, cacheCapacityTokens } = small.counts();
    line(
      `tokens in the cache ${cachedTokens} of ${cacheCapacityTokens}`,
      `${cacheMib}`,
      (bytes / MIB).toFixed(0),
    );
    await small.close();
  }
} finally {
  rmSync(folder, { recursive: true });
}
